"""Counts the requests of a running rank that came earlier than it promised to sites.

The report judges all promises over all ranks, from the request logs (`gaps`). A running crawl can't
wait for that. So each rank compares the requests that it has made itself, with the delays of
[politeness] and [[sites]] only.
"""

from typing import Final

from crawler.ports import Asked
from crawler.session.gaps import TOLERANCE_S, TOLERANCE_SHARE
from crawler.session.requests import Manners

_KEPT: Final = 100_000  # sites and addresses
_BYTES: Final = 250  # of one
_LEAST_SHARE: Final = 1 - TOLERANCE_SHARE


class EarlyRequests:
    """Counts the requests that came earlier than promised."""

    def __init__(self, manners: Manners) -> None:
        self.count = 0
        self._promise_to = manners.promises()
        self._by_address = manners.per == "address"
        # By clock: when its latest delay began, and the least gap that is no breach of it.
        self._latest: dict[str, tuple[float, float]] = {}

    def nbytes(self) -> int:
        """About how many bytes of memory the clocks take."""
        return _BYTES * len(self._latest)

    def note(self, asked: Asked) -> None:
        """Take note of a request that has ended."""
        self._compare(asked.site, asked)
        if self._by_address and asked.address is not None:
            self._compare(asked.address, asked)

    def _compare(self, clock: str, asked: Asked) -> None:
        """Compare a request with the latest one by this clock."""
        promise, latest = self._promise_to(asked.site), self._latest
        one = promise.connections == 1  # then a delay begins at the end of a request
        begins = asked.started + asked.seconds if one else asked.started
        before = latest.pop(clock, None)
        if before is not None:
            gap = asked.started - before[0]
            # Of several requests under way, the first need not be the first to end.
            self.count += (gap if one else abs(gap)) < before[1]
            begins = max(begins, before[0])
        elif len(latest) >= _KEPT:
            del latest[next(iter(latest))]
        latest[clock] = begins, promise.delay_s * _LEAST_SHARE - TOLERANCE_S
