"""Whether a rank keeps its promises to sites, as far as it sees while it crawls.

The report judges all promises over all ranks, from the request logs (`gaps`). A running crawl
can't wait for that. So each rank compares the requests to a site that it has made itself, with
`politeness.delay_s` only.
"""

from typing import Final

from crawler.ports import Asked
from crawler.session.gaps import TOLERANCE_S, TOLERANCE_SHARE
from crawler.session.requests import Manners

_KEPT: Final = 100_000  # sites and addresses, about 20 MB


class Courtesy:
    """Counts the requests that came earlier than promised."""

    def __init__(self, manners: Manners) -> None:
        self.early = 0
        self._delay_s = manners.delay_s * (1 - TOLERANCE_SHARE) - TOLERANCE_S
        self._by_address = manners.per == "address"
        self._one = manners.connections == 1  # then a delay begins at the end of a request
        self._latest: dict[str, float] = {}  # when the delay of a clock began

    def note(self, asked: Asked) -> None:
        """Take note of a request that has ended."""
        self._compare(asked.site, asked)
        if self._by_address and asked.address is not None:
            self._compare(asked.address, asked)

    def _compare(self, clock: str, asked: Asked) -> None:
        latest = self._latest
        begins = asked.started + asked.seconds if self._one else asked.started
        before = latest.pop(clock, None)
        if before is not None:
            gap = asked.started - before
            # Of several requests under way, the first need not be the first to end.
            self.early += (gap if self._one else abs(gap)) < self._delay_s
            begins = max(begins, before)
        elif len(latest) >= _KEPT:
            del latest[next(iter(latest))]
        latest[clock] = begins
