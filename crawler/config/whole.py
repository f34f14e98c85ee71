"""The whole configuration: all tables together."""

from crawler.config.crawl import (
    Assignment,
    Exchange,
    Extract,
    Frontier,
    Normalise,
    Scope,
    Seen,
    Session,
    Sitemaps,
    Storage,
    Traps,
)
from crawler.config.dynamic import Dynamic
from crawler.config.network import Dashboard, Dns, Fetch, Politeness, Retry, Robots
from crawler.config.sites import Overrides, Site
from crawler.config.table import Table


class Config(Table):
    """The whole configuration, with one field for each table, and one for all `[[sites]]`."""

    session: Session = Session()
    scope: Scope = Scope()
    normalise: Normalise = Normalise()
    assignment: Assignment = Assignment()
    dynamic: Dynamic = Dynamic()
    exchange: Exchange = Exchange()
    frontier: Frontier = Frontier()
    politeness: Politeness = Politeness()
    retry: Retry = Retry()
    robots: Robots = Robots()
    sitemaps: Sitemaps = Sitemaps()
    dns: Dns = Dns()
    fetch: Fetch = Fetch()
    extract: Extract = Extract()
    traps: Traps = Traps()
    seen: Seen = Seen()
    storage: Storage = Storage()
    dashboard: Dashboard = Dashboard()
    sites: tuple[Site, ...] = ()

    def overrides(self) -> Overrides:
        """Return a new object that finds what `[[sites]]` says about a site or a URL."""
        return Overrides(self.sites)

    @property
    def holds_secrets(self) -> bool:
        """Whether a value may be a secret: a header for a site, or the password of a proxy."""
        return "@" in self.fetch.proxy or any(site.headers for site in self.sites)
