"""The workbench of a seed server: a registry of URLs instead of queues and visits.

A server fetches nothing. Its URLs wait in the URL-Registry (WEB-SAILOR, section 3.3) until it hands
them to a client (`core.dynamic.server`). The workbench and its backlog stay the places where a core
puts new URLs, counts links to them, and finds out how many of them wait.
"""

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from crawler import config
from crawler.core.backlog import Backlog
from crawler.core.hands import Dealt, Hand
from crawler.core.leases import Leases
from crawler.core.order import BreadthFirst, Scored
from crawler.core.seen import Unmet
from crawler.core.visits import Visit, VisitState
from crawler.core.workbench import Workbench
from crawler.ports import CrawlUrl

if TYPE_CHECKING:  # only a server needs numba, which takes a second to import
    from crawler.core.registry import Registry

_COUNT_BYTES = 110  # of a number by the key of a URL
Keys = NDArray[np.uint64]
MakeRegistry = Callable[[Callable[[str], int]], "Registry"]  # from the pool that a site is born in


_LAST: Final = -inf, True  # the score of URLs that come last, which is final


def _equal(found: CrawlUrl, links: int) -> tuple[float, bool]:
    """The same final score for all URLs: they come in the order of their arrival."""
    return 0.0, True


class SeedBacklog(Backlog):
    """All URLs that a server knows. `waiting` counts those that wait, or are with a client."""

    def __init__(self, order: BreadthFirst, make_registry: MakeRegistry) -> None:
        """`pool_for` says in which pool a site is born. Set it before the first URL comes."""
        super().__init__(order, None, sys.maxsize, {})
        self.pool_for: Callable[[str], int] | None = None
        self.counts = True  # whatever the order, the registry counts back-links
        self.registry = make_registry(self._pool_for)
        self._scored = order if isinstance(order, Scored) else None
        self._first = _equal if self._scored is None else self._scored.first
        # Links that have overtaken the text of their URL: by key, how many.
        self._early: dict[int, int] = {}
        self._scores: dict[int, float] = {}  # of URLs handed out, when they were, for `note_page`

    def _pool_for(self, site: str) -> int:
        assert self.pool_for is not None, site
        return self.pool_for(site)

    def nbytes(self) -> int:
        """About how many bytes of memory all URLs take that the server knows."""
        return self.registry.nbytes() + _COUNT_BYTES * (len(self._early) + len(self._scores))

    def give(self, excess: int) -> bool:
        """Do nothing: the texts are on disk already, and the rest must stay."""
        return False

    def look(self) -> None:
        """Count anew what waits; to be called after each change of the registry."""
        self.waiting = self.registry.waits + self.registry.handed

    # --- URLs come in -------------------------------------------------------------------------

    def take_in(self, found: CrawlUrl, links: int, low: bool) -> None:
        """Let a URL wait: a new one, or one that was fetched before. See `Workbench.enqueue`."""
        # Only a URL that its own chain leads back to comes a second time.
        self.enqueued += 1
        if found.key in found.chain and found.key in self.registry:
            self.registry.wait_again(found)
            self.look()
            return
        self._add([found], [links], {found.key} if low else ())

    def take_in_all(
        self, found: Sequence[CrawlUrl], links: Sequence[int], low: Container[int]
    ) -> None:
        """Let new URLs wait, which no redirects have led to. `low`: keys of those that come last.

        `links`: the number of links to each.
        """
        self.enqueued += len(found)
        self._add(found, links, low)

    def _add(self, found: Sequence[CrawlUrl], links: Sequence[int], low: Container[int]) -> None:
        early, first = self._early, self._first
        if early:
            links = [n + early.pop(one.key, 0) for one, n in zip(found, links, strict=True)]
        scores = [
            _LAST if one.key in low else first(one, n) for one, n in zip(found, links, strict=True)
        ]
        self.registry.add(found, scores, links)
        self.waiting += len(found)

    def count_links(self, key: int, links: int = 1) -> None:
        """See Backlog."""
        self.count(np.array([key], np.uint64), np.array([links], np.uint32))

    def count(self, keys: Keys, links: NDArray[np.uint32]) -> None:
        """Count back-links of many URLs. Their texts are here already, or still on the way."""
        for index in self.count_known(keys, links):
            key = int(keys[index])
            self._early[key] = self._early.get(key, 0) + int(links[index])

    def count_known(self, keys: Keys, links: NDArray[np.uint32]) -> list[int]:
        """Count back-links of the URLs that are known. Returns the indexes of the others."""
        more = self._scored.more(1) if self._scored is not None and self._scored.counts else 0.0
        unknown: list[int] = self.registry.count(keys, links, more).tolist()
        return unknown

    def note_page(self, source: CrawlUrl, keys: Sequence[int]) -> None:
        """See Backlog."""
        order = self._scored
        assert order is not None
        added = order.spread(source.key, self._scores.pop(source.key, None), keys)
        if added:
            self.registry.increase(np.array(keys, np.uint64), added)
        if order.is_stale():
            self.registry.rescore(order.scores)

    def link_counts(self) -> Iterator[tuple[int, int]]:
        """The keys of all URLs, each with the number of links to it."""
        return self.registry.link_counts()

    # --- URLs go out --------------------------------------------------------------------------

    def deal(self, hands: Sequence[Hand], free: int | None, share: int, most: int) -> list[Dealt]:
        """Hand out URLs. See `Registry.deal`."""
        dealt = self.registry.deal(hands, free, share, most)
        if self.order.wants_links:
            for one in dealt:
                keys = (found.key for found in one.found)
                self._scores.update(zip(keys, one.scores, strict=True))
        return dealt

    def end(self, keys: Keys) -> list[tuple[str, int]]:
        """Note that URLs are dealt with that were handed out. See `Registry.end`."""
        if self._scores:
            for key in keys.tolist():
                self._scores.pop(key, None)
        return self.registry.end(keys)

    def drain(self, states: Iterable[VisitState] | None = None) -> Iterator[tuple[CrawlUrl, float]]:
        """Raise an error: a server leaves no snapshot, so a resume reads the logs."""
        raise AssertionError("a seed server is resumed by its logs")


class SeedBench(Workbench):
    """The workbench of a server, which makes no visits."""

    def __init__(
        self,
        politeness: config.Politeness,
        retry: config.Retry,
        order: BreadthFirst,
        make_registry: MakeRegistry,
        leases: Leases | None,
        overrides: config.Overrides | None = None,
    ) -> None:
        super().__init__(politeness, retry, None, None, sys.maxsize, leases, overrides=overrides)
        self.seeds = SeedBacklog(order, make_registry)
        self.backlog = self.seeds  # mypyc wants one type for this attribute in all workbenches
        self.seen = RegistrySeen(self.seeds.registry)

    def enqueue(self, found: CrawlUrl, links: int = 1, low: bool = False) -> None:
        """See Workbench. A URL that was fetched before waits again."""
        self.seeds.take_in(found, links, low)

    def acquire(self, now: float) -> Visit | None:
        """Nothing: a server makes no visits."""
        return None

    def next_time(self) -> float | None:
        """None: a server makes no visits."""
        return None


class RegistrySeen:
    """The registry as a store of URL-seen (`core.seen.UrlSeen`)."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    def unmet(self, keys: Iterable[int]) -> Unmet:
        """The keys that the registry doesn't know."""
        asked = np.fromiter(keys, np.uint64)
        return set(asked[self._registry.rows(asked) < 0].tolist())

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, int)
        return key in self._registry

    def __iter__(self) -> Iterator[int]:
        return iter(self._registry)

    def add(self, key: int) -> None:
        """Do nothing: `SeedBench.enqueue` follows, or `update` if the URL isn't to wait."""

    def update(self, keys: Iterable[int]) -> None:
        """Note URLs that were met."""
        self._registry.add_visited(keys)
