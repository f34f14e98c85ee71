"""The registry of a seed server (Mukhopadhyay et al., WEB-SAILOR, section 3.3)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crawler.arrays import distinct
from crawler.core.hands import Dealt, Hand
from crawler.core.order.packing import short, whole
from crawler.core.registry import moves, records, rescoring, table
from crawler.core.registry.arrays import Arrays
from crawler.core.registry.dealing import deal
from crawler.core.registry.records import ABSENT, FINAL, NO_SITE, OUT, SITE
from crawler.core.registry.table import Keys, Rows
from crawler.core.registry.texts import Texts
from crawler.ports import CrawlUrl, Spill

_STEP: Final = 1 << 18  # rows that are looked at together
_NAME_BYTES: Final = 190  # of the name of a site, and of its number
_KEPT_BYTES: Final = 450  # of a URL in `_kept` or `_again`
_READ: Final = 1 << 12  # rows whose texts are read together


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
        priority_of: Callable[[str], int] = lambda site: 0,
    ) -> None:
        """`per_site`: how many URLs of a site may be handed out at a time.

        `spill` keeps the texts of the URLs; without it they stay in memory. `pool_for` says in
        which pool a new site is born. `priority_of` returns the priority of a site: the URLs of a
        site with a higher one are better, whatever their scores.
        """
        self.pool_for = pool_for
        self._priority_of = priority_of
        self.waits = 0  # URLs that wait
        self.handed = 0  # URLs that are handed out now
        self._known = 0
        self._arrays = Arrays(per_site)
        self._numbers: dict[str, int] = {}  # of sites
        self._names: list[str] = []
        self._texts = Texts(spill)
        # URLs to which redirects led, and those that wait again: what `_texts` doesn't know of
        # them. They are few.
        self._kept: dict[int, CrawlUrl] = {}
        self._again: dict[int, CrawlUrl] = {}  # URLs handed out that shall wait afterwards

    def nbytes(self) -> int:
        """About how many bytes of memory all of this takes."""
        few = _KEPT_BYTES * (len(self._kept) + len(self._again))
        return self._arrays.nbytes + self._texts.memory + _NAME_BYTES * len(self._names) + few

    # --- what is known ------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._known

    def __contains__(self, key: int) -> bool:
        return self.find(key) >= 0

    def __iter__(self) -> Iterator[int]:
        """Yield the keys of all URLs, in order of arrival."""
        for start in range(0, self._known, _STEP):
            yield from self._some(start)["key"].tolist()

    def find(self, key: int) -> int:
        """Return the row of a key, or -1 if the key is unknown."""
        at = self._arrays.settled()
        return int(table.find(at.table, at.urls, np.uint64(key)))  # one kind of integer

    def rows(self, keys: Keys) -> Rows:
        """Return the row of each key, -1 where the key is unknown."""
        at = self._arrays.settled()
        return table.find_all(at.table, at.urls, keys)

    def links_of(self, key: int) -> int:
        """Return the number of back-links of a URL. Raises KeyError if it is unknown."""
        row = self._row(key)
        return int(self._arrays.urls["links"][row])

    def is_out(self, key: int) -> bool:
        """Whether a URL is handed out now."""
        row = self.find(key)
        return row >= 0 and int(self._arrays.urls["previous"][row]) == OUT

    def of_site(self, site: str) -> tuple[int, int, int] | None:
        """Return how many URLs of a site wait and are handed out, and its pool; None if unknown."""
        number = self._numbers.get(site)
        if number is None:
            return None
        record = self._arrays.settled().sites[number]
        return int(record["waiting"]), int(record["out"]), int(record["pool"])

    def link_counts(self) -> Iterator[tuple[int, int]]:
        """Yield the key of each URL with its number of back-links, in order of arrival."""
        for start in range(0, self._known, _STEP):
            urls = self._some(start)
            yield from zip(urls["key"].tolist(), urls["links"].tolist(), strict=True)

    def waiting(self, pool: int) -> int:
        """Return the number of URLs that wait, in the sites of a pool."""
        pools = self._arrays.settled().pools
        return int(pools["waiting"][pool]) if pool < len(pools) else 0

    def sites_waiting(self, pool: int) -> int:
        """Return the number of a pool's sites that have a URL that may be handed out."""
        pools = self._arrays.settled().pools
        return int(pools["sites"][pool]) if pool < len(pools) else 0

    def out(self, site: str) -> int:
        """Return the number of URLs of a site that are handed out now."""
        number = self._numbers.get(site)
        return 0 if number is None else int(self._arrays.sites["out"][number])

    def waiting_urls(self) -> Iterator[CrawlUrl]:
        """Yield all URLs that wait, in order of arrival. The registry mustn't change meanwhile."""
        for start in range(0, self._known, _STEP):
            urls = self._some(start)
            waits = (urls["previous"] != ABSENT) & (urls["previous"] != OUT)
            for rows in np.split(np.flatnonzero(waits), range(_READ, len(urls), _READ)):
                some = urls[rows]
                yield from self._found(start + rows, some["key"], some["site"])

    # --- new URLs, and counts -----------------------------------------------------------------

    def add(
        self, urls: Sequence[CrawlUrl], scores: Sequence[tuple[float, bool]], links: Sequence[int]
    ) -> None:
        """Let new URLs wait, whose keys must be unknown.

        `scores`: the score of each URL, and whether this score is final, so that it never changes.
        `links`: the number of back-links of each URL.
        """
        first, note, site_of = self._known, self._arrays.note, self._site
        texts: list[str] = []
        for found, (score, final), count in zip(urls, scores, links, strict=True):
            key, url, name, hops, chain = found
            site = site_of(name)
            note(key, score, count, site | FINAL if final else site)
            if chain:
                self._kept[first + len(texts)] = found
            texts.append("" if chain else f"{hops:x} {short(url, name)}")
        self._texts.extend(first, texts)
        self._known += len(urls)
        self.waits += len(urls)

    def add_visited(self, keys: Iterable[int]) -> None:
        """Let keys be visited that earlier runs visited, whether they are known or not."""
        wanted = np.fromiter(keys, np.uint64)
        rows = self.rows(wanted)
        for row in distinct(rows[rows >= 0]).tolist():
            self._visit(row)
        new = distinct(wanted[rows < 0])
        at = self._arrays
        start = at.room(len(new))
        self._known += len(new)
        urls = at.urls[start : self._known]
        urls["key"] = new
        urls["site"] = NO_SITE
        urls["previous"] = ABSENT
        table.enter_all(at.table, at.urls, start, self._known)

    def count(self, keys: Keys, links: NDArray[np.uint32], more: float) -> Rows:
        """Add to the back-link counts of URLs. Returns the indexes of unknown keys.

        The score of a URL rises by `more` for each link, if the URL waits and its score isn't
        final. A URL that was put back keeps its score: it comes first anyway.
        """
        assert more >= 0
        at = self._arrays.settled()
        return table.count(at.table, *at.all, keys, links, float(more))

    def increase(self, keys: Keys, amount: float) -> None:
        """Add to the scores of URLs, where `count` would. Unknown keys don't matter."""
        at = self._arrays.settled()
        table.increase(at.table, *at.all, keys, float(amount))

    def rescore(self, scores: Callable[[Keys, NDArray[np.uint32]], NDArray[np.float64]]) -> None:
        """Set the scores that `count` could change, by keys and back-link counts.

        `scores` is called for some of the URLs at a time, in order of arrival.
        """
        at = self._arrays.settled()
        for start in range(0, self._known, _STEP):
            rows = rescoring.changeable(at.urls, start, min(start + _STEP, self._known))
            if len(rows):
                urls = at.urls[rows]
                at.urls["score"][rows] = scores(urls["key"].copy(), urls["links"].copy())
        rescoring.rebuild(*at.all, self._known, len(self._names))

    # --- handing out --------------------------------------------------------------------------

    def best_site(self, pool: int) -> str | None:
        """Return the site of a pool's best URL that may be handed out; None without one."""
        if not self.sites_waiting(pool):
            return None
        return self._names[int(self._arrays.pools["root"][pool])]

    def deal(self, hands: Sequence[Hand], free: int | None, share: int, most: int) -> list[Dealt]:
        """Deal URLs to the hands: one to each in turn, until there is no room or no URL.

        A hand gets the best URL of its pools. While its load is less than `share`, the pool `free`
        is one of them, if it isn't None. At most `most` URLs are dealt. Returns what each hand was
        dealt, if anything, in the order of `hands`.
        """
        at = self._arrays.settled()
        for number in (*(hand.pool for hand in hands), free or 0):
            at.create_pool(number)
        known = [[pool for pool in hand.others if pool < len(at.pools)] for hand in hands]
        dealt = deal(
            *at.all,
            np.array([hand.pool for hand in hands], np.int64),
            np.cumsum([0, *map(len, known)]),
            np.array([pool for pools in known for pool in pools], np.int64),
            np.array([hand.room for hand in hands], np.int64),
            np.array([hand.load for hand in hands], np.int64),
            -1 if free is None else free,
            share,
            min(most, self.waits),
        )
        self.waits -= len(dealt)
        self.handed += len(dealt)
        return [self._dealt(dealt, hand) for hand in distinct(dealt["hand"]).tolist()]

    def _dealt(self, dealt: records.Records, hand: int) -> Dealt:
        """Return what one hand was dealt, as columns."""
        [places] = np.nonzero(dealt["hand"] == hand)
        its = dealt[places]
        found = self._found(its["row"], its["key"], its["site"])
        pools, scores = its["pool"].tolist(), its["score"].tolist()
        return Dealt(hand, found, pools, scores, int(its["first"].sum()), int(places[-1]))

    def end(self, keys: Keys) -> list[tuple[str, int]]:
        """Let URLs be visited that are handed out, one after another.

        Returns for each its site, and how many URLs of the site are handed out after its end.
        Raises KeyError at the first one that isn't handed out.
        """
        at = self._arrays.settled()
        ended = table.finish_all(at.table, *at.all, keys)
        again = []
        for row in ended["row"].tolist():
            self.handed -= 1
            if self._kept:
                self._kept.pop(row, None)
            if row in self._again:
                again.append(row)
        for row in again:
            self._wait_again(row, self._again.pop(row))
        if len(ended) < len(keys):
            raise KeyError(int(keys[len(ended)]))
        sites = map(self._names.__getitem__, ended["site"].tolist())
        return list(zip(sites, ended["out"].tolist(), strict=True))

    def put_back(self, key: int) -> None:
        """Let a URL wait that is handed out, before all others of its site.

        It keeps its score until it is handed out again. Raises KeyError if it isn't handed out.
        """
        row = self._row(key)
        at = self._arrays
        if at.urls["previous"][row] != OUT:
            raise KeyError(key)
        if row in self._again:
            self._kept[row] = self._again.pop(row)
        moves.put_back(*at.all, row)
        self.waits += 1
        self.handed -= 1

    def wait_again(self, found: CrawlUrl) -> None:
        """Let a known URL be fetched once more, because a redirect leads back to it.

        It waits with the score that it had, and with the new chain. If it waits, only the chain
        changes. If it is handed out, it will wait after `end`. Raises KeyError if it is unknown.
        """
        row = self._row(found.key)
        state = int(self._arrays.urls["previous"][row])
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
        return self.pool_for(site) if number is None else int(self._arrays.sites["pool"][number])

    def site_of(self, key: int) -> str:
        """Return the site of a URL. Raises KeyError if the URL, or its site, is unknown."""
        row = self._row(key)
        number = int(self._arrays.urls["site"][row]) & SITE
        if number == NO_SITE:
            raise KeyError(key)
        return self._names[number]

    def move(self, site: str, pool: int) -> None:
        """Move a site to another pool, with all of its URLs."""
        number = self._site(site)
        at = self._arrays.settled()
        at.create_pool(pool)
        moves.move(*at.all, number, pool)

    # --- inside -------------------------------------------------------------------------------

    def _some(self, start: int) -> records.Records:
        """The records of `_STEP` URLs, or fewer at the end."""
        return self._arrays.settled().urls[start : min(start + _STEP, self._known)]

    def _row(self, key: int) -> int:
        row = self.find(key)
        if row < 0:
            raise KeyError(key)
        return row

    def _found(self, rows: Rows, keys: Keys, fields: NDArray[np.uint32]) -> list[CrawlUrl]:
        """The URLs of rows, whose records have these keys and fields `site`."""
        found, names, kept, read = [], self._names, self._kept, self._texts.read
        new_tuple = tuple.__new__
        sites = (fields & SITE).tolist()
        for row, key, number in zip(rows.tolist(), keys.tolist(), sites, strict=True):
            if row in kept:
                found.append(kept[row])
                continue
            site = names[number]
            hops, _, text = read(row).partition(" ")
            # The same as CrawlUrl(...), in half the time.
            found.append(new_tuple(CrawlUrl, (key, whole(text, site), site, int(hops, 16), ())))
        return found

    def _site(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._arrays.create_site(
                self.pool_for(name), self._priority_of(name)
            )
            self._names.append(name)
        return number

    def _wait_again(self, row: int, found: CrawlUrl) -> None:
        """Let a visited URL wait."""
        site = self._site(found.site)
        at = self._arrays.settled()
        url = at.urls[row]
        if int(url["site"]) & SITE == NO_SITE:
            url["site"] = site
        self._kept[row] = found
        moves.wait(*at.all, row)
        self.waits += 1

    def _visit(self, row: int) -> None:
        """Let a known URL be visited, whatever it was."""
        at = self._arrays.settled()
        state = at.urls["previous"][row]
        self._again.pop(row, None)
        if state == OUT:
            self.end(at.urls["key"][row : row + 1].copy())
        elif state != ABSENT:
            moves.withdraw(*at.all, row)
            self.waits -= 1
            self._kept.pop(row, None)
