"""Clients that hold sites and follow links themselves, and the servers that assign the sites.

A server assigns *units* (`Tree.unit`): single sites, or DSets. When a client leaves, its units go
to others. When a spare comes, it gets the DSets whose home it is. With each unit go the URLs that
wait and the keys of all that was met there. Otherwise the next holder would fetch pages again.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from crawler import url
from crawler.core.dynamic.held_seen import HeldSeen
from crawler.core.dynamic.retained import Retained
from crawler.core.dynamic.role import Role
from crawler.core.exchange import TreeExchange
from crawler.core.parts import Parts
from crawler.messages import Batch
from crawler.ports import REDIRECT, CrawlUrl, Link, Spill, names_of
from crawler.reading.cookies import Jar

_ANY_UNIT: Final = ""  # stands for keys that were met in units that aren't known
_UNIT_BYTES: Final = 180  # of a unit with the keys that were met there, beside the keys


class Holder(Role):
    """A client that holds units."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.door)
        ownership = parts.ownership
        assert ownership.tree is not None
        assert isinstance(parts.door.foreign, TreeExchange)
        assert isinstance(parts.seen, HeldSeen)
        self._server = ownership.tree.above(ownership.rank)
        self._ownership = ownership
        self._seen = parts.seen
        self._bench = parts.bench
        self._foreign = parts.door.foreign
        self._outboxes = parts.outboxes
        self._jars = parts.jars
        self._declared = parts.declared
        self._met: dict[str, array[int]] = {}  # the keys of the URLs met, by unit
        self._met_keys = 0  # their number
        self._visits = 0  # open ones
        self._wanted_back: set[str] = set()  # units
        self._retires = False
        parts.door.note_met = self._note_met
        parts.budget.add("held", self._nbytes)

    def _nbytes(self) -> int:
        return _UNIT_BYTES * len(self._met) + 8 * self._met_keys + self._seen.nbytes()

    def _note_met(self, site: str, key: int) -> None:
        unit = self._ownership.unit(site)
        keys = self._met.get(unit)
        if keys is None:
            keys = self._met[unit] = array("Q")
        keys.append(key)
        self._met_keys += 1

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Take units that have moved here, then URLs."""
        for unit, packed in batch.moved.items():
            keys = array("Q", packed)
            if unit == _ANY_UNIT:
                self._seen.update(keys)
            else:
                self._seen.take(keys)
                self._met.setdefault(unit, array("Q")).extend(keys)
                self._met_keys += len(keys)
                self._ownership.move(unit, self._ownership.rank)
        super().receive(sender, batch, now)
        if batch.wanted_back and not self._retires:
            self._wanted_back.update(batch.wanted_back)
            self._return(now)

    def earlier_keys(self) -> bytes:
        """See Role."""
        return self._seen.earlier.tobytes()

    def begin(self, now: float) -> None:
        """See Role."""
        self._visits += 1

    def end(self, found: CrawlUrl, now: float, *, over: bool) -> None:
        """See Role."""
        if not over:
            self._end(now)

    def finish(self, found: CrawlUrl, links: Sequence[Link], now: float, *, response: bool) -> None:
        """See Role."""
        self._end(now)

    def _end(self, now: float) -> None:
        self._visits -= 1
        if not (self.has_room or self.is_away):
            self._return(now)

    # --- units that go to others --------------------------------------------------------------

    def leave(self, now: float) -> None:
        """Return all units to the server, and take no more."""
        self._retires = True
        self._return(now)

    def _return(self, now: float) -> None:
        """Return units as soon as no visit is under way. Until then, no further visit begins."""
        self.has_room = False
        if not self._visits:
            self._hand_over(now)
            self.is_away, self.has_room = self._retires, not self._retires

    def _hand_over(self, now: float) -> None:
        """Return the units that are wanted back, or all if this client leaves for good.

        With them go what waits there and what was met there.
        """
        ownership, unit_of = self._ownership, self._ownership.unit
        held = {unit for unit, part in ownership.learned.items() if part == ownership.home}
        units = held | self._met.keys() if self._retires else held & self._wanted_back
        box = self._outboxes.open(self._server, now, urgent=True)
        waiting = set[int]()
        leaving = self._bench.drain(lambda site: self._retires or unit_of(site) in units)
        for found, score in leaving:
            if found.key not in found.chain:  # otherwise it was fetched, and is asked again
                waiting.add(found.key)
            jar = self._jars.take(found.key)
            self._foreign.send_on(self._server, found, 1, jar, now, poor=score == -inf)
            names = names_of(self._declared.authorities(found.key))
            if names:
                box.declared_by[found.key] = list(names)
        for unit in units:
            keys = self._met.pop(unit, array("Q"))
            self._met_keys -= len(keys)
            box.moved[unit] = array("Q", (key for key in keys if key not in waiting)).tobytes()
            ownership.move(unit, self._server)
        if units and self._seen.earlier:
            box.moved[_ANY_UNIT] = self._seen.earlier.tobytes()
        self._seen.give(waiting)
        self._wanted_back.clear()


class Assigner(Role):
    """A server that assigns units to clients."""

    def __init__(self, parts: Parts, spill: Spill | None) -> None:
        super().__init__(parts.door)
        assert isinstance(parts.door.foreign, TreeExchange)
        self.retained = Retained(spill)
        self._ownership = parts.ownership
        self._outboxes = parts.outboxes
        self._foreign = parts.door.foreign
        self._sites = parts.sites
        self._visited: dict[int, set[int]] = {}  # the keys that each lost client has visited
        # Hashes of the redirects back into their chains that have come here, to be asked again.
        self._returns: set[int] = set()

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Assign the units that a client returns to others, then pass URLs on."""
        if batch.moved:
            self._door.returning.add(sender)
            self._assign(batch.moved, now)
        for index, chain in batch.chains.items():
            key = url.own_key(batch.urls[index])
            if key in chain:
                self._returns.add(hash((key, chain)))
        super().receive(sender, batch, now)

    def note_earlier(self, client: int, fetched: bytes, links: bytes) -> None:
        """See Role."""
        assert self.retained is not None
        self.retained.keep(client, Batch(moved={_ANY_UNIT: fetched}))
        self.retained.keep_links(client, links)

    def call_home(self, rank: int, now: float) -> None:
        """Have other clients return the units whose home is a client that comes."""
        ownership = self._ownership
        assert ownership.tree is not None
        for unit, part in ownership.learned.items():
            holder = ownership.rank_of_part[part]
            if ownership.tree.home(unit) == rank != holder:
                self._outboxes.open(holder, now, urgent=True).wanted_back.append(unit)

    # --- lost clients -------------------------------------------------------------------------

    def lose(self, rank: int, visited: Mapping[str, Iterable[int]], now: float) -> None:
        """Move the units of a lost client to others, with the keys of the URLs met there.

        `visited`: the keys of the URLs in the client's log, by site.
        """
        assert self.retained is not None
        self.retained.keep(
            rank, self._outboxes.open(rank, now).batch(0, with_keys=False)
        )  # it hasn't left
        moved = {
            unit: array("Q")
            for unit, part in self._ownership.learned.items()
            if self._ownership.rank_of_part[part] == rank
        }
        moved[_ANY_UNIT] = array("Q")
        for site, logged in visited.items():
            unit = self._ownership.unit(site)
            if unit in moved:
                moved[unit].extend(logged)
        for batch in self.retained.batches(rank):
            for unit, keys in batch.moved.items():
                if unit in moved:
                    moved[unit].frombytes(keys)
        if not moved[_ANY_UNIT]:
            del moved[_ANY_UNIT]
        self._visited[rank] = set().union(*moved.values())
        self._assign({unit: keys.tobytes() for unit, keys in moved.items()}, now)

    def is_open(self, rank: int, page: CrawlUrl, link: Link) -> bool:
        """Whether a link of a page that a lost client has logged must still be followed.

        A redirect that leads back into its chain must, unless the client has told this server.
        """
        key, chain = link.key, (*page.chain, page.key)
        if link.flags & REDIRECT and key in chain:
            return hash((key, chain)) not in self._returns
        return key not in self._visited[rank]

    def send_on(self, rank: int, now: float) -> None:
        """Send the owners of today the URLs that a lost client was sent and hasn't visited."""
        assert self.retained is not None
        visited = self._visited.pop(rank)
        for batch in self.retained.batches(rank):
            for index, address in enumerate(batch.urls):
                key, chain = url.own_key(address), batch.chains.get(index, ())
                if key in visited and key not in chain:
                    continue
                found = CrawlUrl(key, address, self._sites.of(address), batch.hops[index], chain)
                owner = self._ownership.owner(found)
                assert owner is not None, found
                jar = Jar.of(batch.cookies.get(key, ()))
                self._foreign.send_on(owner, found, 1, jar, now, poor=key in batch.poor)

    def _assign(self, moved: Mapping[str, bytes], now: float) -> None:
        """Give units to clients, with the keys of the URLs met there."""
        assert self._ownership.assign is not None
        owners = set[int]()
        for unit, keys in moved.items():
            if unit != _ANY_UNIT:
                owner = self._ownership.assign(unit)
                self._ownership.move(unit, owner)
                self._outboxes.open(owner, now, urgent=True).moved[unit] = keys
                owners.add(owner)
        for owner in owners if _ANY_UNIT in moved else ():
            box = self._outboxes.open(owner, now)
            box.moved[_ANY_UNIT] = box.moved.get(_ANY_UNIT, b"") + moved[_ANY_UNIT]
