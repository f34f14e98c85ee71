"""Compares the index of a WARC file with the records of the file."""

from pathlib import Path

from xxhash import xxh3_64_intdigest

from crawler import session
from crawler.report.verify.findings import Findings


class IndexCheck:
    """Checks the index of one WARC file, whose records are added in any order.

    Memory doesn't grow: sums of the hashes of lines are compared.
    """

    def __init__(self, warc: Path, findings: Findings) -> None:
        self._warc = warc
        self._findings = findings
        self._sum = 0

    def add(self, record: session.Record) -> None:
        """Take note of the next record."""
        entry = session.replayable(record)
        if isinstance(entry, session.Replayable):
            self._sum += xxh3_64_intdigest(session.index_line(entry, self._warc.name))

    def finish(self) -> None:
        """Compare the index with all records of the file. A file may have no index yet."""
        path = session.index_path(self._warc)
        if not path.exists():
            return
        total, before = 0, b""
        with path.open("rb") as lines:
            for line in lines:
                if line < before:
                    self._findings.add("index", path, "isn't sorted; remove it, and export")
                    return
                total, before = total + xxh3_64_intdigest(line), line
        if total != self._sum:
            what = "isn't the index of its WARC file; remove it, and export"
            self._findings.add("index", path, what)
