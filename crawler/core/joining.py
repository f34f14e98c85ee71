"""Sites that join the scope during a crawl, because the redirects of a seed end there."""

from collections.abc import Iterable, Sequence

from crawler.core.door import Door
from crawler.core.foreign import Origin
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.core.unfinished import Unfinished
from crawler.ports import REDIRECT, CrawlUrl, Link


class Joining:
    """The sites that have joined the scope. Every rank is told of each site.

    `sites` holds the joined sites whose links in the logs aren't admitted yet, each as (site, seed,
    URL at which the redirects of the seed end). While there are any, this rank isn't passive.
    """

    def __init__(
        self,
        ranks: int,
        ownership: Ownership,
        door: Door,
        outboxes: Outboxes,
        unfinished: Unfinished,
    ) -> None:
        self.sites: list[tuple[str, str, str]] = []
        self._joined: set[str] = set()
        self._told: list[tuple[str, str, str]] = []  # what joined in this run
        self._ranks = ranks
        self._ownership = ownership
        self._door = door
        self._outboxes = outboxes
        self._unfinished = unfinished

    def restore(self, sites: Iterable[str]) -> None:
        """Note the sites that joined in earlier runs. Call this before `Core.start`."""
        self._joined.update(sites)

    def join(self, site: str, seed: str, end: str, now: float) -> None:
        """Add a site to the scope, and tell all ranks."""
        if self.note(site, seed, end):
            self._tell([(site, seed, end)], now)

    def tell_again(self, now: float) -> None:
        """Tell all ranks again, because a lost rank may have told only some of them."""
        if self._told:
            self._tell(self._told, now)

    def look_again(self) -> None:
        """Add all sites that have joined in this run to `sites` again."""
        self.sites += self._told
        self._unfinished.joins += len(self._told)

    def _tell(self, joined: Iterable[tuple[str, str, str]], now: float) -> None:
        for rank in range(self._ranks):
            if rank != self._ownership.rank:
                self._outboxes.open(rank, now, urgent=True).joined.extend(joined)

    def note(self, site: str, seed: str, end: str) -> bool:
        """Add a site to `sites`, unless it has joined before. Returns whether it was added."""
        if site in self._joined:
            return False
        self._joined.add(site)
        self.sites.append((site, seed, end))
        self._told.append((site, seed, end))
        self._unfinished.joins += 1
        return True

    def admit_late(
        self, source: CrawlUrl | None, links: Sequence[Link], before: Iterable[Link], now: float
    ) -> None:
        """Admit links of a logged page that lead to sites which joined the scope later.

        `source`: the page, or None if the links are sitemaps. `before`: the other links of the page
        that are followed.
        """
        if source is None:
            origin = Origin(None, 0)
        elif links and links[0].flags & REDIRECT:
            origin = Origin(source, source.hops, (*source.chain, source.key))
        elif self._door.follows(source.hops):
            origin = Origin(source, source.hops + 1)
        else:
            return
        owners = {self._ownership.owner(link) for link in before}
        origin.others = tuple(rank for rank in owners if rank not in {None, self._ownership.rank})
        self._door.admit(links, origin, now)

    def end(self, number: int, *, wholly: bool) -> None:
        """Note that the logged links to the first `number` sites of `sites` are admitted.

        `wholly`: false if a stop broke this off.
        """
        del self.sites[:number]
        unfinished = self._unfinished
        # `Unfinished.abandon` may have dropped some of them.
        unfinished.joins = max(0, unfinished.joins - number)
        if not wholly:
            unfinished.break_off()
