"""The registry of a seed server (Mukhopadhyay et al., WEB-SAILOR, section 3.3)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crawler.core.order.packing import short, whole
from crawler.core.registry import moves, records, rescoring, table
from crawler.core.registry.records import ABSENT, FINAL, NO_SITE, NONE, OUT, SITE
from crawler.core.registry.table import Keys, Rows
from crawler.core.registry.texts import Texts
from crawler.ports import CrawlUrl, Spill

_STEP: Final = 1 << 18  # rows that are looked at together
_FULL: Final = 0.8  # of the table


class Registry:
    """All URLs that a seed server knows, by site, with their back-link counts.

    Each site belongs to a pool. The registry finds the best URL of a pool that may be handed out,
    in logarithmic time: the URL with the highest score, and of equal scores the one that came
    first. Pools are small numbers; a pool exists as soon as it is named.

    A URL waits, or is handed out, or is visited. It has a row for good, by order of arrival.
    """

    def __init__(
        self,
        per_site: int,
        spill: Spill | None = None,
        pool_for: Callable[[str], int] = lambda site: 0,
    ) -> None:
        """`per_site`: how many URLs of a site may be handed out at a time.

        `spill` keeps the texts of the URLs; without it they stay in memory. `pool_for` says in
        which pool a new site is born.
        """
        self.per_site = per_site
        self.pool_for = pool_for
        self.waits = 0  # URLs that wait
        self.handed = 0  # URLs that are handed out now
        self._known = 0
        self._urls = records.empty(records.URL)
        self._sites = records.empty(records.SITE_RECORD)
        self._pools = np.zeros(0, records.POOL)
        self._table = np.zeros(records.FIRST * 2, np.uint32)
        self._numbers: dict[str, int] = {}  # of sites
        self._names: list[str] = []
        self._texts = Texts(spill)
        # URLs to which redirects led, and those that wait again: what `_texts` doesn't know of
        # them. They are few.
        self._kept: dict[int, CrawlUrl] = {}
        self._again: dict[int, CrawlUrl] = {}  # URLs handed out that shall wait afterwards

    # --- what is known ------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._known

    def __contains__(self, key: int) -> bool:
        return self.find(key) >= 0

    def __iter__(self) -> Iterator[int]:
        """Yield the keys of all URLs, in order of arrival."""
        for start in range(0, self._known, _STEP):
            yield from self._urls["key"][start : min(start + _STEP, self._known)].tolist()

    def find(self, key: int) -> int:
        """Return the row of a key, or -1 if the key is unknown."""
        return int(
            table.find(self._table, self._urls, np.uint64(key))
        )  # one kind of integer: compiled once

    def rows(self, keys: Keys) -> Rows:
        """Return the row of each key, -1 where the key is unknown."""
        return table.find_all(self._table, self._urls, keys)

    def links_of(self, key: int) -> int:
        """Return the number of back-links of a URL. Raises KeyError if it is unknown."""
        return int(self._urls["links"][self._row(key)])

    def link_counts(self) -> Iterator[tuple[int, int]]:
        """Yield the key of each URL with its number of back-links, in order of arrival."""
        for start in range(0, self._known, _STEP):
            urls = self._urls[start : min(start + _STEP, self._known)]
            yield from zip(urls["key"].tolist(), urls["links"].tolist(), strict=True)

    def waiting(self, pool: int) -> int:
        """Return the number of URLs that wait, in the sites of a pool."""
        return int(self._pools["waiting"][pool]) if pool < len(self._pools) else 0

    def sites_waiting(self, pool: int) -> int:
        """Return the number of a pool's sites that have a URL that may be handed out."""
        return int(self._pools["sites"][pool]) if pool < len(self._pools) else 0

    def out(self, site: str) -> int:
        """Return the number of URLs of a site that are handed out now."""
        number = self._numbers.get(site)
        return 0 if number is None else int(self._sites["out"][number])

    def waiting_urls(self) -> Iterator[CrawlUrl]:
        """Yield all URLs that wait, in order of arrival. The registry mustn't change meanwhile."""
        for start in range(0, self._known, _STEP):
            states = self._urls["previous"][start : min(start + _STEP, self._known)]
            waits = (states != ABSENT) & (states != OUT)
            for row in np.flatnonzero(waits).tolist():
                yield self._found(start + row)

    # --- new URLs, and counts -----------------------------------------------------------------

    def add(self, found: CrawlUrl, score: float, links: int, *, final: bool) -> int:
        """Let a new URL wait. Returns its row. Raises KeyError if its key is known.

        `final`: the score never changes.
        """
        site = self._site(found.site)
        row = self._room(1)
        key = np.uint64(found.key)
        field = site | FINAL if final else site
        if not table.add(self._table, *self._arrays, row, key, float(score), links, field):
            raise KeyError(found.key)
        self._known += 1
        self.waits += 1
        if found.chain:
            self._kept[row] = found
        else:
            self._texts.append(row, f"{found.hops:x} {short(found)}")
        return row

    def add_visited(self, keys: Iterable[int]) -> None:
        """Let keys be visited that earlier runs visited, whether they are known or not."""
        wanted = np.fromiter(keys, np.uint64)
        rows = self.rows(wanted)
        for row in np.unique(rows[rows >= 0]).tolist():
            self._visit(row)
        new = np.unique(wanted[rows < 0])
        start = self._room(len(new))
        self._known += len(new)
        urls = self._urls[start : self._known]
        urls["key"] = new
        urls["site"] = NO_SITE
        urls["previous"] = ABSENT
        table.enter_all(self._table, self._urls, start, self._known)

    def count(self, keys: Keys, links: NDArray[np.uint32], more: float) -> Rows:
        """Add to the back-link counts of URLs. Returns the indexes of unknown keys.

        The score of a URL rises by `more` for each link, if the URL waits and its score isn't
        final. A URL that was put back keeps its score: it comes first anyway.
        """
        assert more >= 0
        return table.count(self._table, *self._arrays, keys, links, float(more))

    def increase(self, keys: Keys, amount: float) -> None:
        """Add to the scores of URLs, where `count` would. Unknown keys don't matter."""
        table.increase(self._table, *self._arrays, keys, float(amount))

    def rescore(self, scores: Callable[[Keys, NDArray[np.uint32]], NDArray[np.float64]]) -> None:
        """Set the scores that `count` could change, by keys and back-link counts.

        `scores` is called for some of the URLs at a time, in order of arrival.
        """
        for start in range(0, self._known, _STEP):
            rows = rescoring.changeable(self._urls, start, min(start + _STEP, self._known))
            if len(rows):
                urls = self._urls[rows]
                self._urls["score"][rows] = scores(urls["key"].copy(), urls["links"].copy())
        rescoring.rebuild(*self._arrays, self._known, len(self._names))

    # --- handing out --------------------------------------------------------------------------

    def best(self, pool: int) -> tuple[float, int] | None:
        """Return (minus the score, row) of the URL that `pop` would hand out; None without one."""
        if not self.sites_waiting(pool):
            return None
        score, row, *_ = self._sites.item(int(self._pools["root"][pool]))
        return -score, row

    def best_site(self, pool: int) -> str | None:
        """Return the site of the URL that `pop` would hand out; None without one."""
        if not self.sites_waiting(pool):
            return None
        return self._names[int(self._pools["root"][pool])]

    def pop(self, pool: int) -> CrawlUrl:
        """Hand out the best URL of a pool. Raises IndexError if none may be handed out."""
        row = moves.hand_out(*self._arrays, pool) if pool < len(self._pools) else -1
        if row < 0:
            raise IndexError(f"no URL of pool {pool} may be handed out")
        self.waits -= 1
        self.handed += 1
        return self._found(row)

    def end(self, key: int) -> None:
        """Let a URL be visited that is handed out. Raises KeyError if it isn't."""
        row = table.finish(self._table, *self._arrays, np.uint64(key))
        if row < 0:
            raise KeyError(key)
        self.handed -= 1
        self._kept.pop(row, None)
        if row in self._again:
            self._wait_again(row, self._again.pop(row))

    def put_back(self, key: int) -> None:
        """Let a URL wait that is handed out, before all others of its site.

        It keeps its score until it is handed out again. Raises KeyError if it isn't handed out.
        """
        row = self._row(key)
        if self._urls["previous"][row] != OUT:
            raise KeyError(key)
        if row in self._again:
            self._kept[row] = self._again.pop(row)
        moves.put_back(*self._arrays, row)
        self.waits += 1
        self.handed -= 1

    def wait_again(self, found: CrawlUrl) -> None:
        """Let a known URL be fetched once more, because a redirect leads back to it.

        It waits with the score that it had, and with the new chain. If it waits, only the chain
        changes. If it is handed out, it will wait after `end`. Raises KeyError if it is unknown.
        """
        row = self._row(found.key)
        state = int(self._urls["previous"][row])
        if state == ABSENT:
            self._wait_again(row, found)
        elif state == OUT:
            self._again[row] = found
        else:
            self._kept[row] = found

    # --- pools --------------------------------------------------------------------------------

    def pool_of(self, site: str) -> int:
        """Return the pool of a site; of an unknown site that in which it would be born."""
        number = self._numbers.get(site)
        return self.pool_for(site) if number is None else int(self._sites["pool"][number])

    def site_of(self, key: int) -> str:
        """Return the site of a URL. Raises KeyError if the URL, or its site, is unknown."""
        number = int(self._urls["site"][self._row(key)]) & SITE
        if number == NO_SITE:
            raise KeyError(key)
        return self._names[number]

    def move(self, site: str, pool: int) -> None:
        """Move a site to another pool, with all of its URLs."""
        number = self._site(site)
        self._create_pool(pool)
        moves.move(*self._arrays, number, pool)

    # --- inside -------------------------------------------------------------------------------

    @property
    def _arrays(self) -> tuple[records.Records, records.Records, records.Records, int]:
        return self._urls, self._sites, self._pools, self.per_site

    def _row(self, key: int) -> int:
        row = self.find(key)
        if row < 0:
            raise KeyError(key)
        return row

    def _found(self, row: int) -> CrawlUrl:
        if row in self._kept:
            return self._kept[row]
        key, _, _, field, *_ = self._urls.item(row)
        site = self._names[field & SITE]
        hops, _, text = self._texts.read(row).partition(" ")
        return CrawlUrl(key, whole(text, site), site, int(hops, 16))

    def _room(self, count: int) -> int:
        """Make room for so many new URLs. Returns the row of the first one."""
        known = self._known + count
        if known > records.MOST:
            raise OverflowError(f"a registry can have {records.MOST} URLs at most")
        records.with_room(self._urls, known)
        size = len(self._table)
        if known > _FULL * size:
            self._table = np.zeros(0, np.uint32)  # frees the old table before there is a new one
            while known > _FULL * size:
                size *= 2
            self._table = np.zeros(size, np.uint32)
            table.enter_all(self._table, self._urls, 0, self._known)
        return self._known

    def _site(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            pool = self.pool_for(name)
            self._create_pool(pool)
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
            records.with_room(self._sites, len(self._names))
            site = self._sites[number]
            site["root"] = site["back"] = NONE
            site["previous"] = ABSENT
            site["pool"] = pool
        return number

    def _create_pool(self, pool: int) -> None:
        if pool >= len(self._pools):
            new = np.zeros(pool + 1 - len(self._pools), records.POOL)
            new["root"] = NONE
            self._pools = np.concatenate([self._pools, new])

    def _wait_again(self, row: int, found: CrawlUrl) -> None:
        """Let a visited URL wait."""
        site = self._site(found.site)
        url = self._urls[row]
        if int(url["site"]) & SITE == NO_SITE:
            url["site"] = site
        self._kept[row] = found
        moves.wait(*self._arrays, row)
        self.waits += 1

    def _visit(self, row: int) -> None:
        """Let a known URL be visited, whatever it was."""
        state = self._urls["previous"][row]
        self._again.pop(row, None)
        if state == OUT:
            self.end(int(self._urls["key"][row]))
        elif state != ABSENT:
            moves.withdraw(*self._arrays, row)
            self.waits -= 1
            self._kept.pop(row, None)
