"""The page quota: `session.max_pages`, shared out among the ranks.

A rank asks rank 0 for some when it has none and URLs to fetch, and returns what it can't use, so
that the crawl fetches exactly the limit while any rank has URLs. All of it rides on batches.
"""

from math import inf
from typing import Final

from crawler.core.outboxes import Outbox, Outboxes
from crawler.messages import Batch

_LARGEST_SHARE: Final = 64  # pages


class Quota:
    """What one rank may fetch; and at rank 0, what nobody has yet."""

    def __init__(self, limit: int, rank: int, ranks: int, outboxes: Outboxes) -> None:
        """`limit`: in pages; 0 means none."""
        self.left = 0.0 if limit else inf  # visits of this rank that may begin
        self._asked = False  # and not been answered
        self._rank = rank
        self._ranks = ranks
        self._outboxes = outboxes
        self._undealt = 0 if rank else limit
        self._waiting: dict[int, None] = {}  # at rank 0: who has asked, in this order

    @property
    def starved(self) -> bool:
        """Nothing is left, and rank 0 knows: only a message can change that."""
        return self.left < 1 and self._asked

    def spend(self, pages: int) -> None:
        """Earlier runs of the session have fetched so many."""
        self._undealt = max(0, self._undealt - pages)

    def ask(self, now: float) -> None:
        """Nothing is left, and there are URLs to fetch."""
        if self._asked:
            return
        self._asked = True
        if self._rank == 0:
            self._waiting[0] = None
            self._share(now)
        else:
            self._to(0, now).ask = True

    def give_back(self, now: float) -> None:
        """There is nothing to fetch: let others have what is left."""
        pages, self.left = int(self.left), 0.0
        if self._rank == 0:
            # It may stand in its own queue still, and must not be given this back at once.
            self._waiting.pop(0, None)
            self._asked = False
            self._undealt += pages
            self._share(now)
        else:
            self._to(0, now).returned += pages

    def received(self, sender: int, batch: Batch, now: float) -> None:
        if batch.allow:
            self.left += batch.allow
            self._asked = False
        if batch.ask:
            self._waiting[sender] = None
        if batch.ask or batch.returned:
            self._undealt += batch.returned
            self._share(now)

    def _share(self, now: float) -> None:
        """Grant those whose turn it is small shares, so that few pages lie idle."""
        while self._undealt and self._waiting:
            rank = next(iter(self._waiting))
            del self._waiting[rank]
            pages = min(max(1, self._undealt // (4 * self._ranks)), _LARGEST_SHARE)
            self._undealt -= pages
            if rank == 0:
                self.left += pages
                self._asked = False
            else:
                self._to(rank, now).allow += pages

    def _to(self, rank: int, now: float) -> Outbox:
        return self._outboxes.open(rank, now, urgent=True)
