"""Finds the rows of a URL, or of a site, in the logs, without decoding the other rows.

The frames of a log are walked by their lengths, about a million in a second. So this is for a user
who waits for the answer. The rows are those that the log has now, also while a rank appends to it.
"""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from crawler.ports import PageRow, UserError
from crawler.regular import regular
from crawler.session.log import FRAME, HEADER, MAGIC, PAGE, READABLE, log_files
from crawler.url import MAX_LENGTH, renamed_site

_NEAR: Final = 64  # bytes of a body before the URL of its row, at most


class _Head(msgspec.Struct, array_like=True):
    """The first field of a LoggedPage; the others aren't decoded."""

    row: PageRow


_decode = msgspec.msgpack.Decoder(_Head).decode
_encode = msgspec.msgpack.Encoder().encode


def rows_of_url(session: Path, url: str) -> list[PageRow]:
    """Return the rows of a normalised URL in all logs, the oldest first.

    Raises UserError for a log of another format, and OSError.
    """
    text = _encode(url)
    return _sorted(
        row
        for path in log_files(session)
        for row in _rows(path, text, _NEAR + len(text))
        if row.url == url
    )


def rows_of_site(session: Path, site: str) -> list[PageRow]:
    """Return the rows of a site in all logs, the oldest first. See `rows_of_url`.

    Old logs name a site with the scheme, so the name is looked for without the length before it.
    """
    text = site.encode()
    return _sorted(
        row
        for path in log_files(session)
        for row in _rows(path, text, _NEAR + MAX_LENGTH)
        if renamed_site(row.site) == site
    )


def _sorted(rows: Iterator[PageRow]) -> list[PageRow]:
    return sorted(rows, key=lambda row: row.time)


def _rows(path: Path, text: bytes, within: int) -> Iterator[PageRow]:
    """Yield the rows whose frames have a text among the first `within` bytes of their bodies."""
    with regular(path).open("rb") as file:
        if not path.stat().st_size:
            return  # an empty file can't be mapped
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _frames(path, data, text, within)


def _frames(path: Path, data: mmap.mmap, text: bytes, within: int) -> Iterator[PageRow]:
    size, at = len(data), HEADER.size
    if size < at or not data[:at].startswith(MAGIC):
        return
    version = HEADER.unpack(data[:at])[1]
    if version not in READABLE:
        raise UserError(f"{path}: log format {version}, which this program can't read")
    while at + FRAME.size < size:
        length, _ = FRAME.unpack_from(data, at)
        at += FRAME.size
        if not 0 < length <= size - at:  # a torn tail, or a row that is being written
            return
        end = at + length
        if data[at] == PAGE[0] and data.find(text, at, min(end, at + within)) >= 0:
            with suppress(msgspec.MsgspecError):  # a damaged row; `verify` finds it
                yield _decode(data[at + 1 : end]).row
        at = end
