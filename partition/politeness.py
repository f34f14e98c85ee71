"""How fast sites may be asked, by the configuration and the fetch times of sessions.

A site of n pages takes n / rate seconds, whichever ranks fetch its pages, because all ranks share
the clock of the site. So the slowest site bounds the time of the crawl. Dividing a site between
ranks only helps if the site allows more pages a second than one rank can fetch.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crawler import url
from crawler.dataset import read_batches, read_table, table_path
from crawler.names import NamePatterns
from crawler.regular import regular
from partition import UserError
from partition.arrays import Ints

RANK_RATE: Final = 700.0  # pages a second that any rank can fetch and read

# What `fetch_times` needs of a table of pages.
TIMES: Final = ("site", "seconds", "error", "role")

Rates = npt.NDArray[np.float64]
FetchTimes = Mapping[str, tuple[float, int]]  # site -> seconds of its fetches, their number


class Exceptions(NamedTuple):
    """What a table `[[sites]]` of a configuration says of the sites that it matches."""

    match: tuple[str, ...]  # patterns of `crawler.names`
    delay_s: float | None = None
    connections: int | None = None


@dataclass(frozen=True)
class Politeness:
    """The politeness and the fetch times of sessions.

    The defaults are those of the crawler, with fetches that take no time.
    """

    delay_s: float = 1.0
    connections: int = 1
    fetch_s: float = 0.0  # the mean of all fetches
    fetch_s_of: Mapping[str, float] = field(default_factory=dict)  # site -> the mean of its fetches
    crawl_delay_s_of: Mapping[str, float] = field(default_factory=dict)  # site -> by robots.txt
    exceptions: Sequence[Exceptions] = ()  # the first that sets a value counts
    asks_robots: bool = True  # whether robots.txt is the first request to each site
    fetches: int = 64  # of a rank, under way at a time

    @cached_property
    def _patterns(self) -> NamePatterns:
        return NamePatterns([one.match for one in self.exceptions])

    def _exceptions_of(self, site: str) -> list[Exceptions]:
        if not self.exceptions:
            return []
        return [self.exceptions[number] for number in self._patterns.matching(site)]

    def delay_s_of(self, site: str) -> float:
        """Return the seconds between two requests to a site."""
        set_s = [one.delay_s for one in self._exceptions_of(site) if one.delay_s is not None]
        return max((*set_s, self.delay_s)[0], self.crawl_delay_s_of.get(site, 0.0))

    def connections_of(self, site: str) -> int:
        """Return how many requests to a site may be under way."""
        exceptions = self._exceptions_of(site)
        return next(
            (one.connections for one in exceptions if one.connections is not None),
            self.connections,
        )

    def rates(self, sites: Sequence[str]) -> Rates:
        """Return the pages a second that each site allows; math.inf without a bound.

        With one connection, the rate is 1 / (delay + fetch time), because a request starts
        a delay after the end of the one before. With several, it is the smaller of 1 /
        delay and connections / fetch time.
        """
        fetch_s = np.array([self.fetch_s_of.get(site, self.fetch_s) for site in sites])
        delay_s = np.array([self.delay_s_of(site) for site in sites])
        connections = np.array([self.connections_of(site) for site in sites])
        several_s = np.maximum(delay_s, fetch_s / connections)
        page_s = np.where(connections == 1, delay_s + fetch_s, several_s)
        with np.errstate(divide="ignore"):
            rates: Rates = 1 / page_s
        return rates


@dataclass(frozen=True, slots=True)
class Bound:
    """The site that takes longest to crawl, and so bounds the time of the crawl."""

    site: str
    pages: int
    seconds: float
    politeness: Politeness

    def row(self) -> dict[str, object]:
        """The bound as fields of the JSON object of a plan."""
        return {
            "bounding_site": self.site,
            "bounding_pages": self.pages,
            "bounding_seconds": self.seconds,
        }

    def __str__(self) -> str:
        pages = f"{self.pages:,} pages" if self.pages > 1 else "1 page"
        how = f"a delay of {self.politeness.delay_s_of(self.site):g} s"
        if (connections := self.politeness.connections_of(self.site)) > 1:
            how += f" and {connections} connections"
        return f"site {self.site} bounds the crawl: {pages} at {how} take {duration(self.seconds)}"


def bound(sites: Sequence[str], pages: Ints, politeness: Politeness) -> Bound:
    """Return the site that takes longest to crawl. There must be a site with pages.

    `pages`: of each site.
    """
    seconds = pages / politeness.rates(sites)
    slowest = int(np.lexsort((pages, seconds))[-1])
    return Bound(sites[slowest], int(pages[slowest]), round(float(seconds[slowest]), 3), politeness)


def duration(seconds: float) -> str:
    """Return a duration in words: 40000 is 11 h 7 min."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def read(paths: Sequence[Path]) -> Politeness | None:
    """Return the politeness of the last session, with the fetch times of all, or None for a graph.

    Raises UserError.
    """
    if len(paths) == 1 and (paths[0] / "pages.parquet").is_file():  # as in `graph.read`
        return None
    tables = (table_path(path / "tables", "pages") for path in paths)
    return of_sessions(
        paths, fetch_times(batch for table in tables for batch in read_batches(table, TIMES))
    )


def of_sessions(paths: Sequence[Path], times: FetchTimes) -> Politeness:
    """Return the politeness of the last session, with the fetch times of all.

    If several sessions know a crawl-delay of a site, the last one counts. A session without
    session.toml counts as one with the crawler's defaults. Raises UserError.
    """
    for site, (seconds, _) in times.items():
        if not 0 <= seconds < float("inf"):
            raise UserError(
                f"{' '.join(map(str, paths))}: the seconds of the pages of {site} sum to {seconds};"
                " each must be 0 or more"
            )
    settings = _configured(paths[-1] / "session.toml")
    crawl_delays: dict[str, float] = {}
    for path in paths:
        if settings.obeys_robots:
            crawl_delays |= _crawl_delays(table_path(path / "tables", "sites"))
    bounded = {site: min(delay, settings.most_s) for site, delay in crawl_delays.items()}
    all_seconds = sum(seconds for seconds, _ in times.values())
    fetches = sum(number for _, number in times.values())
    return Politeness(
        settings.delay_s,
        settings.connections,
        all_seconds / max(fetches, 1),
        {site: seconds / number for site, (seconds, number) in times.items() if number},
        bounded,
        settings.exceptions,
        settings.obeys_robots,
        settings.fetches,
    )


class _Settings(NamedTuple):
    """The politeness in a session's configuration. The defaults are those of the crawler."""

    delay_s: float = 1.0
    connections: int = 1
    most_s: float = 60.0  # the longest crawl-delay that is obeyed
    obeys_robots: bool = True
    fetches: int = 64
    exceptions: Sequence[Exceptions] = ()


def _configured(path: Path) -> _Settings:
    """Read the politeness in the configuration of a session."""
    usual = _Settings()
    if not path.exists():
        return usual
    try:
        tables = tomllib.loads(regular(path).read_text())
        table = tables.get("politeness", {})
        delay_s = float(table.get("delay_s", usual.delay_s))
        connections = int(table.get("connections_per_site", usual.connections))
        most_s = float(table.get("max_crawl_delay_s", usual.most_s))
        exceptions = tuple(map(_exceptions, tables.get("sites", [])))
        obeys_robots = tables.get("robots", {}).get("obey", usual.obeys_robots) is True
        fetches = int(tables.get("fetch", {}).get("concurrency", usual.fetches))
    except (
        ValueError,
        OverflowError,
        RecursionError,
        TypeError,
        AttributeError,
        KeyError,
        OSError,
    ) as error:
        raise UserError(f"{path}: not the file of a session: {error}") from None
    if not 0 <= delay_s < float("inf") or connections < 1:
        raise UserError(f"{path}: politeness: delay_s must be 0 or more, connections 1 or more")
    if not all(0 <= one.delay_s < float("inf") for one in exceptions if one.delay_s is not None):
        raise UserError(f"{path}: [[sites]]: delay_s must be 0 or more")
    if fetches < 1:
        raise UserError(f"{path}: fetch: concurrency must be 1 or more")
    return _Settings(delay_s, connections, most_s, obeys_robots, fetches, exceptions)


def _exceptions(table: Mapping[str, Any]) -> Exceptions:
    """Read a table `[[sites]]`. Regular expressions in it say nothing about delays."""
    match = tuple(str(name) for name in table["match"] if not str(name).startswith("^"))
    delay_s, connections = table.get("delay_s"), table.get("connections")
    return Exceptions(
        match,
        None if delay_s is None else float(delay_s),
        None if connections is None else max(int(connections), 1),
    )


def _crawl_delays(path: Path) -> dict[str, float]:
    """Read the crawl-delay of each site with one; earlier versions stored none."""
    if not path.exists():
        return {}
    try:
        table = read_table(path, ["site", "crawl_delay"])
        if not {"site", "crawl_delay"} <= set(table.column_names):
            return {}
        rows = table.to_pylist()
        return {str(row["site"]): float(row["crawl_delay"]) for row in rows if row["crawl_delay"]}
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path}: not the sites of a session: {error}") from None


def fetch_times(batches: Iterable[pa.RecordBatch]) -> FetchTimes:
    """Return the fetch times of rows of the tables of pages, with those of `TIMES` they have."""
    seconds: dict[str, float] = defaultdict(float)
    fetches: dict[str, int] = defaultdict(int)
    for batch in batches:
        rows: Any = pa.Table.from_batches([batch])
        names = rows.column_names
        if not {"site", "seconds"} <= set(names):
            continue  # the log of another program
        if "role" in names:  # the graph has no requisites
            rows = rows.filter(pc.not_equal(rows["role"], "requisite"))
        if "error" in names:
            rows = rows.filter(pc.is_null(rows["error"]))
        sums = rows.group_by("site").aggregate([("seconds", "sum"), ("seconds", "count")])
        for row in sums.to_pylist():
            site = url.renamed_site(str(row["site"]))
            seconds[site] += row["seconds_sum"] or 0.0
            fetches[site] += row["seconds_count"]
    return {site: (seconds[site], number) for site, number in fetches.items()}
