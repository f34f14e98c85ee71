"""Shows plans to people: as a text table, or as a self-contained HTML page."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from partition.job import Plan

_COLUMNS: Final[dict[str, Callable[[Plan], str]]] = {
    "model": lambda plan: plan.model,
    "k": lambda plan: str(plan.parts),
    "imbalance bytes": lambda plan: f"{plan.counts.imbalance_bytes:.1%}",
    "requests": lambda plan: f"{plan.counts.imbalance_requests:.1%}",
    "messages page": lambda plan: f"{plan.counts.messages_page_part:,}",
    "site": lambda plan: f"{plan.counts.messages_site_part:,}",
    "transmissions": lambda plan: f"{plan.counts.transmissions_target_part:,}",
    "volume KB": lambda plan: f"{plan.counts.volume_bytes / 1000:,.0f}",
    "seconds": lambda plan: f"{plan.seconds:.2f}",
}
_BARS: Final[dict[str, Callable[[Plan], int]]] = {  # columns with bars; less is better
    "messages page": lambda plan: plan.counts.messages_page_part,
    "site": lambda plan: plan.counts.messages_site_part,
    "transmissions": lambda plan: plan.counts.transmissions_target_part,
    "volume KB": lambda plan: plan.counts.volume_bytes,
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: 0 .7em; text-align: right; white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left }}
tbody {{ border-top: 1px solid }}
.over {{ font-weight: bold }}
</style>
<h1>{title}</h1>
<p>{web}</p>
<p>Messages are (page, other part) pairs and (site, receiving part) pairs, transmissions
(target URL, sending part) pairs; the volume is that of the URLs of all links between parts. A bar
is the share of the most with as many parts. A row in bold is out of balance, as said below.</p>
<table>
<thead>
<tr>{heads}</tr>
</thead>
{bodies}</table>
<ul>
{notes}</ul>
</html>
"""


def text(plans: Sequence[Plan]) -> str:
    """Return a table with a row for each plan, and remarks below it."""
    lines = [[*_COLUMNS], *([cell(plan) for cell in _COLUMNS.values()] for plan in plans)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = []
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        rows.append("  ".join([line[0].ljust(widths[0]), *cells[1:]]) + "\n")
    return "".join([*rows, *(f"{note}\n" for note in _notes(plans))])


def page(title: str, web: str, plans: Sequence[Plan]) -> str:
    """Return the table as HTML. `web` is a line that describes the web."""
    bodies = []
    for parts in dict.fromkeys(plan.parts for plan in plans):
        group = [plan for plan in plans if plan.parts == parts]
        most = {name: max(1, *map(value, group)) for name, value in _BARS.items()}
        rows = (f"<tr{_over(plan)}>{_cells(plan, most)}</tr>\n" for plan in group)
        bodies.append(f"<tbody>\n{''.join(rows)}</tbody>\n")
    return _PAGE.format(
        title=escape(title),
        web=escape(web),
        heads="".join(f"<th>{name}" for name in _COLUMNS),
        bodies="".join(bodies),
        notes="".join(f"<li>{escape(note)}\n" for note in _notes(plans)),
    )


def _over(plan: Plan) -> str:
    return "" if plan.feasible else ' class="over"'


def _cells(plan: Plan, most: dict[str, int]) -> str:
    cells = []
    for name, cell in _COLUMNS.items():
        style = ""
        if name in most:
            share = _BARS[name](plan) / most[name]
            style = f' style="background: linear-gradient(to left, #bcd {share:.1%}, #fff 0)"'
        cells.append(f"<td{style}>{escape(cell(plan))}")
    return "".join(cells)


def _notes(plans: Sequence[Plan]) -> list[str]:
    notes = []
    for plan in plans:
        said = []
        if plan.remark:
            said.append(plan.remark)
        if plan.reason:
            said.append(plan.reason)
        if plan.constraints == 1:
            said.append("the engine balanced one weight only, or the sum of bytes and requests")
        if plan.network_cost is not None:
            said.append(f"network cost {plan.network_cost:,.0f}")
        if plan.moved is not None:
            said.append("moved: {:.1%} of the bytes, {:.1%} of the requests".format(*plan.moved))
        notes += [f"{plan.model}, k = {plan.parts}: {text}" for text in said]
    return notes
