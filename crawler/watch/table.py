"""Draws a status as text and a table, for a terminal of 80 columns or more."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crawler.commandline import printable
from crawler.messages import Trouble
from crawler.session import Bound, RankStatus, State, Status
from crawler.watch.words import head, short

_MOST_RANKS: Final = 16  # with more of them, only the worst are drawn
_WORST: Final = 8
_SILENT_S: Final = 10.0  # a rank that has told nothing for so long is marked
_COLUMNS: Final = (
    "rank",
    "pages",
    "/s",
    "errors",
    "waiting",
    "open",
    "resting",
    "failing",
    "CPU",
    "memory",
)
_SERIOUS: Final = {bound: place for place, bound in enumerate(Bound)}


def draw(status: Status) -> RenderableType:
    """Return the drawing of a status: its head, a row a rank, and the latest failures."""
    top = Table.grid(padding=(0, 2))
    top.add_column(style="bold")
    top.add_column()
    for word, says in head(status):
        top.add_row(word, Text(says))
    parts: list[RenderableType] = [top]
    if status.rows:
        parts += [Text(), _ranks(status.rows, bounds=status.state is State.CRAWLING)]
    if status.troubles:
        parts += [Text(), Text("latest failures", style="bold")]
        parts += map(_trouble, status.troubles)
    return Group(*parts)


def _ranks(rows: Sequence[RankStatus], *, bounds: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limited by" if bounds else "", no_wrap=True)
    shown = rows
    if len(rows) > _MOST_RANKS:
        shown = sorted(rows, key=_badness)[:_WORST]
    for row in shown:
        table.add_row(*_cells(row), _bound(row) if bounds else "")
    if len(rows) > 1:
        table.add_row(*_sums(rows), "")
    if len(shown) < len(rows):
        table.caption = f"the {_WORST} of {len(rows):,} ranks that have most trouble"
        table.caption_justify = "left"
    return table


def _badness(row: RankStatus) -> tuple[bool, int, int]:
    return row.silent_s < _SILENT_S, _SERIOUS[row.bound], -row.waiting


def _cells(row: RankStatus) -> list[str]:
    return [
        str(row.rank),
        short(row.pages),
        short(row.pages_per_second),
        short(row.errors),
        short(row.waiting),
        short(row.fetching),
        short(row.sites_resting),
        short(row.hosts_failing),
        f"{row.cpu:.0%}",
        f"{short(row.memory / 1e6)}M",
    ]


def _sums(rows: Sequence[RankStatus]) -> list[str]:
    return [
        "all",
        short(sum(row.pages for row in rows)),
        short(sum(row.pages_per_second for row in rows)),
        short(sum(row.errors for row in rows)),
        short(sum(row.waiting for row in rows)),
        short(sum(row.fetching for row in rows)),
        short(sum(row.sites_resting for row in rows)),
        short(sum(row.hosts_failing for row in rows)),
        f"{sum(row.cpu for row in rows):.0%}",
        f"{short(sum(row.memory for row in rows) / 1e6)}M",
    ]


def _bound(row: RankStatus) -> Text:
    if row.silent_s >= _SILENT_S:
        return Text(f"silent {row.silent_s:.0f} s", style="red")
    serious = row.bound in {Bound.DISK, Bound.OUTBOX}
    return Text(row.bound.value, style="red" if serious else "")


def _trouble(trouble: Trouble) -> Text:
    time = datetime.fromtimestamp(trouble.time).astimezone().strftime("%H:%M:%S")
    text = Text(f"{time}  ", no_wrap=True, overflow="ellipsis")
    text.append(printable(trouble.error), style="yellow")
    text.append(printable(f"  {trouble.url}" + (f": {trouble.why}" if trouble.why else "")))
    return text
