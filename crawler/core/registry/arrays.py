"""The arrays of a registry: how they grow, and how new URLs get into them."""

from array import array
from typing import Final

import numpy as np

from crawler.core.registry import records, table
from crawler.core.registry.records import ABSENT, NONE, Records

_FULL: Final = 0.8  # of the table
_MOST_NOTED: int = 4096  # new URLs


class Arrays:
    """The records of all URLs, sites and pools, and the table of keys.

    A new URL is noted first. `settled` enters all that were noted, so that the compiled code is
    called once for many. Read the arrays only through it.
    """

    def __init__(self, per_site: int) -> None:
        """`per_site`: how many URLs of a site may be handed out at a time."""
        self.per_site = per_site
        self.urls = records.empty(records.URL)
        self.sites = records.empty(records.SITE_RECORD)
        self.pools = np.zeros(0, records.POOL)
        self.table = np.zeros(records.FIRST * 2, np.uint32)
        self._known = 0  # URLs in the arrays
        self._born = 0  # sites
        self._forget_noted()

    def _forget_noted(self) -> None:
        # The URLs that were noted: fields of their records.
        self._keys = array("Q")
        self._scores = array("d")
        self._links = array("I")
        self._sites = array("I")

    @property
    def all(self) -> tuple[Records, Records, Records, int]:
        """What the functions of `moves` work on."""
        return self.urls, self.sites, self.pools, self.per_site

    @property
    def nbytes(self) -> int:
        """The bytes of memory that all arrays take. Room for more records takes none."""
        used = self._known * self.urls.itemsize + self._born * self.sites.itemsize
        return used + self.pools.nbytes + self.table.nbytes

    def note(self, key: int, score: float, links: int, site: int) -> None:
        """Note a new URL, which shall wait. `site` is the field of its record."""
        self._keys.append(key)
        self._scores.append(score)
        self._links.append(links)
        self._sites.append(site)
        if len(self._keys) == _MOST_NOTED:
            self.settled()

    def settled(self) -> "Arrays":
        """Enter the URLs that were noted. Returns the arrays themselves."""
        count = len(self._keys)
        if count:
            start = self.room(count)
            entered = table.add_all(
                self.table,
                *self.all,
                start,
                np.frombuffer(self._keys, np.uint64),
                np.frombuffer(self._scores, np.float64),
                np.frombuffer(self._links, np.uint32),
                np.frombuffer(self._sites, np.uint32),
            )
            assert entered == count, f"the key {self._keys[entered]:x} is known"
            self._forget_noted()
        return self

    def room(self, count: int) -> int:
        """Make room for so many URLs, whose records are written next. Returns the first row."""
        start, known = self._known, self._known + count
        if known > records.MOST:
            raise OverflowError(f"a registry can have {records.MOST} URLs at most")
        self.urls = records.with_room(self.urls, known)
        size = len(self.table)
        if known > _FULL * size:
            self.table = np.zeros(0, np.uint32)  # frees the old table before there is a new one
            while known > _FULL * size:
                size *= 2
            self.table = np.zeros(size, np.uint32)
            table.enter_all(self.table, self.urls, 0, start)
        self._known = known
        return start

    def create_site(self, pool: int, priority: int = 0) -> int:
        """Let a site be born in a pool. Returns its number."""
        self.create_pool(pool)
        number = self._born
        self._born += 1
        self.sites = records.with_room(self.sites, self._born)
        site = self.sites[number]
        site["root"] = site["back"] = NONE
        site["previous"] = ABSENT
        site["pool"] = pool
        site["priority"] = priority
        return number

    def create_pool(self, pool: int) -> None:
        """Let a pool be there, and all with smaller numbers."""
        if pool >= len(self.pools):
            new = np.zeros(pool + 1 - len(self.pools), records.POOL)
            new["root"] = NONE
            self.pools = np.concatenate([self.pools, new])
