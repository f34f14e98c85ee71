"""The whole configuration: all tables together."""

from pydantic import Field

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
from crawler.config.plugins import NamedPlugin, Plugins
from crawler.config.sites import Overrides, Site
from crawler.config.storage import Storage
from crawler.config.table import Table
from crawler.extensions import KINDS


class Config(Table):
    """The whole configuration, with one field for each table, and one for all `[[sites]]`."""

    session: Session = Field(default_factory=Session)
    scope: Scope = Field(default_factory=Scope)
    normalise: Normalise = Field(default_factory=Normalise)
    assignment: Assignment = Field(default_factory=Assignment)
    dynamic: Dynamic = Field(default_factory=Dynamic)
    exchange: Exchange = Field(default_factory=Exchange)
    frontier: Frontier = Field(default_factory=Frontier)
    politeness: Politeness = Field(default_factory=Politeness)
    retry: Retry = Field(default_factory=Retry)
    robots: Robots = Field(default_factory=Robots)
    sitemaps: Sitemaps = Field(default_factory=Sitemaps)
    dns: Dns = Field(default_factory=Dns)
    fetch: Fetch = Field(default_factory=Fetch)
    extract: Extract = Field(default_factory=Extract)
    traps: Traps = Field(default_factory=Traps)
    seen: Seen = Field(default_factory=Seen)
    storage: Storage = Field(default_factory=Storage)
    dashboard: Dashboard = Field(default_factory=Dashboard)
    plugins: Plugins = Field(default_factory=Plugins)
    sites: tuple[Site, ...] = ()

    def overrides(self) -> Overrides:
        """Return a new object that finds what `[[sites]]` says about a site or a URL."""
        return Overrides(self.sites)

    def named_plugins(self) -> list[NamedPlugin]:
        """Return the plug-ins that keys name, without what is built in."""
        named = []
        for kind in KINDS.values():
            table, _, key = kind.key.partition(".")
            value: str | tuple[str, ...] = getattr(getattr(self, table), key)
            names = (value,) if isinstance(value, str) else value
            named += [NamedPlugin(kind.key, name) for name in names if name not in kind.built_in]
        return named

    @property
    def holds_secrets(self) -> bool:
        """Whether a value may be a secret: a header for a site, or the password of a proxy."""
        return "@" in self.fetch.proxy or any(site.headers for site in self.sites)
