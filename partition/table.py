"""Shows plans to people as a text table, and in one line. `page` shows them as an HTML page."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from partition.job import Plan
from partition.ranks import SitePlan
from partition.settings import Tolerances

_BY_PAGE: Final = ("messages", "by page")
_BY_SITE: Final = ("messages", "by site")
_SENT: Final = ("URLs", "sent")
_VOLUME: Final = ("KB of", "links")
# By heading, which has two lines in a text table.
COLUMNS: Final[dict[tuple[str, str], Callable[[Plan], str]]] = {
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
SITE_COLUMNS: Final[dict[tuple[str, str], Callable[[SitePlan], str]]] = {
    ("", "model"): lambda plan: plan.model,
    ("", "k"): lambda plan: str(plan.parts),
    ("bytes", "over mean"): lambda plan: f"{plan.imbalances[0]:.1%}",
    ("requests", "over mean"): lambda plan: f"{plan.imbalances[1]:.1%}",
    _BY_PAGE: lambda plan: f"{plan.messages:,}",
    _VOLUME: lambda plan: f"{plan.volume_bytes / 1000:,.0f}",
    ("", "seconds"): lambda plan: f"{plan.seconds:.2f}",
}
BARS: Final[dict[tuple[str, str], Callable[[Plan], int]]] = {  # with bars; less is better
    _BY_PAGE: lambda plan: plan.counts.messages_page_part,
    _BY_SITE: lambda plan: plan.counts.messages_site_part,
    _SENT: lambda plan: plan.counts.transmissions_target_part,
    _VOLUME: lambda plan: plan.counts.volume_bytes,
}


def text(plans: Sequence[Plan]) -> str:
    """Return a table of 80 columns with a row for each plan, and remarks below it."""
    rows = [[cell(plan) for cell in COLUMNS.values()] for plan in plans]
    return _laid_out(COLUMNS, rows, notes(plans))


def text_of_sites(plans: Sequence[SitePlan]) -> str:
    """Return the table of plans that several ranks have made, and remarks below it."""
    rows = [[cell(plan) for cell in SITE_COLUMNS.values()] for plan in plans]
    said = [(plan, text) for plan in plans for text in (plan.verdict.remark, plan.reason) if text]
    remarks = [_note(plan, text) for plan, text in said]
    return _laid_out(SITE_COLUMNS, rows, remarks)


def _laid_out(
    headings: Iterable[tuple[str, str]], rows: Sequence[list[str]], remarks: Sequence[str]
) -> str:
    lines = [*map(list, zip(*headings, strict=True)), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = []
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        texts.append("  ".join([line[0].ljust(widths[0]), *cells[1:]]) + "\n")
    return "".join([*texts, *(f"{remark}\n" for remark in remarks)])


def _note(plan: Plan | SitePlan, text: str) -> str:
    return f"{plan.model}, k = {plan.parts}: {text}"


def closing(built: Plan, baselines: Sequence[Plan], tolerances: Tolerances) -> str:
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
        f" bytes {counts.imbalance_bytes:.1%} (allowed {tolerances[0]:.1%}),"
        f" requests {counts.imbalance_requests:.1%} (allowed {tolerances[1]:.1%})"
    )


def _fewer(messages: int, others: int) -> str:
    if not others:
        return "more than" if messages else "as many as"
    share = 1 - messages / others
    return f"{abs(share):.0%} {'fewer' if share >= 0 else 'more'} than"


def joined(heading: tuple[str, str]) -> str:
    """Return a heading in one line."""
    return " ".join(heading).strip()


def notes(plans: Sequence[Plan]) -> list[str]:
    """Return what must be said of the plans, a line each: above all why one isn't balanced."""
    lines = []
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
        lines += [_note(plan, text) for text in said]
    return lines
