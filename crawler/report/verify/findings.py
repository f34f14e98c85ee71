"""What verification has found: the number of problems by kind, and the first ones as text."""

from collections import Counter
from typing import Final

_LINES: Final = 20  # problems of each kind that are kept as text


class Findings:
    """Problems by kind, and notes on what is odd but no problem."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.notes: list[str] = []

    def add(self, kind: str, where: object, what: str) -> None:
        """Add a problem: its kind, where it is, and what is wrong."""
        self.counts[kind] += 1
        if self.counts[kind] <= _LINES:
            self.lines.append(f"{kind}: {where}: {what}")

    def note(self, where: object, what: str) -> None:
        """Add something that is worth knowing but no problem."""
        self.notes.append(f"{where}: {what}")

    @property
    def omitted(self) -> list[str]:
        """A line for each kind with more problems than are kept as text."""
        return [
            f"{kind}: {count - _LINES:,} more"
            for kind, count in self.counts.items()
            if count > _LINES
        ]
