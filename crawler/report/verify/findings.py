"""What verification has found: counted by kind, with the first few in words."""

from collections import Counter
from typing import Final

_LINES: Final = 20  # of a kind


class Findings:
    """Problems by kind, and what is worth knowing but none."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.notes: list[str] = []

    def add(self, kind: str, where: object, what: str) -> None:
        """A problem: what is wrong, and where."""
        self.counts[kind] += 1
        if self.counts[kind] <= _LINES:
            self.lines.append(f"{kind}: {where}: {what}")

    def note(self, where: object, what: str) -> None:
        self.notes.append(f"{where}: {what}")

    @property
    def unsaid(self) -> list[str]:
        """How many problems of each kind have no line."""
        return [
            f"{kind}: {count - _LINES:,} more"
            for kind, count in self.counts.items()
            if count > _LINES
        ]
