"""Compares the tables with the logs, together: each process makes the rows of its units again."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from crawler.dataset import table_path
from crawler.ports import Peers
from crawler.regular import regular
from crawler.session.columns import SCHEMAS, SiteRow
from crawler.session.handled import RowChecks
from crawler.session.log import LoggedPage, rank_directories
from crawler.session.retried import Superseded
from crawler.session.tables import (
    FORMAT,
    OPTIONAL,
    Correct,
    Counts,
    as_logged,
    made_rows,
    made_sites,
    route_sites,
)
from crawler.session.together import Alone, everywhere, mine
from crawler.session.units import Unit, units

_LATEST_COLUMNS: Final = frozenset(  # tables of this format may lack these
    ("crawl_delay", "title", "language", "requisites", "role")
)
_NEW_COLUMNS: Final = _LATEST_COLUMNS.union(
    ("requests", "smallest_gap", "promised_gap", "impolite", "alike", "media_type")
)


async def check_tables(session: Path, peers: Peers, correct: Correct = as_logged) -> list[str]:
    """Return the differences between the tables and the logs, as text, on each process.

    At most one difference is given for each row group that a log gives. `correct`: as in
    `write_tables`.
    """
    tables = session / "tables"
    if not await peers.bcast(table_path(tables, "pages").is_file()):
        every = await peers.bcast(units(session))
        found = await _check(session, tables, every, peers, correct)
        return [line for lines in await everywhere(peers, found) for line in lines]
    # An earlier version has written one file for all ranks, so one process checks it.
    lines: list[str] = []
    if peers.rank == 0:
        unit = Unit("", rank_directories(session))
        lines = await _check(session, tables, [unit], Alone(), correct)
    return await peers.bcast(lines)


async def _check(
    session: Path, tables: Path, every: list[Unit], peers: Peers, correct: Correct
) -> list[str]:
    lines: list[str] = []
    own = mine(every, peers)
    sites: dict[str, SiteRow] = {}
    is_superseded = await Superseded.together(
        session, [path for unit in own for path in unit.logs], peers
    )
    with ExitStack() as stack:
        files = [stack.enter_context(_UnitFiles(tables, unit.name)) for unit in own]
        is_old = any(await everywhere(peers, any(one.is_old for one in files)))
        for unit, its in zip(own, files, strict=True):
            handled = RowChecks(tables, unit.name)

            def see(page: LoggedPage, handled: RowChecks = handled) -> LoggedPage:
                handled.add(page)
                return correct(page)

            made = made_rows(unit, is_superseded, see, Counts(), sites, renamed=not is_old)
            lines += its.differences(made, is_old=is_old)
            lines += handled.differences()
        by_unit = await route_sites(every, peers, sites, judged=not is_old)
        for its, rows in zip(files, by_unit, strict=True):
            lines += its.differences(made_sites(rows), is_old=is_old)
            lines += its.end()
    return lines


class _UnitFiles:
    """The files of a unit, which are read as far as the logs give rows. Use as a context."""

    def __init__(self, tables: Path, unit: str) -> None:
        self._unit = unit
        self._lines: list[str] = []  # what was wrong when the files were opened
        self._files: dict[str, _Rows] = {}
        self._missing: set[str] = set()
        self._stack = ExitStack()
        for name in SCHEMAS:
            path = tables / self._label(name)
            if name in OPTIONAL and not path.exists():
                self._missing.add(name)
                continue
            label = self._label(name)
            try:
                file = self._stack.enter_context(pq.ParquetFile(regular(path)))
                self._files[name] = _Rows(file, label)
            except (OSError, pa.ArrowException) as error:
                self._lines.append(f"{label}: {str(error).splitlines()[0]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _label(self, name: str) -> str:
        return f"{name}/{self._unit}.parquet" if self._unit else f"{name}.parquet"

    @property
    def is_old(self) -> bool:
        """Whether a version wrote the files that named sites otherwise."""
        return any(rows.is_old for rows in self._files.values())

    def differences(self, made: Iterable[tuple[str, pa.Table]], *, is_old: bool) -> Iterator[str]:
        """Yield how the next rows of the files differ from those that the logs give."""
        yield from self._lines
        self._lines = []
        for name, rows in made:
            if name in self._missing:
                self._missing.remove(name)
                yield f"{self._label(name)}: is missing"
            if name in self._files:
                yield from self._files[name].differences(rows, is_old=is_old)

    def end(self) -> Iterator[str]:
        """Yield which files have more rows than the logs."""
        for rows in self._files.values():
            yield from rows.end()


class _Rows:
    """The rows of a file, from the first to the last."""

    def __init__(self, file: pq.ParquetFile, label: str) -> None:
        self._file = file
        self._label = label
        self._group = 0  # the next row group to read
        self._rest: pa.Table | None = None  # rows that are read and not compared yet
        self._compared = 0

    @property
    def is_old(self) -> bool:
        return bool(FORMAT.items() - (self._file.schema_arrow.metadata or {}).items())

    def differences(self, rows: pa.Table, *, is_old: bool) -> Iterator[str]:
        """Yield how the next rows differ from the given ones."""
        first = self._compared
        self._compared += len(rows)
        try:
            there = self._take(len(rows))
        except (OSError, pa.ArrowException) as error:
            yield f"{self._label}, from row {first:,}: {str(error).splitlines()[0]}"
            return
        difference = _difference(there, rows, is_old=is_old)
        if difference is not None:
            yield f"{self._label}, from row {first:,}: {difference}"

    def end(self) -> Iterator[str]:
        more = self._file.metadata.num_rows - self._compared
        if more > 0:
            yield f"{self._label}: {more:,} rows more than the logs give"

    def _take(self, count: int) -> pa.Table:
        """Return the next rows, up to a number."""
        pieces = [self._file.schema_arrow.empty_table() if self._rest is None else self._rest]
        while sum(map(len, pieces)) < count and self._group < self._file.num_row_groups:
            self._group += 1
            pieces.append(self._file.read_row_group(self._group - 1))
        found = pa.concat_tables(pieces)
        self._rest = found.slice(count)
        return found.slice(0, count)


def _difference(there: pa.Table, rows: pa.Table, *, is_old: bool) -> str | None:
    """Return how rows of a file differ from the rows made from the logs, or None if they don't."""
    if not len(there):
        return f"{len(rows):,} rows are missing"
    if is_old:
        rows = rows.select([name for name in rows.schema.names if name not in _NEW_COLUMNS])
    missing = _LATEST_COLUMNS.difference(there.schema.names)
    rows = rows.select([name for name in rows.schema.names if name not in missing])
    if there.equals(rows):
        return None
    if there.schema.names != rows.schema.names:
        return f"columns {there.schema.names}, not {rows.schema.names}"
    for column in rows.schema.names:
        pairs = zip(there[column].to_pylist(), rows[column].to_pylist(), strict=False)
        for row, (its, logged) in enumerate(pairs):
            if its != logged:
                return f"{column} of row +{row:,} is {its!r}, by the logs {logged!r}"
    return f"{len(there):,} rows, by the logs {len(rows):,}"
