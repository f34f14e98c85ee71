"""The tables of page handlers, tables/NAME.jsonl, which are made from the logs (docs/extend.md).

Each line is a JSON object: the row of the handler, and before it the page's `url` and `fetched_at`.
"""

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
from crawler.session.log import LoggedPage

_NAME: Final = re.compile(r"\w[\w.-]*")  # becomes a part of the name of a file
_json = msgspec.json.Encoder().encode


def handled_table(directory: Path, name: str) -> Path:
    """Return the file of a table, in the directory of the tables. Raises UserError."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r}: no name of a page handler")
    return directory / f"{name}.jsonl"


def _lines_of(page: LoggedPage) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of a page for each table, as (name of the handler, lines)."""
    for name, rows in page.rows.items():
        time = datetime.fromtimestamp(page.row.time, UTC)
        head = _json({"url": page.row.url, "fetched_at": time})[:-1]
        lines = rows.splitlines(keepends=True)
        yield name, b"".join(head + b","[line[1:2] == b"}" :] + line[1:] for line in lines)


class RowTables:
    """Writes the tables into new files, which replace the old ones at last."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
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
        for path in self._files:
            _new(path).unlink(missing_ok=True)

    def add(self, page: LoggedPage) -> None:
        """Write the rows of a page. Raises OSError."""
        for name, lines in _lines_of(page):
            path = handled_table(self._directory, name)
            if path not in self._files:
                _new(path).unlink(missing_ok=True)  # an old file there may be a symbolic link
                self._files[path] = self._stack.enter_context(_new(path).open("xb"))
            self._files[path].write(lines)

    def replace(self) -> None:
        """Let the new files replace the old ones."""
        self._stack.close()
        for path in self._files:
            _new(path).replace(path)


class RowChecks:
    """Compares the tables with the rows in the logs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Path, BinaryIO] = {}
        self._wrong: dict[Path, str] = {}
        self._stack = ExitStack()

    def add(self, page: LoggedPage) -> None:
        """Compare the rows of a page with what stands next in the tables."""
        for name, lines in _lines_of(page):
            path = handled_table(self._directory, name)
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
            yield f"{path.name}: {words}"


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")
