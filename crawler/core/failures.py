"""Requests that fail: how often a URL is tried, and how long a host rests (docs/traps.md)."""

from collections.abc import Callable
from typing import Final

from xxhash import xxh3_64_intdigest

from crawler import config
from crawler.core.visits import Visit

_BY_AUTHORITY_BYTES: Final = 180  # of a count
_BY_KEY_BYTES: Final = 100


class Failures:
    """Counts the failures of each host in a row, and how often each URL has been tried.

    A host is given by its authority, for example `www.site.example:8080`.
    """

    def __init__(self, retry: config.Retry) -> None:
        self.in_a_row: dict[str, int] = {}  # by authority
        self._retry = retry
        self._retries: dict[int, int] = {}  # by key, of URLs that wait to be tried again

    def nbytes(self) -> int:
        """About how many bytes of memory the counts take."""
        return _BY_AUTHORITY_BYTES * len(self.in_a_row) + _BY_KEY_BYTES * len(self._retries)

    def count(self, visit: Visit, authority: str) -> bool:
        """Count a failed request. Returns whether its URL is to be tried again."""
        # Visits that were under way together count as one failure: they have failed for one reason.
        failures = visit.failures + 1
        self.in_a_row[authority] = max(failures, self.in_a_row.get(authority, 0))
        again = visit.retries + 1 < self._retry.tries and not self.has_given_up(authority)
        visit.retries += again
        return again

    def rest_s(
        self, visit: Visit, authority: str, *, busy: bool, retry_after_s: float | None
    ) -> float | None:
        """How many seconds the site rests after a failed request; None if the host is given up.

        `busy`: whether the server said that it is too busy. `retry_after_s`: the rest that the
        server asks for. If it asks for none, the rest doubles with each failure in a row.
        """
        retry, failures = self._retry, visit.failures + 1
        if self.has_given_up(authority):
            return None
        if retry_after_s is None:
            base_s = retry.busy_base_s if busy else retry.base_s
            rest_s = min(base_s * 2.0 ** min(failures - 1, 60), retry.max_s)
        else:
            rest_s = min(retry_after_s, retry.max_s)
        # Add up to a quarter, so that sites that failed together don't all come back together.
        return rest_s * (1 + xxh3_64_intdigest(authority.encode(), failures) / 2**66)

    def of_site(self, site: str, site_of: Callable[[str], str]) -> dict[str, int]:
        """Return the failures in a row of the hosts of a site. `site_of`: that of an authority."""
        return {name: count for name, count in self.in_a_row.items() if site_of(name) == site}

    def forget(self, authority: str) -> bool:
        """Forget the failures of a host that has answered. Returns whether there were any."""
        return self.in_a_row.pop(authority, 0) > 0

    def learn(self, counts: dict[str, int]) -> None:
        """Take over the numbers of failures in a row that another rank has counted."""
        for authority, count in counts.items():
            if count:
                self.in_a_row[authority] = count
            else:
                self.in_a_row.pop(authority, None)

    def give_up(self, authority: str) -> None:
        """Give a host up, because an earlier run did."""
        self.in_a_row[authority] = self._retry.give_up_after

    def has_given_up(self, authority: str) -> bool:
        """Whether a host is given up, because it has failed so often in a row."""
        return self.are_too_many(self.in_a_row.get(authority, 0))

    def are_too_many(self, failures: int) -> bool:
        """Whether a host with so many failures in a row is given up."""
        return 0 < self._retry.give_up_after <= failures

    # --- URLs that are tried again ------------------------------------------------------------

    def put_back(self, visit: Visit) -> None:
        """Note how often the URL of a visit has been tried, because the URL waits again."""
        if visit.retries:
            self._retries[visit.found.key] = visit.retries

    def take_retries(self, key: int) -> int:
        """Take out the number of failed tries of a URL, because the URL doesn't wait any more."""
        return self._retries.pop(key, 0) if self._retries else 0
