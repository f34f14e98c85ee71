"""What verification has found: the number of problems by kind, and the first ones as text."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from crawler.ports import Peers

KEPT: Final = 20  # problems of each kind that are kept as text


class Findings:
    """Problems by kind, and notes on what is odd but no problem."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.notes: list[str] = []

    def add(self, kind: str, where: object, what: str) -> None:
        """Add a problem: its kind, where it is, and what is wrong."""
        self.counts[kind] += 1
        if self.counts[kind] <= KEPT:
            self.lines.append(f"{kind}: {where}: {what}")

    def add_counted(self, kind: str, count: int, first: Sequence[tuple[object, str]]) -> None:
        """Add problems of a kind: their number, and where the first ones are and what is wrong."""
        for where, what in first[:count]:
            self.add(kind, where, what)
        self.counts[kind] += max(0, count - len(first))
        self.counts = +self.counts  # without a kind of which there are none

    def note(self, where: object, what: str) -> None:
        """Add something that is worth knowing but no problem."""
        self.notes.append(f"{where}: {what}")

    async def add_all(self, peers: Peers, found: "Findings") -> None:
        """Add what all processes have found in one step, in their order, on the first of them."""
        for one in await peers.gather(found):
            for kind, count in one.counts.items():
                room = max(0, KEPT - self.counts[kind])
                self.counts[kind] += count
                self.lines += [line for line in one.lines if line.startswith(f"{kind}: ")][:room]
            self.notes += one.notes

    @property
    def omitted(self) -> list[str]:
        """A line for each kind with more problems than are kept as text."""
        return [
            f"{kind}: {count - KEPT:,} more" for kind, count in self.counts.items() if count > KEPT
        ]
