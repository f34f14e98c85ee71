"""How often each clock allows a request: `[politeness]`, with what `[[sites]]` says of a site."""

from crawler import config


class Courtesy:
    """Answers by the *key* of a clock: a site or, with `politeness.per = "address"`, an address."""

    def __init__(self, politeness: config.Politeness, overrides: config.Overrides) -> None:
        self.by_address = politeness.per == "address"
        self.max_crawl_delay_s = politeness.max_crawl_delay_s
        self.usual_delay_s = politeness.delay_s
        self.usual_connections = politeness.connections_per_site
        self.has_priorities = overrides.have_priorities
        self._overrides = overrides
        self._longest_delay_s = max([politeness.delay_s, *overrides.delays_s()])

    def delay_s(self, site: str) -> float:
        """Return the seconds between two requests to a site, before any Crawl-delay."""
        delay_s = self._overrides.of(site).delay_s
        return self.usual_delay_s if delay_s is None else delay_s

    def longest_delay_s(self, key: str) -> float:
        """Return the longest delay of any site that may have a clock."""
        return self._longest_delay_s if self.by_address else self.delay_s(key)

    def connections(self, key: str) -> int:
        """Return how many requests may be under way at a time by a clock."""
        if self.by_address:
            return self.usual_connections
        connections = self._overrides.of(key).connections
        return self.usual_connections if connections is None else connections

    def priority(self, site: str) -> int:
        """Return the priority of a site; sites with a higher one come first."""
        return self._overrides.of(site).priority or 0

    def is_paced(self, key: str) -> bool:
        """Whether the delay by a clock counts from the start of a request to that of the next."""
        delay_s = self.usual_delay_s if self.by_address else self.delay_s(key)
        return delay_s > 0 and self.connections(key) > 1
