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
from crawler.config.table import Table


class Config(Table):
    """The whole configuration, with one field for each table."""

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
