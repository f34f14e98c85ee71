"""Clients that join and leave during a crawl (WEB-SAILOR, section 4.4), and clients that are lost.

A spare is a client that waits until its server has it come. A client that leaves returns what it
hasn't begun, and finishes what is under way. It doesn't come back. A lost client is gone without a
word; its batches are dropped, those under way as well. A spare takes its place, if there is one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from crawler import config
from crawler.core.dynamic.client import Client
from crawler.core.dynamic.holder import Assigner, Holder
from crawler.core.dynamic.role import Role
from crawler.core.dynamic.server import Server
from crawler.core.mail import Mail
from crawler.core.parts import Parts
from crawler.core.tree import Tree
from crawler.core.unfinished import Unfinished
from crawler.messages import Batch
from crawler.ports import OUT_OF_SCOPE, CrawlUrl, Link

Admit = Callable[[CrawlUrl, Sequence[Link], float, Iterable[int]], None]
_NO_RESTS: Final[Mapping[str, float]] = MappingProxyType({})


class Logged(NamedTuple):
    """A row in the log of a rank: a URL that was dealt with, and its links (`Core.stored`)."""

    found: CrawlUrl
    links: Sequence[Link]
    response: bool


class Members:
    """What one rank knows of clients that join, leave and are lost.

    `activate` and `retire` are for the shells, which call them at a server. They never undo each
    other. If a client is lost, the shell asks `may_lose` at each rank. If all agree, the shell
    reads the client's log. Then it calls `lose` at the client's server, and `recover` for each row.
    It admits the `earlier_links`, and calls `hand_on`.
    """

    def __init__(
        self,
        dynamic: config.Dynamic,
        tree: Tree,
        parts: Parts,
        mail: Mail,
        role: Role,
        unfinished: Unfinished,
        admit: Admit,
    ) -> None:
        """`admit` admits the links of a logged page (`Resumption.admit_again`)."""
        below = tree.clients_of(parts.ownership.rank)
        self.here = [one for one in below if one not in tree.spares]  # in the order of coming
        self.recovering: set[int] = set()  # lost ranks whose URLs aren't handed on yet
        self.news = False  # whether a rank was lost, and `Core` hasn't seen to it
        self._spares = [one for one in below if one in tree.spares]
        self._unnamed = list(tree.spares)  # spares of any server that no order from here has named
        self._rank = parts.ownership.rank
        self._tree = tree
        self._outboxes = parts.outboxes
        self._mail = mail
        self._clocks = parts.clocks
        self._quota = parts.quota
        self._server = role if isinstance(role, Server) else None
        self._client = role if isinstance(role, Client) else None
        self._holder = role if isinstance(role, Holder) else None
        self._assigner = role if isinstance(role, Assigner) else None
        self._ownership = parts.ownership
        self._claims = parts.door.claims
        self._unfinished = unfinished
        self._is_resumed = False  # whether this run has begun with links of earlier runs
        self._replayed: set[int] = set()  # clients that have sent all of these that they had
        self._admit = admit
        self._interval_s = dynamic.join_after_s or inf
        self._join_waiting = dynamic.join_waiting or inf
        self._next_join = inf

    def start(self, now: float) -> None:
        """Begin to wait for the time at which the first spare comes."""
        self._is_resumed = self._unfinished.replay
        self._next_join = now + self._interval_s

    # --- orders from outside ------------------------------------------------------------------

    def activate(self, now: float, rank: int | None = None) -> None:
        """Have a spare come: a certain one, or the first that this call hasn't named yet.

        If that spare has come already, another spare of its server comes. If there is none, nothing
        happens. Raises ValueError for a rank that is no client.
        """
        if rank is None:
            if not self._unnamed:
                return
            rank = self._unnamed[0]
        if rank in self._unnamed:
            self._unnamed.remove(rank)
        self._order(rank, now, comes=True)

    def retire(self, rank: int, now: float) -> None:
        """Have a client leave. If it is the last one of its server, and no spare is left, it stays.

        Raises ValueError for a rank that is no client.
        """
        self._order(rank, now, comes=False)

    def _order(self, rank: int, now: float, *, comes: bool) -> None:
        if rank not in self._tree.clients:
            raise ValueError(f"rank {rank} is no client of a seed server")
        server = self._tree.above(rank)
        if server == self._rank:
            self._obey(rank, now, comes=comes)
        else:
            self._outboxes.open(server, now, urgent=True).members[rank] = comes

    # --- at a server --------------------------------------------------------------------------

    def _obey(self, rank: int, now: float, *, comes: bool) -> None:
        if not comes:
            self._dismiss(rank, now)
        elif rank in self._spares or self._spares:
            self._call(rank if rank in self._spares else self._spares[0], now)

    def _call(self, rank: int, now: float) -> None:
        """Have a spare come."""
        self._spares.remove(rank)
        self.here.append(rank)
        self._outboxes.open(rank, now, urgent=True).members[rank] = True
        if self._assigner is not None:
            self._assigner.call_home(rank, now)

    def _dismiss(self, rank: int, now: float) -> None:
        """Have a client leave, unless nobody would be left."""
        if rank in self._spares:
            self._spares.remove(rank)
        elif rank in self.here and (len(self.here) > 1 or self._spares):
            self._outboxes.open(rank, now, urgent=True).members[rank] = False
            self._part_with(rank, now)

    def _part_with(self, rank: int, now: float) -> None:
        """Give nothing more to a client."""
        self.here.remove(rank)
        if self._server is not None:
            self._server.part_with(rank, now)
        if not self.here:
            self._call(self._spares[0], now)

    def look(self, now: float) -> None:
        """Do what is due: have a spare come, or tell the server that the replay is over."""
        if self._client is not None and self._is_resumed and not self._unfinished.replay:
            self._is_resumed = False
            self._outboxes.open(self._client.server, now).replayed = True
        if not self._spares:
            return
        if now >= self._next_join:
            self._next_join += self._interval_s
            self._call(self._spares[0], now)
        elif (
            self._server is not None
            and self._server.seeds > self._join_waiting * len(self.here)
            and self._server.is_complete(self.here)
        ):
            self._call(self._spares[0], now)

    def next_time(self) -> float | None:
        """When the next spare comes, if that is known."""
        return self._next_join if self._spares and self._next_join < inf else None

    def choose(self, unit: str) -> int:
        """The client that gets a unit (`Tree.unit`): its home, if that is here.

        Of the others, those come first that have the fewest DSets, and then the one that has had
        the fewest URLs to fetch.
        """
        home = self._tree.home(unit)
        if home is None:
            return self._claims.least_loaded(self.here)
        if home in self.here:
            return home
        held = Counter(self._ownership.learned.values())
        fewest = min(held[rank] for rank in self.here)
        return self._claims.least_loaded(rank for rank in self.here if held[rank] == fewest)

    # --- lost clients -------------------------------------------------------------------------

    def may_lose(self, rank: int) -> bool:
        """Whether the other ranks may go on without a rank that is lost, as far as this rank knows.

        If any rank says no, they must begin again, from the logs. That is so if the lost rank is no
        client, or if no client of its server would be left. It is so, too, if the client was still
        replaying earlier logs, and its server hands out URLs: the server can't know which links it
        has counted.
        """
        if rank not in self._tree.clients:
            return False
        if not self.serves(rank):
            return True  # its server decides
        if (self._server or self._assigner) is None or (self.here == [rank] and not self._spares):
            return False
        if self._assigner is not None or not self._is_resumed:
            return True
        return rank in self._replayed or rank in self._mail.lost

    def serves(self, rank: int) -> bool:
        """Whether this rank is the server of a client."""
        return rank in self._tree.clients and self._tree.above(rank) == self._rank

    def reported(self, rank: int) -> int:
        """The number of rows in a client's log of this run that it has reported, the first ones.

        They need not be recovered.
        """
        return 0 if self._server is None else self._server.states[rank].reported

    def earlier_links(self, rank: int) -> bytes | None:
        """The packed keys of the targets of links in earlier logs that a client has had to admit.

        If the client is lost, they must be admitted again. None if this run isn't resumed, or if
        servers hand out URLs.
        """
        retained = None if self._assigner is None else self._assigner.retained
        return None if retained is None else retained.links(rank)

    def lose(
        self,
        rank: int,
        logged: Mapping[str, Iterable[int]],
        pages: int,
        now: float,
        rests: Mapping[str, float] = _NO_RESTS,
    ) -> None:
        """As its server, note that a client is lost. Until `hand_on`, this rank isn't passive.

        `logged`: the keys of all rows in its log of this run, by site. `pages`: the number of rows
        with a response. Both are only needed of a client that follows links itself; what its log
        lacks is fetched again. `rests`: the seconds that sites or addresses must still rest after
        its requests, beyond the usual delay.
        """
        assert self.may_lose(rank), rank
        if rank in self._mail.lost:
            return
        self.recovering.add(rank)
        for other in range(self._tree.ranks):
            if other not in {self._rank, rank, *self._mail.lost}:
                self._outboxes.open(other, now, urgent=True).lost[rank] = pages
        self._note_lost(rank, pages, now, rests)
        if rank in self._spares:
            self._spares.remove(rank)
        elif rank in self.here:
            if self._spares:
                self._call(self._spares[0], now)
            self._part_with(rank, now)
        if self._assigner is not None:
            self._assigner.lose(rank, logged, now)

    def recover(self, rank: int, row: Logged, now: float) -> None:
        """Admit the links of a row in the log of a lost client, unless it has reported the row.

        A client that is handed its URLs has dealt with the URL of the row.
        """
        found, links, response = row
        if self._assigner is not None:
            is_open = self._assigner.is_open
            self._admit_row(found, [one for one in links if is_open(rank, found, one)], now)
        elif self._server is not None and found.key in self._server.states[rank].handed:
            self._admit_row(found, links, now)
            self._server.recover(rank, found.key, now, answered=response)

    def _admit_row(self, found: CrawlUrl, links: Sequence[Link], now: float) -> None:
        followed = [link.key for link in links if not link.flags & OUT_OF_SCOPE]
        self._admit(found, links, now, followed)

    def hand_on(self, rank: int, now: float) -> None:
        """Let the other clients have the URLs of a lost client that it hasn't dealt with."""
        if rank not in self.recovering:
            return
        self.recovering.remove(rank)
        if self._server is not None:
            self._server.take_back(rank, now)
        elif self._assigner is not None:
            self._assigner.send_on(rank, now)

    def _note_lost(
        self, rank: int, pages: int, now: float, rests: Mapping[str, float] = _NO_RESTS
    ) -> None:
        self.news = True
        self._mail.lose(rank)
        self._quota.lose(rank, pages, now)
        if self._clocks is not None:
            self._clocks.lose(rank, now, rests)

    # --- messages -----------------------------------------------------------------------------

    def received(self, sender: int, batch: Batch, now: float) -> None:
        """Handle what a batch says about clients."""
        if batch.replayed:
            self._replayed.add(sender)
        for rank, comes in batch.members.items():
            if rank != self._rank:
                self._obey(rank, now, comes=comes)
            elif self._client is not None:
                if comes:
                    self._client.come(now)
                else:
                    self._client.leave(self._unfinished.visiting, now)
            elif self._holder is not None and not comes:
                self._holder.leave(now)
        for rank, pages in batch.lost.items():
            if rank not in self._mail.lost:
                self._note_lost(rank, pages, now)


def make_members(
    dynamic: config.Dynamic,
    parts: Parts,
    mail: Mail,
    role: Role,
    unfinished: Unfinished,
    admit: Admit,
) -> Members | None:
    """Make the members, or return None without dynamic assignment.

    A server that assigns units learns here how to choose the client of one.
    """
    ownership = parts.ownership
    tree = ownership.tree
    if tree is None:
        return None
    members = Members(dynamic, tree, parts, mail, role, unfinished, admit)
    if not tree.hands_out and tree.is_server(ownership.rank):
        ownership.assign = members.choose
    return members
