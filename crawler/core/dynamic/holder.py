"""Clients that hold sites and follow links themselves, and the servers that assign the sites.

When such a client leaves, its sites go to others. With each site go the URLs that wait and the keys
of all that the client has met there. Otherwise the next holder would fetch pages again.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from math import inf

from crawler import url
from crawler.core.dynamic.retained import Retained
from crawler.core.dynamic.role import Role
from crawler.core.exchange import TreeExchange
from crawler.core.parts import Parts
from crawler.messages import Batch
from crawler.ports import REDIRECT, CrawlUrl, Link, Spill, names_of
from crawler.reading.cookies import Jar

_ANY_SITE = ""  # stands for the keys that earlier runs have met: their sites aren't known


class Holder(Role):
    """A client that holds sites."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.door)
        ownership = parts.ownership
        assert ownership.tree is not None
        assert isinstance(parts.door.foreign, TreeExchange)
        self._server = ownership.tree.above(ownership.rank)
        self._ownership = ownership
        self._seen = parts.seen
        self._bench = parts.bench
        self._foreign = parts.door.foreign
        self._outboxes = parts.outboxes
        self._jars = parts.jars
        self._declared = parts.declared
        self._met: dict[str, array[int]] = {}  # the keys of the URLs met, by site
        parts.door.note_met = self._note_met

    def _note_met(self, site: str, key: int) -> None:
        keys = self._met.get(site)
        if keys is None:
            keys = self._met[site] = array("Q")
        keys.append(key)

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Take sites that have moved here, then URLs."""
        for site, packed in batch.moved.items():
            keys = array("Q", packed)
            self._seen.update(keys)
            if site != _ANY_SITE:
                self._met.setdefault(site, array("Q")).extend(keys)
                self._ownership.move_site(site, self._ownership.rank)
        super().receive(sender, batch, now)

    @property
    def leaves(self) -> bool:
        """Whether this client is to leave, and still has its sites."""
        return not (self.has_room or self.is_away)

    def leave(self) -> None:
        """Begin no further visit. When nothing is under way, `hand_over` must be called."""
        self.has_room = False

    def hand_over(self, now: float) -> None:
        """Return all sites to the server, with what waits there and what was met there."""
        ownership = self._ownership
        self.is_away = True
        box = self._outboxes.open(self._server, now, urgent=True)
        waiting = set[int]()
        for found, score in self._bench.backlog.drain():
            if found.key not in found.chain:  # otherwise it was fetched, and is asked again
                waiting.add(found.key)
            jar = self._jars.take(found.key)
            self._foreign.send_on(self._server, found, jar, now, poor=score == -inf)
            names = names_of(self._declared.authorities(found.key))
            if names:
                box.declared_by[found.key] = list(names)
        earlier = set(self._seen)
        held = {site for site, part in ownership.learned.items() if part == ownership.home}
        for site in held | self._met.keys():
            keys = self._met.get(site, array("Q"))
            earlier.difference_update(keys)
            box.moved[site] = array("Q", (key for key in keys if key not in waiting)).tobytes()
            ownership.move_site(site, self._server)
        if earlier:
            box.moved[_ANY_SITE] = array("Q", earlier).tobytes()
        self._met.clear()


class Assigner(Role):
    """A server that assigns sites to clients."""

    def __init__(self, parts: Parts, spill: Spill | None) -> None:
        super().__init__(parts.door)
        assert isinstance(parts.door.foreign, TreeExchange)
        self.retained = Retained(spill)
        self._ownership = parts.ownership
        self._outboxes = parts.outboxes
        self._foreign = parts.door.foreign
        self._sites = parts.sites
        self._visited: dict[int, set[int]] = {}  # the keys that each lost client has visited

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Assign the sites of a client that has left to others, then pass URLs on."""
        if batch.moved:
            assign = self._ownership.assign
            assert assign is not None
            self._move_sites(batch.moved, assign, now)
        super().receive(sender, batch, now)

    # --- lost clients -------------------------------------------------------------------------

    def lose(self, rank: int, visited: Mapping[str, Iterable[int]], now: float) -> None:
        """Move the sites of a lost client to others, with the keys of the URLs met there.

        `visited`: the keys of the URLs in the client's log, by site.
        """
        assert self.retained is not None
        assert self._ownership.assign is not None
        self.retained.keep(
            rank, self._outboxes.open(rank, now).batch(0, with_keys=False)
        )  # it hasn't left
        moved = {
            site: array("Q", visited.get(site, ()))
            for site, part in self._ownership.learned.items()
            if self._ownership.rank_of_part[part] == rank
        }
        moved[_ANY_SITE] = array("Q")
        for batch in self.retained.batches(rank):
            for site, keys in batch.moved.items():
                if site in moved:
                    moved[site].frombytes(keys)
        if not moved[_ANY_SITE]:
            del moved[_ANY_SITE]
        self._visited[rank] = set().union(*moved.values())
        packed = {site: keys.tobytes() for site, keys in moved.items()}
        self._move_sites(packed, self._ownership.assign, now)

    def is_open(self, rank: int, page: CrawlUrl, link: Link) -> bool:
        """Whether a link of a page that a lost client has logged must still be followed.

        Redirects that lead back into their chain must, too.
        """
        key = link.key
        returns = link.flags & REDIRECT and (key == page.key or key in page.chain)
        return bool(returns) or key not in self._visited[rank]

    def send_on(self, rank: int, now: float) -> None:
        """Send the owners of today the URLs that a lost client was sent and hasn't visited."""
        assert self.retained is not None
        visited = self._visited.pop(rank)
        for batch in self.retained.batches(rank):
            for index, address in enumerate(batch.urls):
                key, chain = url.key(address), batch.chains.get(index, ())
                if key in visited and key not in chain:
                    continue
                found = CrawlUrl(key, address, self._sites.of(address), batch.hops[index], chain)
                owner = self._ownership.owner(found)
                assert owner is not None, found
                jar = Jar.of(batch.cookies.get(key, ()))
                self._foreign.send_on(owner, found, jar, now, poor=key in batch.poor)

    def _move_sites(
        self, moved: dict[str, bytes], assign: Callable[[str], int], now: float
    ) -> None:
        owners = set[int]()
        for site, keys in moved.items():
            if site != _ANY_SITE:
                owner = assign(site)
                self._ownership.move_site(site, owner)
                self._outboxes.open(owner, now, urgent=True).moved[site] = keys
                owners.add(owner)
        for owner in owners if _ANY_SITE in moved else ():
            box = self._outboxes.open(owner, now)
            box.moved[_ANY_SITE] = box.moved.get(_ANY_SITE, b"") + moved[_ANY_SITE]
