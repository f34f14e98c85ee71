"""The core: the part of an agent that decides. Events in, actions out; no socket, no clock, no MPI.

Two shells drive the core: the agent (`crawler.agent.pipeline`) and the simulator
(`crawler.simulate`). The shells themselves decide nothing about URLs:

* `start`, `stored` and `received` bring URLs to the one door (`core.door`).
* `acquire` hands out a visit. The shell calls `begin` before its request, and `end` with an Outcome
  after it. If `end` returns that the URL is dealt with, the shell calls `stored`.
* `tick` returns the messages that must leave now, and notices when this rank is passive.

Other decisions have classes of their own: the seeds (`seeding`), a pause or a stop (`halt`), when a
site may be asked (`workbench`), the page quota (`quota`), sites that join the scope (`joining`),
what earlier runs knew (`resumption`), and the end of the crawl (`termination`). With dynamic
assignment, clients may join, leave and be lost (`members`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final

from crawler import config
from crawler.core.budget import Budget
from crawler.core.courtesy import Courtesy
from crawler.core.dynamic.role import ClientFacts
from crawler.core.dynamic.roles import make_bench, make_role, make_seen
from crawler.core.facts import Facts
from crawler.core.halt import Halt
from crawler.core.joining import Joining
from crawler.core.leases import make_leases
from crawler.core.mail import Mail
from crawler.core.members import make_members
from crawler.core.order import BreadthFirst
from crawler.core.outcomes import BUSY, FAILED, POSTPONED, Outcome
from crawler.core.ownership import Ownership
from crawler.core.parts import Parts
from crawler.core.resumption import Resumption
from crawler.core.seeding import Seeding
from crawler.core.seen import LateSeen, UrlSeen
from crawler.core.unfinished import Unfinished
from crawler.core.visits import SiteCounts, Visit
from crawler.extensions import Plugin
from crawler.faults import Faults
from crawler.messages import Batch, ForPeople, Message
from crawler.modes import mode_of
from crawler.ports import OUT_OF_SCOPE, CrawlUrl, Failure, Link, Spill
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Sites
from crawler.reading.traps import TrapMonitor

_STEP: Final = 500  # links, a few milliseconds
_SOON_S: Final = 1.0  # a rank has nothing to do if it can visit no site until then


class Core:
    """The decisions of one rank. `ended` becomes true on all ranks in the same wave."""

    def __init__(
        self,
        settings: config.Config,
        ranks: int,
        ownership: Ownership,
        sites: Sites,
        seen: UrlSeen | LateSeen,
        order: BreadthFirst | None = None,
        spill: Spill | None = None,
        declared: DeclaredSitemaps | None = None,
        jars: Jars | None = None,
        faults: Faults | None = None,
        traps: TrapMonitor | None = None,
        sent: UrlSeen | None = None,
        budget: Budget | None = None,
        note_seed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`order`: by default the order that the configuration names.

        `spill`: takes the waiting URLs that don't fit into memory; without it all stay in memory.
        `declared`, `jars`, `faults` and `traps`: new objects by default. `sent`: a store for the
        URLs that this rank sends; by default in memory. `budget`: knows `seen` and `sent`, if they
        can be measured; by default one without a limit. `note_seed`: see Seeding.
        """
        self.rank = ownership.rank
        self.ownership = ownership
        tree = ownership.tree
        self.is_server = tree is not None and tree.is_server(self.rank)  # fetches nothing
        self.hands_out = tree is not None and tree.hands_out  # so a client gets URLs of any site
        courtesy = Courtesy(settings.politeness, settings.overrides())
        leases = make_leases(courtesy, ranks, ownership.clock_home, ownership.address_home)
        groups = seen.groups if isinstance(seen, LateSeen) else None
        bench = make_bench(settings, ownership, order, spill, leases, groups)
        parts = Parts(
            settings,
            ranks,
            ownership,
            sites,
            make_seen(ownership, bench, seen),
            sent,
            bench,
            declared,
            jars,
            faults,
            traps,
            budget,
        )
        self.budget = parts.budget
        self.door = parts.door
        self.traffic = parts.door.foreign.traffic
        self.role = make_role(settings, parts, spill)
        self._bench = bench
        self._backlog = bench.backlog
        self._rules = parts.rules
        self._outboxes = parts.outboxes
        self._clocks = parts.clocks
        self._foreign = parts.door.foreign
        self._quota = parts.quota
        self._mail = Mail(self.rank, ranks, tree, self._outboxes, self.traffic, self.role.retained)
        self.pages = 0  # responses
        self.retries = 0  # URLs put back after a failure
        self._connections = settings.fetch.concurrency
        self.halt = Halt(self.rank, ranks, tree, self._outboxes, self._mail)
        self.seeding = Seeding(parts, mode_of(settings), ranks, self._mail, note_seed)
        self.unfinished = Unfinished()
        self.facts = Facts(parts, self.unfinished)
        self.joining = Joining(ranks, ownership, self.door, self._outboxes, self.unfinished)
        self.resumption = Resumption(parts, self.joining, self.unfinished, self.role.show_page)
        self.members = make_members(
            settings.dynamic,
            parts,
            self._mail,
            self.role,
            self.unfinished,
            self.resumption.admit_again,
        )

    def __repr__(self) -> str:
        return f"<Core of rank {self.rank}: {self._bench}>"

    @property
    def plugins(self) -> list[Plugin[Any]]:
        """The plug-ins that decide here."""
        return [*self.ownership.plugins, *self._backlog.order.plugins]

    # --- URLs come in -------------------------------------------------------------------------

    def start(self, seeds: Iterable[Link], now: float, replicated: Iterable[Link] = ()) -> None:
        """Admit the seeds that this rank starts with. Every rank gets the same arguments.

        `seeds`: all seeds. In independent mode the ranks take them in turn. `replicated`: the
        popular URLs of the last session (Cho 2002, section 3.1). Their owners take them as seeds.
        Every rank knows them, so links to them are neither sent nor counted. In independent mode
        they are ignored.
        """
        self.seeding.start(seeds, replicated, now)
        self.role.start(now)
        if self.members is not None:
            self.members.start(now)

    def received(self, sender: int, message: Message, now: float) -> tuple[int, ForPeople] | None:
        """Handle a message of another rank.

        Returns a message that is only for people, with its first sender, or None.
        """
        for first_sender, arrived in self._mail.receive(sender, message):
            if not isinstance(arrived, Batch):
                return first_sender, arrived
            self._open(first_sender, arrived, now)
        return None

    def _open(self, sender: int, batch: Batch, now: float) -> None:
        self.role.receive(sender, batch, now)
        for joined in batch.joined:
            self.joining.note(*joined)
        self.seeding.received(batch, now)
        self.halt.received(batch, now)
        if self.members is not None:
            self.members.received(sender, batch, now)
        self._quota.received(sender, batch, now)
        if self._clocks is not None:
            self._clocks.received(sender, batch, now)

    def address(self, receiver: int, said: ForPeople) -> tuple[int, Message]:
        """Return the rank to which a message for `receiver` must be sent, and what to send."""
        return self._mail.address(receiver, said)

    def tick(self, now: float) -> list[tuple[int, Message]]:
        """The messages that must leave now, each with the rank to send it to."""
        quota, members, claims = self._quota, self.members, self.door.claims
        self.budget.tick()
        if members is not None:
            if members.news:
                members.news = False
                self.joining.tell_again(now)
            if not self.halt.stopping:
                members.look(now)
        if not self.halt.stopping:
            self.role.tick(now)
        if self._clocks is not None:
            self._clocks.settle(now, able=self._may_fetch())
        if self.door.late is not None:
            self._verify(now)
        if 1 <= quota.left < inf and not (self.unfinished.under_way or self.waiting):
            quota.give_back(now)
        load = self._backlog.enqueued
        if load > claims.tell_at:
            claims.tell_load(load, now)
        dry = not self.unfinished.under_way and (not self.waiting or self._is_blocked())
        passive = dry and not self._awaits_answers
        if members is not None and members.recovering:
            passive = False
        nothing = self.role.holds_batches and not self.halt.stopping
        return self._mail.send(now, load, everything=dry, nothing=nothing, passive=passive)

    @property
    def _awaits_answers(self) -> bool:
        """Whether other ranks, or the store of URL-seen, must answer before this rank is done.

        If the rank stops, it waits for no other rank, nor for a store whose disk is full.
        """
        late = self.door.late
        if self.halt.stopping:
            return late is not None and late.pending > 0 and not late.is_stuck
        return self.door.pending > 0 or bool(self.door.claims.holds)

    def _is_blocked(self) -> bool:
        """Whether no visit can begin, unless a message changes that."""
        return self.halt.stopping or self._quota.starved or self.role.is_away

    def _verify(self, now: float) -> None:
        """Handle the answers of a store of URL-seen that answers late.

        The store must hurry if the rank has nothing to do without its answers: if it could make
        more visits, but all sites whose URLs wait must rest for a while.
        """
        if self._is_blocked():
            hurry = not self.unfinished.under_way
        else:
            due = self._bench.next_time()
            is_ready = due is not None and due <= now + _SOON_S
            hurry = not is_ready and self.unfinished.visits < self._connections
        self.door.verify(now, hurry=hurry)

    @property
    def requisites_sent(self) -> int:
        """How many requisites this rank has sent to their owners."""
        return self._foreign.of_requisites.inter_part_urls

    @property
    def counts_links(self) -> bool:
        """Whether the order of the frontier counts the links to a URL, here or at a server."""
        return self._backlog.counts or self.role.counts_links

    def clients(self) -> list[ClientFacts]:
        """What this rank knows of clients under dynamic assignment.

        A server knows of its clients. A client that follows links itself knows of itself.
        """
        if self.ownership.tree is None or self.hands_out or self.is_server:
            return self.role.clients()
        return [ClientFacts(self.rank, self._connections, self.pages, self.waiting)]

    def count_sites(self, now: float) -> SiteCounts:
        """See Workbench.count_sites."""
        return self._bench.count_sites(now)

    def next_visit_time(self) -> float | None:
        """See Workbench.next_time. None if this rank fetches nothing."""
        return None if self.role.is_away else self._bench.next_time()

    def next_time(self) -> float | None:
        """When `tick` must be called next, if nothing happens before; None for no such time."""
        earliest = self._outboxes.next_time()
        role = None if self.halt.stopping else self.role  # it is told the time no more
        for source in (self._clocks, self.door.late, role, self.members):
            time = None if source is None else source.next_time()
            if time is not None and (earliest is None or time < earliest):
                earliest = time
        return earliest

    # --- visits -------------------------------------------------------------------------------

    def acquire(self, now: float) -> Visit | None:
        """A visit that may begin now, or None if no site or no page quota is available."""
        if self.halt.forbids or not self.role.has_room:
            return None
        if self.door.late is not None:
            self._verify(now)
        if self._foreign.deferred.size:
            self._foreign.cross_over(self.unfinished.under_way + self.door.pending, now)
        quota = self._quota
        if quota.left < 1:
            if self._backlog.waiting:
                quota.ask(now)
            if quota.left < 1:
                return None
        visit = self._bench.acquire(now)
        if self._clocks is not None:
            # If this rank is the home of a clock that it asks for, the clock arrives at once.
            while visit is None and self._clocks.settle(now, able=True):
                visit = self._bench.acquire(now)
        if visit is not None:
            self.unfinished.begin(visit)
            quota.left -= 1
            self.role.begin(now)
        return visit

    def _may_fetch(self) -> bool:
        """Whether a visit may begin now, as soon as a site may be asked."""
        return self._quota.left >= 1 and not (self.halt.forbids or self.role.is_away)

    def refusal(self, visit: Visit) -> Failure | None:
        """Why the URL of a visit must not be requested after all, or None."""
        if visit.failures and self._bench.failures.are_too_many(visit.failures):
            return Failure.SITE_GIVEN_UP
        return self._rules.refusal(visit.found)

    def refusal_at(self, visit: Visit, address: str) -> Failure | None:
        """Why a URL must not be requested at the IP address of its host, or None."""
        return self._rules.refusal_at(visit.found, address)

    def locate(self, visit: Visit, address: str, now: float) -> bool:
        """Whether a visit may go to the address of its host. See Workbench.locate."""
        free = self._bench.locate(visit, address, now)
        if not free:
            self._put_back(visit, now)
        return free

    def begin(self, visit: Visit, now: float, *, crawl_delay_s: float | None = None) -> bool:
        """Whether the request of a visit may start now. If not, this call has ended the visit.

        Call this right before each request. See Workbench.begin.
        """
        if self.declines(visit, now):
            return False
        may_start = self._bench.begin(visit, now, crawl_delay_s=crawl_delay_s)
        if not may_start:
            self._put_back(visit, now)
        return may_start

    def declines(self, visit: Visit, now: float) -> bool:
        """Whether the crawl stops early or is paused. If so, this call has ended the visit."""
        declines = self.halt.forbids
        if declines:
            self.end(visit, POSTPONED, now)
        return declines

    def end(
        self,
        visit: Visit,
        outcome: Outcome,
        now: float,
        *,
        crawl_delay_s: float | None = None,
        retry_after_s: float | None = None,
    ) -> bool:
        """End a visit. Returns whether its URL is dealt with; then call `stored`.

        If not, the URL waits again. See Workbench.end for the arguments.
        """
        over = self._bench.end(
            visit, outcome, now, crawl_delay_s=crawl_delay_s, retry_after_s=retry_after_s
        )
        if over:
            self.role.end(visit.found, now, over=True)
        else:
            self.retries += outcome is FAILED or outcome is BUSY
            self._put_back(visit, now)
        return over

    def _put_back(self, visit: Visit, now: float) -> None:
        """Note that the URL of a visit waits again."""
        self.unfinished.end(visit.found)
        self._quota.left += 1
        self.role.end(visit.found, now, over=False)

    def stored(
        self,
        found: CrawlUrl,
        links: Sequence[Link],
        now: float,
        *,
        response: bool,
        requisites: Sequence[Link] = (),
    ) -> Iterator[None]:
        """Admit the links of a URL whose visit has ended and whose row is stored.

        `links`: all links of a page, or only the target of a redirect. The target has as many hops
        as its source, and the chain of the source with the source added. `response`: whether there
        was one. `requisites`: what the page or requisite needs. The iterator admits the links in
        steps, because a page may have very many. Exhaust it.
        """
        response = response and not found.is_requisite  # it is no page, so it costs no quota
        origin = self.door.origin(found, links)
        self.role.open_page()
        if origin is not None:
            for at in range(0, len(links), _STEP):
                if at:
                    yield
                self.door.admit(links[at : at + _STEP], origin, now)
            if response and self._backlog.order.wants_links:
                followed = (link.key for link in links if not link.flags & OUT_OF_SCOPE)
                self.door.show_order(found, followed)
        for at in range(0, len(requisites), _STEP):
            yield
            self.door.require(requisites[at : at + _STEP], found.steps_on, now)
        self._finish(found, response=response)
        self.role.finish(found, links if origin is not None else (), now, response=response)

    def wake(self, site: str) -> None:
        """Let a held site go on, because the errand for it has ended."""
        self._bench.wake(site)

    def _finish(self, found: CrawlUrl, *, response: bool) -> None:
        self.unfinished.end(found)
        crossing = self._foreign.crossing
        if crossing and found.key in crossing:
            crossing.remove(found.key)
            self.traffic.inter_part_pages += response
        if response:
            self.pages += 1
            self._outboxes.pages = self.pages
        else:
            self._quota.left += 1

    def abandon(self, *, in_order: bool) -> None:
        """Drop the open visits, because the crawl stops. A resume fetches their URLs.

        `in_order`: whether the links of every stored row have been admitted.
        """
        assert self.halt.stopping
        self.unfinished.abandon(in_order=in_order)

    @property
    def waiting(self) -> int:
        """The number of URLs that this rank must still fetch, or that may be new."""
        if self.role.is_away:
            return 0
        return self._backlog.waiting + self._foreign.deferred.size + self.door.pending

    @property
    def unfetched(self) -> int:
        """The number of URLs that must still be fetched, each counted at one rank.

        A server also counts the URLs that it has handed out.
        """
        return 0 if self.hands_out and not self.is_server else self.waiting

    @property
    def connections(self) -> int:
        """How many connections this rank uses at most; 0 if it fetches nothing now."""
        if self.is_server or self.role.is_away:
            return 0
        return self.role.connections or self._connections

    @property
    def ended(self) -> bool:
        """Whether the crawl is over on all ranks."""
        return self._mail.ended

    @property
    def complete(self) -> bool:
        """Whether this rank has dealt with every URL that it knows."""
        undone = self.waiting or self.unfinished.under_way or self.unfinished.abandoned
        return not (undone or self.door.claims.holds or len(self._outboxes))
