"""The URLs of a rank that wait for their visits: in which order, in how much memory, and how many.

The queues themselves belong to `order`. The backlog keeps these promises about them:

- `waiting` is the number of URLs in all queues, errands included.
- No more than `memory` URLs wait in memory, if there is a disk with room for the others. A few URLs
  of each site always wait in memory.
- `head_changed` hears of each site whose first URL has changed, so that the site can change its
  place among the others.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from crawler.core.order import BreadthFirst, Fifos, Heaps, Priority, Queue, Queues, Scored
from crawler.core.visits import VisitState
from crawler.ports import CrawlUrl, Spill

_FIRST: Final[Priority] = (-inf, 0)
_STEP: Final = 256  # URLs that go to disk together, in less than a millisecond
_MOST: Final = 4096  # URLs that go to disk at a time when memory is short, in some milliseconds
_SAMPLED: Final = 16  # one URL in so many is measured


class Backlog:
    """The waiting URLs of all sites."""

    def __init__(
        self,
        order: BreadthFirst,
        spill: Spill | None,
        memory: int,
        states: Mapping[str, VisitState],
    ) -> None:
        """`memory`: how many URLs may wait in memory; the others go to `spill`, if that is given.

        `states`: the visit states by site, which hold the queues. Set `head_changed` before
        anything else is called.
        """
        self.head_changed: Callable[[VisitState], None]
        self.order = order
        self.counts = order.counts  # whether `count_links` is to be called
        self.by_scores = isinstance(order, Scored)
        self.waiting = 0
        self.enqueued = 0  # URLs that were ever added, but no errands: the rank's load
        self._states = states
        self._store: Queues = Heaps(order, spill) if isinstance(order, Scored) else Fifos(spill)
        self.disk = spill
        self._memory = memory if spill else sys.maxsize
        self._path_bytes = 0  # of the URLs that were measured
        self._full = self._memory  # URLs in memory from which on we make room

    def new_queue(self, site: str) -> Queue:
        """An empty queue for the state of a site."""
        return self._store.queue(site)

    def add(self, state: VisitState, found: CrawlUrl, links: int, low: bool) -> None:
        """Add a new URL to the queue of its site. See `Workbench.enqueue` for the arguments.

        A requisite comes before the site's pages, so that the pages that need it are soon whole.
        """
        if found.is_requisite:
            self._store.put_back(state.queue, found, _FIRST)
            if self.by_scores:
                self.head_changed(state)
        elif self._store.add(state.queue, found, links, low):
            self.head_changed(state)
        if not self.enqueued % _SAMPLED:
            self._path_bytes += len(found.url) - len(found.site)
        self.waiting += 1
        self.enqueued += 1
        if self.waiting - self._store.on_disk > self._full:
            self._make_room()

    def restore(self, state: VisitState, found: CrawlUrl, score: float) -> None:
        """Add a URL that `drain` gave in an earlier run, with its score."""
        if self._store.restore(state.queue, found, score):
            self.head_changed(state)
        if not self.enqueued % _SAMPLED:
            self._path_bytes += len(found.url) - len(found.site)
        self.waiting += 1
        self.enqueued += 1
        if self.waiting - self._store.on_disk > self._full:
            self._make_room()

    def add_errand(self, state: VisitState, found: CrawlUrl) -> None:
        """Add an errand, behind the other errands of its site and before all of its URLs."""
        if state.errands is None:
            state.errands = deque()
        state.errands.append(found)
        self.waiting += 1
        if self.by_scores:
            self.head_changed(state)

    def pop(self, state: VisitState) -> CrawlUrl:
        """Take out the errand or URL of a site that comes first. The site must have one."""
        self.waiting -= 1
        return state.errands.popleft() if state.errands else self._store.pop(state.queue)

    def put_back(self, state: VisitState, found: CrawlUrl, priority: Priority) -> None:
        """Put a URL back before the others of its site, with the priority that it had before.

        An errand goes behind the other errands.
        """
        if found.is_errand:
            self.add_errand(state, found)
            return
        self._store.put_back(state.queue, found, priority)
        self.waiting += 1
        if self.by_scores:
            self.head_changed(state)

    def priority(self, state: VisitState) -> Priority:
        """The priority of what comes first of a site. Only an order by scores has priorities.

        A site whose URLs have left comes at once, so that the workbench finds that out.
        """
        assert isinstance(self._store, Heaps)
        if state.errands or not state.queue.size:
            return _FIRST
        return self._store.priority(state.queue)

    def count_links(self, key: int, links: int = 1) -> None:
        """Count more back-links of a URL. Call this only if `counts`.

        The call has no effect if the URL doesn't wait.
        """
        assert isinstance(self._store, Heaps)
        queue = self._store.linked(key, links)
        if queue is not None:
            self.head_changed(self._states[queue.site])

    def note_page(self, source: CrawlUrl, keys: Sequence[int]) -> None:
        """Let the order see the links of a fetched page. Call this only if `order.wants_links`.

        `keys`: the targets. `add` or `count_links` has counted each of these links before.
        """
        store, order = self._store, self.order
        assert isinstance(store, Heaps)
        assert isinstance(order, Scored)
        for queue in store.fetched(source.key, keys):
            self.head_changed(self._states[queue.site])
        if order.is_stale():
            store.rescore(state.queue for state in self._states.values())
            for state in self._states.values():
                self.head_changed(state)

    def drain(self, states: Iterable[VisitState] | None = None) -> Iterator[tuple[CrawlUrl, float]]:
        """Take out the URLs of some sites, but no errands, each with its score. Exhaust it.

        `states`: of these sites, and the workbench must hear of it (`Workbench.drain`). None: of
        all, for a snapshot. Afterwards the backlog is useless, but `waiting` still says how many
        URLs were left, because a crawl with such URLs isn't complete.
        """
        if states is None:
            yield from self._store.drain(state.queue for state in self._states.values())
            return
        for found in self._store.drain(state.queue for state in states):
            self.waiting -= 1
            yield found

    def nbytes(self) -> int:
        """About how many bytes of memory the waiting URLs take."""
        path = 0.0 if not self.enqueued else self._path_bytes * _SAMPLED / self.enqueued
        in_memory = self.waiting - self._store.on_disk
        return self._store.nbytes(in_memory, path)

    def give(self, excess: int) -> bool:
        """Move URLs to disk, to free `excess` bytes of memory. Returns whether it could move some.

        One call moves only so many that it takes some milliseconds.
        """
        before = self._store.on_disk
        in_memory = self.waiting - before
        if self.disk is not None and in_memory:
            urls = excess * in_memory // max(self.nbytes(), 1) + 1
            self._store.spill(min(urls, _MOST))
        return self._store.on_disk > before

    def _make_room(self) -> None:
        """Move the URLs that exceed the memory to disk."""
        before = self.waiting - self._store.on_disk
        self._store.spill(min(before - self._memory + min(_STEP, self._memory // 4), _MOST))
        left = self.waiting - self._store.on_disk
        if left == before:  # the next try comes when an eighth more URLs wait
            left = left // 8 * 9
        self._full = max(self._memory, left)
