"""Requests that fail: how often a URL is tried, and how long a host rests (docs/traps.md)."""

from xxhash import xxh3_64_intdigest

from crawler import config
from crawler.core.visits import Visit


class Failures:
    """The failures of hosts in a row, and the URLs that are to be tried again."""

    def __init__(self, retry: config.Retry) -> None:
        self.in_a_row: dict[str, int] = {}  # by authority
        self._retry = retry
        self._retries: dict[int, int] = {}  # by key, of URLs that wait to be tried again

    def count(self, visit: Visit, authority: str) -> bool:
        """Count a failed request; whether its URL is to be tried again."""
        # Visits that were under way together have failed for one reason, and count as one failure.
        failures = visit.failures + 1
        self.in_a_row[authority] = max(failures, self.in_a_row.get(authority, 0))
        again = visit.retries + 1 < self._retry.tries and not self.has_given_up(authority)
        visit.retries += again
        return again

    def rest_s(
        self, visit: Visit, authority: str, *, busy: bool, retry_after_s: float | None
    ) -> float | None:
        """For how many seconds the site rests after a failed request; None if it is left alone.

        For as long as it asks for, or else twice as long after each failure in a row.
        """
        retry, failures = self._retry, visit.failures + 1
        if self.has_given_up(authority):
            return None
        if retry_after_s is None:
            base_s = retry.busy_base_s if busy else retry.base_s
            rest_s = min(base_s * 2.0 ** min(failures - 1, 60), retry.max_s)
        else:
            rest_s = min(retry_after_s, retry.max_s)
        # Sites that failed together shan't all come back together: up to a quarter more.
        return rest_s * (1 + xxh3_64_intdigest(authority.encode(), failures) / 2**66)

    def forget(self, authority: str) -> bool:
        """Forget the failures of a host that has answered; whether there were any."""
        return self.in_a_row.pop(authority, 0) > 0

    def learn(self, counts: dict[str, int]) -> None:
        """Take over the failures of hosts that another rank has counted."""
        for authority, count in counts.items():
            if count:
                self.in_a_row[authority] = count
            else:
                self.in_a_row.pop(authority, None)

    def give_up(self, authority: str) -> None:
        """Leave a host alone, as an earlier run did."""
        self.in_a_row[authority] = self._retry.give_up_after

    def has_given_up(self, authority: str) -> bool:
        """Whether a host is left alone, because it has failed so often in a row."""
        return self.are_too_many(self.in_a_row.get(authority, 0))

    def are_too_many(self, failures: int) -> bool:
        """Whether a host with so many failures in a row is left alone."""
        return 0 < self._retry.give_up_after <= failures

    # --- URLs that are tried again ------------------------------------------------------------

    def put_back(self, visit: Visit) -> None:
        """Note how often a URL has been tried that waits again."""
        if visit.retries:
            self._retries[visit.found.key] = visit.retries

    def take_retries(self, key: int) -> int:
        """How often a URL has been tried that doesn't wait any more."""
        return self._retries.pop(key, 0) if self._retries else 0
