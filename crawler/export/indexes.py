"""The index of all WARC files of a session, from the indexes of the files."""

from pathlib import Path

from crawler import session


def indexed_warcs(directory: Path) -> tuple[list[Path], list[str]]:
    """Return the WARC files of a session, by rank and oldest first. Each of them has an index.

    The files are mended as by a resume. Indexes are made that a killed run, or an earlier version,
    didn't write. The second value has a line for each place where such a file is damaged.
    """
    ranks = session.rank_directories(directory)
    session.mend(ranks)
    warcs = [path for rank in ranks for path in session.warc_files(rank)]
    damages = [
        f"{warc} at {damage.offset:,}: {damage.what}; the index lacks this record"
        for warc, damage in session.make_indexes(warcs)
    ]
    return warcs, damages


def write_cdxj(directory: Path, target: Path) -> list[str]:
    """Write one sorted CDXJ index of all WARC files, which it names without their directories."""
    warcs, told = indexed_warcs(directory)
    records = 0
    with session.replacing(target) as file:
        for line in session.merged_indexes(warcs):
            file.write(line)
            records += 1
    return [*told, f"{target}: {records:,} records of {len(warcs):,} WARC files"]
