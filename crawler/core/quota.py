"""The page quota: `session.max_pages`, distributed over the ranks.

A rank that has URLs but no quota asks rank 0 for a share. A rank that has quota but no URLs returns
it. So the crawl fetches exactly `max_pages` pages, as long as any rank has URLs. These messages
travel in batches.
"""

from math import inf
from typing import Final

from crawler.core.outboxes import Outbox, Outboxes
from crawler.messages import Batch

_LARGEST_SHARE: Final = 64  # pages


class Quota:
    """The quota of one rank. At rank 0, it also holds the quota that no rank has yet."""

    def __init__(self, limit: int, rank: int, ranks: int, outboxes: Outboxes) -> None:
        """`limit`: the number of pages that all ranks may fetch; 0 means no limit."""
        self.left = 0.0 if limit else inf  # visits that this rank may begin
        self._asked = False  # whether this rank waits for an answer of rank 0
        self._rank = rank
        self._ranks = ranks
        self._outboxes = outboxes
        self._undealt = 0 if rank else limit
        self._waiting: dict[int, None] = {}  # at rank 0: ranks that have asked, the first first
        self._dealt = [0] * ranks  # at rank 0: the pages that each rank was given

    @property
    def starved(self) -> bool:
        """Whether no quota is left and rank 0 has been asked, so that only a message can help."""
        return self.left < 1 and self._asked

    def spend(self, pages: int) -> None:
        """Subtract the pages that earlier runs of the session have fetched."""
        self._undealt = max(0, self._undealt - pages)

    def ask(self, now: float) -> None:
        """Ask rank 0 for a share, because no quota is left and there are URLs to fetch."""
        if self._asked:
            return
        self._asked = True
        if self._rank == 0:
            self._waiting[0] = None
            self._share(now)
        else:
            self._to(0, now).ask = True

    def give_back(self, now: float) -> None:
        """Return the quota that is left, because there is nothing to fetch."""
        pages, self.left = int(self.left), 0.0
        if self._rank == 0:
            # Rank 0 may still wait in its own queue. Then it would get the quota back at once.
            self._waiting.pop(0, None)
            self._asked = False
            self._undealt += pages
            self._share(now)
        else:
            self._to(0, now).returned += pages

    def received(self, sender: int, batch: Batch, now: float) -> None:
        """Handle what a batch says about quota: a share for this rank, a request, or a return."""
        if batch.allow:
            self.left += batch.allow
            self._asked = False
        if batch.ask:
            self._waiting[sender] = None
        self._dealt[sender] -= batch.returned
        if batch.ask or batch.returned:
            self._undealt += batch.returned
            self._share(now)

    def lose(self, rank: int, pages: int, now: float) -> None:
        """At rank 0: take back the quota of a lost rank that has fetched so many pages."""
        if self._rank == 0:
            self._waiting.pop(rank, None)
            self._undealt += max(0, self._dealt[rank] - pages)
            self._dealt[rank] = 0
            self._share(now)

    def _share(self, now: float) -> None:
        """Give a share to each waiting rank. Shares are small, so that little quota lies unused."""
        while self._undealt and self._waiting:
            rank = next(iter(self._waiting))
            del self._waiting[rank]
            pages = min(max(1, self._undealt // (4 * self._ranks)), _LARGEST_SHARE)
            self._undealt -= pages
            if rank == 0:
                self.left += pages
                self._asked = False
            else:
                self._dealt[rank] += pages
                self._to(rank, now).allow += pages

    def _to(self, rank: int, now: float) -> Outbox:
        return self._outboxes.open(rank, now, urgent=True)
