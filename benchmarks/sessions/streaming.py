"""A streaming rule for the sites that a part vector lacks, in a simulated crawl.

It takes the place of claims. All ranks share one object here, so votes and answers take no time and
no message. So the rule does at least as well as it could in a live crawl.
"""

from collections import defaultdict
from functools import partial
from typing import Final

from numpy.typing import NDArray

from crawler.core.core import Core
from crawler.core.foreign import Origin
from crawler.ports import Link
from crawler.simulate import Simulation
from crawler.simulate.shell import _ORDER
from partition.arrays import Ids
from partition.partvector.placing import HEADROOM, SLACK
from partition.webgraph import WebGraph

WAIT_S: Final = 10.0  # of virtual time; a fetch takes 0.05 to 0.5 s


class Streaming:
    """Places the sites of a simulated crawl by linear deterministic greedy, in place of claims."""

    def __init__(self, simulation: Simulation, web: WebGraph | None, of_site: Ids) -> None:
        """`web`: all links, if they are known in advance. `of_site`: the parts in the vector."""
        self.owners: dict[str, int] = {}
        self._simulation = simulation
        self._begun: set[str] = set()
        self._loads = [0] * len(simulation.cores)
        self._listed = dict(enumerate(of_site.tolist()))
        self._near: defaultdict[str, list[int]] = defaultdict(list)  # site -> sites at its links
        self._number = {}
        if web is not None:
            self._number = {name: number for number, name in enumerate(web.sites)}
            ends = web.site[web.sources()], web.site[web.adj]
            for one, other in zip(*map(NDArray.tolist, ends), strict=True):
                if one != other:
                    self._near[web.sites[one]].append(other)
                    self._near[web.sites[other]].append(one)
        for core in simulation.cores:
            core.door.claims.claim = partial(self._claim, core)

    def _claim(
        self, core: Core, link: Link, origin: Origin | None, load: int, now: float
    ) -> int | None:
        core.door.claims._held[link.site].append((link, origin))
        if link.site not in self._begun:
            self._begun.add(link.site)
            for rank in range(len(self._simulation.cores)):
                settle = partial(self._settle, link.site)
                self._simulation._at(now + WAIT_S, _ORDER, rank, settle)

    def _settle(self, site: str, core: Core, now: float) -> None:
        if site not in self.owners:
            self.owners[site] = self._choose(site)
            if site in self._number:
                self._listed[self._number[site]] = self.owners[site]
        core.door._learn(site, self.owners[site], now)

    def _choose(self, site: str) -> int:
        cores = self._simulation.cores
        votes = [len(core.door.claims._held.get(site, ())) for core in cores]
        near = [self._listed[other] for other in self._near[site]]
        if any(part >= 0 for part in near):
            votes = [near.count(rank) for rank in range(len(cores))]
        pairs = zip(self._loads, cores, strict=True)
        self._loads = loads = [max(load, core._backlog.enqueued) for load, core in pairs]
        most = SLACK * sum(loads) / len(loads) + HEADROOM
        worth = [vote * (1 - load / most) for vote, load in zip(votes, loads, strict=True)]
        best = max(worth)
        owner = worth.index(best) if best > 0 else loads.index(min(loads))
        loads[owner] += 1  # at least one URL, until more have been found
        return owner
