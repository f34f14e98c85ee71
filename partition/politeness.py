"""How fast sites may be asked, by the configuration and the fetch times of the given sessions.

A site of n pages takes n / rate seconds, whoever fetches its pages: all ranks share its clock. So
the slowest site bounds the crawl, and ranks gain nothing from dividing a site between them, unless
the site allows more than one rank can fetch.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawler import url
from crawler.regular import regular
from partition import UserError
from partition.webgraph import WebGraph

RANK_RATE: Final = 700.0  # pages a second that a rank fetches and reads at least

Rates = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Politeness:
    """The politeness and the fetch times of sessions.

    The defaults are those of the crawler, with fetches that take no time.
    """

    delay_s: float = 1.0
    connections: int = 1
    fetch_s: float = 0.0  # the mean of all fetches
    fetch_s_of: Mapping[str, float] = field(default_factory=dict)  # site -> the mean of its fetches

    def rates(self, sites: Sequence[str]) -> Rates:
        """The pages a second that each site allows; math.inf where nothing bounds them.

        With one connection that is 1 / (delay + fetch time), because a request begins a delay after
        the one before it has ended. Otherwise it is the least of 1 / delay and connections / fetch
        time.
        """
        fetch_s = np.array([self.fetch_s_of.get(site, self.fetch_s) for site in sites])
        if self.connections == 1:
            page_s = self.delay_s + fetch_s
        else:
            page_s = np.maximum(self.delay_s, fetch_s / self.connections)
        with np.errstate(divide="ignore"):
            rates: Rates = 1 / page_s
        return rates


@dataclass(frozen=True, slots=True)
class Bound:
    """The site that takes longest, and so bounds the crawl."""

    site: str
    pages: int
    seconds: float
    politeness: Politeness

    def __str__(self) -> str:
        pages = f"{self.pages:,} pages" if self.pages > 1 else "1 page"
        how = f"a delay of {self.politeness.delay_s:g} s"
        if self.politeness.connections > 1:
            how += f" and {self.politeness.connections} connections"
        return f"site {self.site} bounds the crawl: {pages} at {how} take {duration(self.seconds)}"


def bound(web: WebGraph, politeness: Politeness) -> Bound:
    """The site of a web that takes longest to crawl. The web must have pages."""
    pages = np.bincount(web.site, minlength=len(web.sites))
    seconds = pages / politeness.rates(web.sites)
    slowest = int(np.lexsort((pages, seconds))[-1])
    return Bound(
        web.sites[slowest], int(pages[slowest]), round(float(seconds[slowest]), 3), politeness
    )


def duration(seconds: float) -> str:
    """A duration in words for people: 40000 is 11 h 7 min."""
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
    """The politeness of the last session, with the fetch times of all; None for a bare graph.

    A session without session.toml counts as one with the crawler's defaults. Raises UserError.
    """
    if len(paths) == 1 and (paths[0] / "pages.parquet").is_file():  # as in `graph.read`
        return None
    delay_s, connections = _configured(paths[-1] / "session.toml")
    seconds: dict[str, float] = defaultdict(float)
    fetches: dict[str, int] = defaultdict(int)
    for path in paths:
        for site, taken, number in _fetch_times(path / "tables" / "pages.parquet"):
            seconds[site] += taken
            fetches[site] += number
    mean = sum(seconds.values()) / max(sum(fetches.values()), 1)
    of_site = {site: seconds[site] / number for site, number in fetches.items() if number}
    return Politeness(delay_s, connections, mean, of_site)


def _configured(path: Path) -> tuple[float, int]:
    """`politeness.delay_s` and `politeness.connections_per_site` of a session."""
    usual = Politeness()
    if not path.exists():
        return usual.delay_s, usual.connections
    try:
        table = tomllib.loads(regular(path).read_text()).get("politeness", {})
        delay_s = float(table.get("delay_s", usual.delay_s))
        connections = int(table.get("connections_per_site", usual.connections))
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise UserError(f"{path}: not the file of a session: {error}") from None
    if not 0 <= delay_s < float("inf") or connections < 1:
        raise UserError(f"{path}: politeness: delay_s must be 0 or more, connections 1 or more")
    return delay_s, connections


def _fetch_times(path: Path) -> list[tuple[str, float, int]]:
    """Site, seconds of its fetches that ended well, and their number, in pieces."""
    found: list[tuple[str, float, int]] = []
    with pq.ParquetFile(regular(path)) as file:
        if not {"site", "seconds"} <= set(file.schema_arrow.names):
            return found  # of another program
        columns = [name for name in ("site", "seconds", "error") if name in file.schema_arrow.names]
        for batch in file.iter_batches(1 << 18, columns=columns):
            rows: Any = pa.Table.from_batches([batch])
            if "error" in columns:
                rows = rows.filter(pc.is_null(rows["error"]))
            sums = rows.group_by("site").aggregate([("seconds", "sum"), ("seconds", "count")])
            found += [
                (
                    url.renamed_site(str(row["site"])),
                    row["seconds_sum"] or 0.0,
                    row["seconds_count"],
                )
                for row in sums.to_pylist()
            ]
    return found
