r"""SESSION/rank-00000/crawl.log: a line for each URL that a rank has dealt with, to read or follow.

The fields are those of Heritrix's crawl.log, in its order, so that its tools read the file:

    time of the line    status    size    URL    path    referrer    type    thread
    start+milliseconds    digest    source    annotations    JSON

Without a response, the status is Heritrix's negative code. The path has an L for each link from the
seed and an R for each redirect. That of a requisite has an E for each step from its page. The
thread is the rank. What ABC doesn't know is `-`. A JSON object follows if there was an error. It
has the error class and why it happened.

The file is written for people. The log of pages is the truth, so a line that the disk has no room
for is lost. Lines are written together, because a line on its own takes five times as long. A kill
loses the lines that weren't written yet. A resume makes them from the log of pages.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Final

from crawler.ports import MEANINGS, REQUISITE, Failure, PageRow
from crawler.session.log import last_pages, logs_of

_CODES: Final = {
    Failure.BAD_URL: -7,
    Failure.DNS_NOT_FOUND: -1,
    Failure.DNS_FAILED: -1,
    Failure.PRIVATE_ADDRESS: -5001,
    Failure.NO_CONTACT: -5001,
    Failure.UNREACHABLE: -2,
    Failure.REFUSED: -2,
    Failure.CONNECT_TIMEOUT: -2,
    Failure.TLS: -2,
    Failure.DISCONNECTED: -3,
    Failure.BAD_HTTP: -3,
    Failure.TOO_LARGE: -3,
    Failure.TIMEOUT: -4,
    Failure.ROBOTS_DENIED: -9998,
    Failure.ROBOTS_UNREACHABLE: -61,
    Failure.SITE_GIVEN_UP: -8,
    Failure.SITE_FULL: -5003,
    Failure.TOO_MANY_HOSTS: -4000,
}
_OTHER: Final = -5  # an unexpected error
_LONGEST_PATH: Final = 50  # of a longer path, Heritrix writes the number of the letters left out
_TRUNCATED: Final = {"length": "lenTrunc", "time": "timeTrunc"}
_NONE: Final = "-"
_NAME: Final = "crawl.log"
_BATCH: Final = 64  # so many lines wait at most
_TAIL: Final = 1 << 18  # bytes; a batch of lines is shorter, unless its URLs are very long


class PageLog:
    """Appends lines to the crawl.log of a rank. They wait until `write` or `close`, or for others.

    What wakes up each second should call `write`, so that people see the lines in time.
    """

    def __init__(self, directory: Path) -> None:
        """`directory`: that of the rank."""
        path = directory / _NAME
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o666)
        size = os.fstat(self._file).st_size
        self._is_torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        self._waiting: list[tuple[PageRow, int, str, float]] = []  # arguments of `crawl_line`

    def add(self, row: PageRow, redirects: int, detail: str) -> None:
        """Add the line of a row. See `crawl_line` for the arguments."""
        self._waiting.append((row, redirects, detail, time.time()))
        if len(self._waiting) >= _BATCH:
            self.write()

    def write(self) -> None:
        """Write the lines that wait."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        data = "".join([crawl_line(*line) for line in waiting]).encode()
        if self._is_torn:
            data = b"\n" + data
        with contextlib.suppress(OSError):
            written = os.write(self._file, data)
            self._is_torn = written < len(data)

    def close(self) -> None:
        """Write the lines that wait, and close the file. A second call does nothing."""
        if self._file >= 0:
            self.write()
            file, self._file = self._file, -1
            os.close(file)


def restore_lines(logs: Iterable[Path]) -> None:
    """Add the lines to crawl.log that a killed rank hadn't written yet.

    `logs`: the files of the log of pages that this process reads, so that nobody else adds the same
    lines. At most a batch of the last rows of a rank lack a line. If more do, or if there is no
    crawl.log, nothing happens, because users may empty the file or delete it.
    """
    for path in logs:
        directory = path.parent.parent
        if path == logs_of(directory)[-1] and (directory / _NAME).is_file():
            _restore_lines(directory, path)


def _restore_lines(directory: Path, last_log: Path) -> None:
    told = _last_visits(directory / _NAME)
    pages = reversed(last_pages(last_log))
    lacking = list(takewhile(lambda page: _visit(page.row) not in told, pages))
    if len(lacking) > _BATCH:
        return
    crawl_log = PageLog(directory)
    for page in reversed(lacking):
        crawl_log.add(page.row, len(page.chain), "")
    crawl_log.close()


def _visit(row: PageRow) -> tuple[str, str]:
    """Return the fields that tell the line of a row from others: its URL, and start+duration."""
    start = f"{_second(int(row.time), '%Y%m%d%H%M%S')}{_milliseconds(row.time)}"
    return row.url, f"{start}+{round(row.seconds * 1000)}"


def _last_visits(path: Path) -> set[tuple[str, str]]:
    """Return `_visit` of the last lines in a crawl.log."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")[:-1]
    visits = [line.split()[3:9] for line in lines]
    return {(visit[0], visit[5]) for visit in visits if len(visit) == 6}


def crawl_line(row: PageRow, redirects: int, detail: str, now: float) -> str:
    """Return the line of a row.

    `redirects`: how many led to the URL. `detail`: more about the failure than its class, or empty.
    `now`: the time of the line, in seconds since 1970.
    """
    address, start = _visit(row)
    # Compiled, a format such as {row.rank:03} takes three times as long.
    line = (
        f"{_second(int(now), '%Y-%m-%dT%H:%M:%S')}.{_milliseconds(now)}Z"
        f" {str(_status(row)).rjust(5)}"
        f" {(_NONE if row.status is None else str(row.bytes)).rjust(10)}"
        f" {address}"
        f" {_path(row.hops, redirects, 'E' if row.role == REQUISITE else 'L')}"
        f" {_NONE}"  # a rank doesn't keep where it has found a URL
        f" {_word(row.media_type or row.content_type)}"
        f" #{str(row.rank).zfill(3)}"
        f" {start}"
        f" {row.digest or _NONE}"
        f" {_NONE}"
        f" {','.join(_annotations(row)) or _NONE}"
    )
    if row.error is not None:
        why = detail or MEANINGS[Failure(row.error)]
        line += " " + json.dumps({"error": row.error, "why": why})
    return line + "\n"


@lru_cache(256)  # many lines have the same second
def _second(seconds: int, form: str) -> str:
    return time.strftime(form, time.gmtime(seconds))


def _milliseconds(epoch_s: float) -> str:
    return str(int(epoch_s * 1000) % 1000).zfill(3)


def _status(row: PageRow) -> int:
    if row.status is not None or row.error is None:
        return row.status or 0
    return _CODES.get(Failure(row.error), _OTHER)


def _path(hops: int, redirects: int, hop: str) -> str:
    over = hops + redirects - _LONGEST_PATH
    path = hop * min(hops, _LONGEST_PATH) + "R" * min(redirects, _LONGEST_PATH)
    return f"{over}+{path[-_LONGEST_PATH:]}" if over > 0 else path or _NONE


def _annotations(row: PageRow) -> list[str]:
    words = [row.error] if row.error else []
    if row.truncated is not None:
        words.append(_TRUNCATED.get(row.truncated, "trunc"))
    if row.duplicate:
        words.append("warcRevisit:notModified" if row.status == 304 else "warcRevisit:digest")
    if row.retries:
        words.append(f"{row.retries + 1}t")
    return words


@lru_cache(256)  # there are few media types
def _word(text: str | None) -> str:
    """Return text without blanks, as one field."""
    return "".join(c if c.isprintable() and not c.isspace() else "?" for c in text or _NONE)
