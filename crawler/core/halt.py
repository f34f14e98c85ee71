"""A pause or a stop of the crawl: who says so, how the other ranks hear of it, and what it forbids.

A pause lasts until rank 0 lets all go on. A stop is for good: the crawl ends early. In both cases
fetches under way are finished, and no new ones begin.
"""

from crawler.core.mail import Mail
from crawler.core.outboxes import Outboxes
from crawler.core.tree import Tree
from crawler.messages import Batch


class Halt:
    """Whether one rank may begin fetches, as far as pauses and stops decide that."""

    def __init__(
        self, rank: int, ranks: int, tree: Tree | None, outboxes: Outboxes, mail: Mail
    ) -> None:
        self.stopping = False  # a limit, a signal or an order ends the crawl early
        self._order = 0  # the number of the latest order: odd to pause, even to go on
        self._rank = rank
        self._ranks = ranks
        self._tree = tree
        self._outboxes = outboxes
        self._mail = mail

    @property
    def paused(self) -> bool:
        """Whether the crawl is paused. A stop is still obeyed."""
        return self._order % 2 == 1

    @property
    def forbids(self) -> bool:
        """Whether no fetch may begin."""
        return self.stopping or self._order % 2 == 1

    def begin_paused(self) -> None:
        """Begin a run that is paused; to be called on all ranks, before `Core.start`."""
        self._order = 1

    def begin_stopped(self) -> None:
        """Begin a run that stops at once; to be called on all ranks, before `Core.start`."""
        self.stopping = True

    def pause(self, now: float, *, paused: bool) -> None:
        """At rank 0: let no rank begin a fetch from now on, or let all go on."""
        if paused is self.paused:
            return
        self._order += 1
        for box in self._mail.open_all(now):
            box.paused = self._order

    def stop(self, now: float) -> None:
        """End the crawl early on all ranks."""
        if not self._mail.ended:
            self._stop(now, passes_on=True)

    def received(self, batch: Batch, now: float) -> None:
        """Obey what a batch says. It may come later than a batch with a newer order."""
        self._order = max(self._order, batch.paused)
        if batch.stop:
            self._stop(now, passes_on=self._tree is not None)

    def _stop(self, now: float, *, passes_on: bool) -> None:
        """Stop, and tell other ranks: all, or the neighbours in the tree, which pass it on.

        So even if the rank that wants to stop is lost, all others are told, or none.
        """
        if passes_on and not self.stopping:
            tree = self._tree
            for rank in range(self._ranks) if tree is None else tree.neighbours(self._rank):
                if rank != self._rank:
                    self._outboxes.open(rank, now, urgent=True).stop = True
        self.stopping = True
