"""Counts what a rank has fetched of each site, in little memory, for the user to see."""

from heapq import nlargest
from typing import Final

from crawler.messages import SitePages

_MOST: Final = 2000  # sites that are counted at a time
_SHOWN: Final = 5  # of each kind, in a note
_FEW: Final = 3  # pages; fewer of a site don't show that it is slow


class SiteTally:
    """Pages, bytes and seconds by site.

    If there are too many sites, the half with the fewest pages is forgotten. So the counts of sites
    with many pages are right, or a little too small.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._by_site: dict[str, SitePages] = {}

    def add(self, site: str, count: int, seconds: float) -> None:
        """Count a response of `count` bytes."""
        before = self._by_site.get(site)
        if before is None:
            if len(self._by_site) >= self._most:
                self._forget()
            self._by_site[site] = SitePages(site, 1, count, seconds)
            return
        self._by_site[site] = SitePages(
            site, before.pages + 1, before.bytes + count, before.seconds + seconds
        )

    def _forget(self) -> None:
        kept = nlargest(self._most // 2, self._by_site.values(), key=lambda one: one.pages)
        self._by_site = {one.site: one for one in kept}

    def shown(self) -> list[SitePages]:
        """Return the sites with the most pages, and those that took the longest for a page."""
        every = self._by_site.values()
        largest = nlargest(_SHOWN, every, key=lambda one: one.pages)
        slowest = nlargest(
            _SHOWN,
            (one for one in every if one.pages >= _FEW),
            key=lambda one: one.seconds / one.pages,
        )
        return list({one.site: one for one in (*largest, *slowest)}.values())
