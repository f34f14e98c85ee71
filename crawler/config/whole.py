"""The whole configuration: all tables together."""

from collections.abc import Mapping

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
    Traps,
)
from crawler.config.dynamic import Dynamic
from crawler.config.network import Dashboard, Dns, Fetch, Politeness, Retry, Robots
from crawler.config.plugins import NamedPlugin, Options
from crawler.config.sites import Overrides, Site
from crawler.config.storage import Storage
from crawler.config.table import Table, key
from crawler.extensions import KINDS


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
    plugins: Mapping[str, Options] = key(
        default={}, about="the options of plug-ins, by the names of these"
    )
    sites: tuple[Site, ...] = ()

    def overrides(self) -> Overrides:
        """Return a new object that finds what `[[sites]]` says about a site or a URL."""
        return Overrides(self.sites)

    def named_plugins(self) -> list[NamedPlugin]:
        """Return the plug-ins that keys name, without what is built in."""
        named = []
        for kind in KINDS.values():
            table, _, name = kind.key.partition(".")
            value: str | tuple[str, ...] = getattr(getattr(self, table), name)
            names = (value,) if isinstance(value, str) else value
            named += [NamedPlugin(kind.key, name) for name in names if name not in kind.built_in]
        return named

    def options_of(self, plugin: str) -> Mapping[str, object]:
        """Return the options of a plug-in."""
        return self.plugins.get(plugin, {})

    @property
    def holds_secrets(self) -> bool:
        """Whether a value may be a secret: a header for a site, or the password of a proxy."""
        return "@" in self.fetch.proxy or any(site.headers for site in self.sites)
