"""Shows plans to people as a text table, and in one line. `page` shows them as an HTML page."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from crawler.commandline import printable
from partition.planning import Plan
from partition.ranks import UnitPlan
from partition.settings import Tolerances

_BY_PAGE: Final = ("messages", "by page")
_BY_SITE: Final = ("messages", "by site")
_SENT: Final = ("URLs", "sent")
_VOLUME: Final = ("KB of", "links")
# By heading, which has two lines in a text table.
COLUMNS: Final[dict[tuple[str, str], Callable[[Plan | UnitPlan], str]]] = {
    ("", "model"): lambda plan: plan.model,
    ("", "k"): lambda plan: str(plan.parts),
    ("bytes", "over mean"): lambda plan: f"{plan.counts.imbalance_bytes:.1%}",
    ("requests", "over mean"): lambda plan: f"{plan.counts.imbalance_requests:.1%}",
    _BY_PAGE: lambda plan: f"{plan.counts.messages_page_part:,}",
    _BY_SITE: lambda plan: f"{plan.counts.messages_site_part:,}",
    _SENT: lambda plan: f"{plan.counts.transmissions_target_part:,}",
    _VOLUME: lambda plan: f"{plan.counts.volume_bytes / 1000:,.0f}",
    ("", "seconds"): lambda plan: f"{plan.seconds:.2f}",
}
BARS: Final[dict[tuple[str, str], Callable[[Plan], int]]] = {  # with bars; less is better
    _BY_PAGE: lambda plan: plan.counts.messages_page_part,
    _BY_SITE: lambda plan: plan.counts.messages_site_part,
    _SENT: lambda plan: plan.counts.transmissions_target_part,
    _VOLUME: lambda plan: plan.counts.volume_bytes,
}


def text(plans: Sequence[Plan | UnitPlan]) -> str:
    """Return a table of 80 columns with a row for each plan, and remarks below it."""
    headings = [list(line) for line in zip(*COLUMNS, strict=True)]
    lines = [*headings, *([cell(plan) for cell in COLUMNS.values()] for plan in plans)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = []
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        rows.append("  ".join([line[0].ljust(widths[0]), *cells[1:]]) + "\n")
    return "".join([*rows, *(f"{printable(note)}\n" for note in notes(plans))])


def closing(
    built: Plan | UnitPlan, baselines: Sequence[Plan | UnitPlan], tolerances: Tolerances
) -> str:
    """Return what a plan has reached in one line: its messages beside its balance."""
    counts = built.counts
    messages = counts.messages_page_part
    against = ", ".join(
        f"{_fewer(messages, plan.counts.messages_page_part)} by {plan.model}"
        f" ({plan.counts.messages_page_part:,})"
        for plan in baselines
    )
    return (
        f"{built.parts} parts by {built.model}: {messages:,} messages, {against}; over the average:"
        f" bytes {counts.imbalance_bytes:.1%} ({_allowed(tolerances[0])}),"
        f" requests {counts.imbalance_requests:.1%} ({_allowed(tolerances[1])})"
    )


def _allowed(tolerance: float) -> str:
    return f"allowed {tolerance:.1%}" if math.isfinite(tolerance) else "any is allowed"


def _fewer(messages: int, others: int) -> str:
    if not others:
        return "more than" if messages else "as many as"
    if messages == others:
        return "as many as"
    share = 1 - messages / others
    return f"{abs(share):.0%} {'fewer' if share > 0 else 'more'} than"


def joined(heading: tuple[str, str]) -> str:
    """Return a heading in one line."""
    return " ".join(heading).strip()


def notes(plans: Sequence[Plan | UnitPlan]) -> list[str]:
    """Return what must be said of the plans, a line each: above all why one isn't balanced."""
    lines = []
    for plan in plans:
        said = [text for text in (plan.remark, plan.reason) if text]
        if isinstance(plan, Plan):
            said += _of_pages(plan)
        lines += [f"{plan.model}, k = {plan.parts}: {text}" for text in said]
    return lines


def _of_pages(plan: Plan) -> list[str]:
    """Return what is to be said of a plan that one process has made."""
    said = []
    if plan.constraints == 1:
        said.append("the engine balanced one weight only, or the sum of bytes and requests")
    if plan.network_cost is not None:
        said.append(f"network cost {plan.network_cost:,.0f}")
    if plan.moved is not None:
        said.append("moved: {:.1%} of the bytes, {:.1%} of the requests".format(*plan.moved))
    return said
