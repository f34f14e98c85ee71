"""What later commands do with the WARC files of ranks that have ended."""

import heapq
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from crawler.session.cdxj import IndexWriter, Replayable, index_path, read_lines
from crawler.session.records import Damage, Record, read_records
from crawler.session.warc import cut_torn_tail, warc_files

_REPLAYED: Final = frozenset(("response", "revisit"))
_INDEXED: Final = ("warc-target-uri", "warc-date", "warc-payload-digest")


def mend(directories: Iterable[Path]) -> None:
    """Cut off the records that killed ranks were writing, in their directories."""
    for directory in directories:
        for path in warc_files(directory)[-1:]:  # older files were closed in good order
            if cut_torn_tail(path):
                index_path(path).unlink(missing_ok=True)


def make_indexes(warcs: Iterable[Path]) -> Iterator[tuple[Path, Damage]]:
    """Make the indexes of those WARC files that have none. The files must be mended.

    Yields each place where such a file is damaged. Its index has the other records. Raises
    NoRoomError or OSError.
    """
    for warc in warcs:
        if not index_path(warc).exists():
            yield from ((warc, damage) for damage in _make_index(warc))


def _make_index(warc: Path) -> Iterator[Damage]:
    index = IndexWriter(warc)
    for record in read_records(warc):
        entry = record if isinstance(record, Damage) else replayable(record)
        if isinstance(entry, Damage):
            yield entry
        elif entry is not None:
            index.add(entry)
    index.write()


def replayable(record: Record) -> Replayable | Damage | None:
    """Return what an index says of a record, or None if indexes leave the record out."""
    if record.kind not in _REPLAYED:
        return None
    fields = [record.fields.get(name) for name in _INDEXED]
    if None in fields or (record.block and b" " not in record.http_head):
        return Damage(record.offset, "the record lacks a header", torn=False)
    url, date, payload_digest = map(str, fields)
    place = record.offset, record.length
    return Replayable(record.kind, url, date, record.http_head, payload_digest, *place)


def merged_indexes(warcs: Iterable[Path]) -> Iterator[bytes]:
    """Yield the lines of the indexes of several WARC files, sorted together.

    No file stays open, because a session may have more of them than a process may open.
    """
    indexes = map(index_path, warcs)
    return heapq.merge(
        *(read_lines(partial(_read_at, path), 0, path.stat().st_size) for path in indexes)
    )


def _read_at(path: Path, size: int, offset: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        return file.read(size)
