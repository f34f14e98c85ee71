"""The configuration: every key, its default, its meaning, and the values that it allows.

A configuration is frozen once it is loaded. Each room gets only the tables that it needs, for
example `Workbench(config.politeness)`. A mistake raises a UserError that names the key, the value
and what is allowed.

The keys stand in `crawl` (what is crawled), `network` (requests), `sites` (what differs for some
sites) and `plugins`, their types in `values`.
`loading` reads a configuration, `checking` checks its values, `mistakes` explains what is wrong,
and `toml` writes a configuration. `dependence` says what the state of a crawl depends on.
"""

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
from crawler.config.dependence import Dependence, dependence
from crawler.config.dynamic import Dynamic
from crawler.config.loading import load
from crawler.config.network import Dashboard, Dns, Fetch, Politeness, Retry, Robots
from crawler.config.plugins import NamedPlugin
from crawler.config.sites import Overrides, Site
from crawler.config.storage import Storage
from crawler.config.table import Table
from crawler.config.toml import as_toml, toml_value
from crawler.config.values import Key, what_is_named
from crawler.config.whole import Config

__all__ = [
    "Assignment",
    "Config",
    "Dashboard",
    "Dependence",
    "Dns",
    "Dynamic",
    "Exchange",
    "Extract",
    "Fetch",
    "Frontier",
    "Key",
    "NamedPlugin",
    "Normalise",
    "Overrides",
    "Politeness",
    "Retry",
    "Robots",
    "Scope",
    "Seen",
    "Session",
    "Site",
    "Sitemaps",
    "Storage",
    "Table",
    "Traps",
    "as_toml",
    "dependence",
    "load",
    "toml_value",
    "what_is_named",
]
