"""Counts the requests of a running rank that came earlier than it promised to sites.

The report judges all promises over all ranks, from the request logs (`gaps`). A running crawl can't
wait for that. So each rank compares the requests that it has made itself, with the delays of
[politeness] and [[sites]] only.
"""

from typing import Final

from crawler.ports import Asked
from crawler.session.gaps import TOLERANCE_S, TOLERANCE_SHARE
from crawler.session.requests import Manners

_KEPT: Final = 100_000  # sites and addresses, about 25 MB


class EarlyRequests:
    """Counts the requests that came earlier than promised."""

    def __init__(self, manners: Manners) -> None:
        self.count = 0
        self._promise_to = manners.promises()
        self._by_address = manners.per == "address"
        # By clock: when its latest delay began, and the least gap that is no breach of it.
        self._latest: dict[str, tuple[float, float]] = {}

    def note(self, asked: Asked) -> None:
        """Take note of a request that has ended."""
        promise = self._promise_to(asked.site)
        gap_s = promise.delay_s * (1 - TOLERANCE_SHARE) - TOLERANCE_S
        one = promise.connections == 1  # then a delay begins at the end of a request
        self._compare(asked.site, asked, gap_s, one=one)
        if self._by_address and asked.address is not None:
            self._compare(asked.address, asked, gap_s, one=one)

    def _compare(self, clock: str, asked: Asked, gap_s: float, *, one: bool) -> None:
        """Compare a request with the latest one by this clock.

        `gap_s`: the least gap after this request. `one`: whether requests come one at a time.
        """
        latest = self._latest
        begins = asked.started + asked.seconds if one else asked.started
        before = latest.pop(clock, None)
        if before is not None:
            gap = asked.started - before[0]
            # Of several requests under way, the first need not be the first to end.
            self.count += (gap if one else abs(gap)) < before[1]
            begins = max(begins, before[0])
        elif len(latest) >= _KEPT:
            del latest[next(iter(latest))]
        latest[clock] = begins, gap_s
