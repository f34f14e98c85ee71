"""The tables of page handlers, tables/NAME/*.jsonl, which are made from the logs (docs/extend.md).

There is a file for each rank. Each line is a JSON object: the row of the handler, and before it the
page's `url` and `fetched_at`.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from crawler.ports import UserError
from crawler.regular import regular
from crawler.session.files import unfinished
from crawler.session.log import LoggedPage

_NAME: Final = re.compile(r"\w[\w.-]*")  # becomes the name of a directory
_TAKEN: Final = frozenset(("pages", "links", "anchors", "sites"))  # the other tables
_json = msgspec.json.Encoder().encode


def handled_files(tables: Path, name: str) -> list[Path]:
    """Return the files of a table, in the directory of the tables. Raises UserError.

    Sessions of earlier versions have one file.
    """
    directory = _directory(tables, name)
    old = tables / f"{name}.jsonl"
    return sorted(directory.glob("[0-9]*.jsonl")) if directory.is_dir() else [old][: old.exists()]


def check_handler_name(name: str) -> None:
    """Raise UserError if no page handler can have this name, because its table couldn't."""
    _directory(Path(), name)


def _directory(tables: Path, name: str) -> Path:
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise UserError(f"{name!r}: no name of a page handler")
    return tables / name


def _lines_of(page: LoggedPage) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of a page for each table, as (name of the handler, lines)."""
    for name, rows in page.rows.items():
        time = datetime.fromtimestamp(page.row.time, UTC)
        head = _json({"url": page.row.url, "fetched_at": time})[:-1]
        lines = rows.splitlines(keepends=True)
        yield name, b"".join(head + b","[line[1:2] == b"}" :] + line[1:] for line in lines)


class RowTables:
    """Writes the rows of one rank into new files, which `finish_file` makes visible."""

    def __init__(self, tables: Path, number: str) -> None:
        """`number`: the name of the files, without their suffix."""
        self._tables = tables
        self._number = number
        self._files: dict[Path, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def finish(self) -> list[Path]:
        """Close the files and force them to disk. Returns the names that they are to get."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        self._stack.close()
        return list(self._files)

    def add(self, page: LoggedPage) -> None:
        """Write the rows of a page. Raises OSError."""
        if not page.packed_rows:  # as most pages; the rest takes longer than a look at it
            return
        for name, lines in _lines_of(page):
            path = _directory(self._tables, name) / f"{self._number}.jsonl"
            if path not in self._files:
                self._files[path] = self._stack.enter_context(unfinished(path).open("xb"))
            self._files[path].write(lines)


class RowChecks:
    """Compares the tables with the rows in the logs of one rank."""

    def __init__(self, tables: Path, number: str) -> None:
        """`number`: as in `RowTables`. It is empty for a session of an earlier version."""
        self._tables = tables
        self._number = number
        self._files: dict[Path, BinaryIO] = {}
        self._wrong: dict[Path, str] = {}
        self._stack = ExitStack()

    def add(self, page: LoggedPage) -> None:
        """Compare the rows of a page with what stands next in the tables."""
        for name, lines in _lines_of(page):
            path = _directory(self._tables, name) / f"{self._number}.jsonl"
            if not self._number:
                path = path.parent.with_name(f"{name}.jsonl")
            if path in self._wrong:
                continue
            try:
                if path not in self._files:
                    self._files[path] = self._stack.enter_context(regular(path).open("rb"))
                if self._files[path].read(len(lines)) != lines:
                    self._wrong[path] = f"the rows of {page.row.url} are others than in the log"
            except OSError as error:
                self._wrong[path] = str(error.strerror)

    def differences(self) -> Iterator[str]:
        """Yield the differences, once all pages are added."""
        for path, file in self._files.items():
            if path not in self._wrong and file.read(1):
                self._wrong[path] = "more rows than the logs give"
        self._stack.close()
        for path, words in self._wrong.items():
            yield f"{path.relative_to(self._tables)}: {words}"
