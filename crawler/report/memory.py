"""What the report says about the memory of the ranks (`core.budget`)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_ALL: Final = "all"
_SMALL: Final = 100  # tables below this fraction of the budget aren't listed


def memory_of(counted: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]] | None:
    """The memory of a rank by table: the most bytes in any run, and those at the end of the last.

    None if that isn't known. `counted`: the rank's counts in each run.
    """
    if not counted or any("memory" not in one for one in counted):
        return None
    ends = {name: end for name, (_, end) in counted[-1]["memory"].items()}
    peaks = {name: max(one["memory"].get(name, (0, 0))[0] for one in counted) for name in ends}
    return {name: {"peak": peaks[name], "end": end} for name, end in ends.items()}


def memory_lines(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a person reads about the rank that took the most memory, as a name and a text."""
    ranks = [one for one in metrics["ranks"] if one.get("memory")]
    if not ranks:
        return []
    fullest = max(ranks, key=lambda one: one["memory"][_ALL]["peak"])
    peaks = {name: used["peak"] for name, used in fullest["memory"].items()}
    total, budget = peaks.pop(_ALL), metrics["memory_budget"]
    large = sorted((-peak, name) for name, peak in peaks.items() if peak * _SMALL >= budget)
    parts = ", ".join(f"{name} {_megabytes(-peak)}" for peak, name in large)
    text = f"{_megabytes(total)} of {_megabytes(budget)} MB at rank {fullest['rank']}" + (
        f": {parts}" if parts else ""
    )
    return [("memory", text)]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f}"
