"""Sites that join the scope during a crawl, because redirects of a seed end there."""

from collections.abc import Iterable, Sequence

from crawler.core.door import Door
from crawler.core.foreign import Origin
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.core.unfinished import Unfinished
from crawler.ports import REDIRECT, CrawlUrl, Link


class Joining:
    """The sites that have joined. All ranks hear of each.

    `sites` are those whose links in the log aren't admitted yet: each with the seed, and the end of
    its redirects. While there are any, this rank isn't passive.
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
        self._ranks = ranks
        self._ownership = ownership
        self._door = door
        self._outboxes = outboxes
        self._unfinished = unfinished

    def restore(self, sites: Iterable[str]) -> None:
        """Take in the sites that joined in earlier runs of the session, before `Core.start`."""
        self._joined.update(sites)

    def join(self, site: str, seed: str, end: str, now: float) -> None:
        """Take a site into the scope, and tell all ranks."""
        if self.note(site, seed, end):
            for rank in range(self._ranks):
                if rank != self._ownership.rank:
                    outbox = self._outboxes.open(rank, now, urgent=True)
                    outbox.joined.append((site, seed, end))

    def note(self, site: str, seed: str, end: str) -> bool:
        """Add a site to `sites`, if it is new; whether it is."""
        if site in self._joined:
            return False
        self._joined.add(site)
        self.sites.append((site, seed, end))
        self._unfinished.joins += 1
        return True

    def admit_late(
        self, source: CrawlUrl | None, links: Sequence[Link], before: Iterable[Link], now: float
    ) -> None:
        """Admit links of a logged page to sites that have joined the scope since.

        Without a source they are sitemaps. `before`: the page's other links that are followed.
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
        """Note that the logged links to the first so many of the sites are admitted.

        Not `wholly` if a stop broke that off.
        """
        del self.sites[:number]
        unfinished = self._unfinished
        unfinished.joins = max(0, unfinished.joins - number)  # `abandon` may have dropped them
        if not wholly:
            unfinished.break_off()
