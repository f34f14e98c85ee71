"""The core: the part of an agent that decides. Events in, actions out; no socket, no clock, no MPI.

Two shells drive it, the agent (`crawler.agent.pipeline`) and the simulator (`crawler.simulate`).
Neither of them decides anything about URLs by itself:

* `start`, `stored`, `received` bring URLs to the one door, `_admit`: there each is taken in to be
  fetched, given to `foreign` if another rank owns it, held until its owner is known, or dropped as
  seen;
* `acquire` hands out a visit; `begin` is asked before its request; `end` ends it with an Outcome.
  If its URL is dealt with, `stored` follows;
* `tick` gives the messages that must leave now, and notices when this rank is passive.

Four things of their own lie below: the workbench, what other ranks own (`foreign`), the page quota
(`quota`), and the detection of the end.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Final

from xxhash import xxh3_64_intdigest

from crawler import config, url
from crawler.core.clocks import SharedClocks
from crawler.core.foreign import Origin, make_foreign
from crawler.core.leases import Leases
from crawler.core.order import BreadthFirst, make_order
from crawler.core.outboxes import Arrivals, Outboxes
from crawler.core.outcomes import BUSY, FAILED, POSTPONED, Outcome
from crawler.core.ownership import Ownership, Registrar
from crawler.core.quota import Quota
from crawler.core.seen import UrlSeen
from crawler.core.state import State
from crawler.core.termination import Termination
from crawler.core.visits import Visit
from crawler.core.workbench import Workbench
from crawler.faults import Faults
from crawler.messages import Batch, Message, Note
from crawler.modes import mode_of
from crawler.ports import (
    COOKIES_LOST,
    OUT_OF_SCOPE,
    REDIRECT,
    Failure,
    Fields,
    Found,
    Link,
    Spill,
    begun_anew,
    errand,
)
from crawler.reading.cookies import Jar, Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Sites
from crawler.reading.traps import Watch

_STEP: Final = 500  # links, a few milliseconds


class Core:
    """The decisions of one rank. `ended` becomes true on all ranks by the same wave."""

    def __init__(
        self,
        settings: config.Config,
        ranks: int,
        ownership: Ownership,
        sites: Sites,
        seen: UrlSeen,
        order: BreadthFirst | None = None,
        spill: Spill | None = None,
        declared: DeclaredSitemaps | None = None,
        jars: Jars | None = None,
        faults: Faults | None = None,
    ) -> None:
        """`order`: by default what the configuration names. `spill`: none, and all that waits is
        kept in memory. `declared`, `jars`, `faults`: by default new ones that nobody else sees.
        """
        self.rank = ownership.rank
        self._declared = declared or DeclaredSitemaps()
        self._jars = Jars() if jars is None else jars  # of chains of redirects; never stored
        self._faults = faults or Faults()  # of code that reads what the web sent
        self.ownership = ownership
        leases = self._make_leases(settings.politeness, ranks)
        self._bench = Workbench(
            settings.politeness,
            settings.retry,
            order or make_order(settings.frontier),
            spill,
            settings.frontier.memory,
            leases,
        )
        self.watch = Watch(settings.traps)
        self._outboxes = Outboxes(ranks, settings.exchange)
        self.foreign = make_foreign(
            settings,
            seen,
            self._takes_in,
            self._bench,
            self._outboxes,
            self._declared,
            self._jars,
        )
        self.traffic = self.foreign.traffic
        self._clocks = None
        if self._bench.sharing is not None:
            self._clocks = SharedClocks(
                self.rank, settings.politeness, self._bench.sharing, self._outboxes
            )
        self.quota = Quota(settings.session.max_pages, self.rank, ranks, self._outboxes)
        self.pages = 0  # responses
        self.retries = 0  # URLs put back after a failure
        self.abandoned = 0  # what was left undone at a stop: visits, the rest of a replay
        self.stopping = False  # a limit or a signal ends the crawl early
        self._ranks = ranks
        self._divides = mode_of(settings).divides
        self._max_hops = settings.scope.max_hops or inf
        self._max_depth = settings.traps.max_depth or inf
        self._sites = sites
        self._seen = seen
        self._replicated: frozenset[int] = frozenset()  # keys that every rank knows
        self._arrivals = [Arrivals() for _ in range(ranks)]  # by sender
        self._registrar = Registrar(ranks)
        # By site. No origin: an errand.
        self._held: defaultdict[str, list[tuple[Link, Origin | None]]] = defaultdict(list)
        self._errands = 0  # so far
        # Sites that have joined the scope, whose links in the log aren't admitted yet.
        self.joining: list[tuple[str, str, str]] = []  # site, seed, end of its redirects
        self._joined: set[str] = set()
        self._visiting: dict[int, Visit] = {}  # by key of the URL
        # What keeps this rank from being passive; see `under_way`.
        self._open_visits = 0  # acquired, and their links not admitted yet
        self._resuming = False  # until all that earlier runs found is admitted
        self._open_joins = 0  # sites that joined the scope, and their logged links not admitted yet
        self._broken_off = False  # by a stop, so that only the logs know everything
        self._termination = Termination(self.rank, ranks)

    def _make_leases(self, politeness: config.Politeness, ranks: int) -> Leases | None:
        """The leases of clocks that ranks may share; None if there is only this rank."""
        if ranks == 1:
            return None
        if politeness.per == "address":  # whose sites lie at any rank
            return Leases(lambda address: xxh3_64_intdigest(address.encode()) % ranks)
        return Leases(self.ownership.clock_home)

    def __repr__(self) -> str:
        return f"<Core of rank {self.rank}: {self._bench}>"

    # --- URLs come in -------------------------------------------------------------------------

    def start(self, seeds: Iterable[Link], now: float, replicated: Iterable[Link] = ()) -> None:
        """Admit those of the seeds that begin at this rank. Every rank is given all of them.

        So are the replicated URLs, the popular ones of the last session: their owners take them as
        seeds, and links to them are sent to nobody and count for nothing (Cho 2002, section 3.1).
        In independent mode the seeds are dealt out in turn, and there is nothing to replicate.
        """
        popular: list[Link] = []
        if self._divides:
            popular = [link for link in replicated if not link.flags & OUT_OF_SCOPE]
        else:
            seeds = islice(seeds, self.rank, None, self._ranks)
        links = list(filter(self.ownership.starts, (*seeds, *popular)))
        for link in links:
            try:
                self.watch.welcome(link.url)
            except BaseException as error:
                self._faults.note(error, "the rules on traps", link.url)
        self._admit(links, Origin(None, 0), now)
        self._replicated = frozenset(link.key for link in popular)

    def recall(self, keys: Iterable[int], watch: Watch, given_up: Iterable[str]) -> None:
        """Take note of URLs of this rank that were fetched, or failed, in earlier runs of the
        session; before `start`, and as often as one likes.

        `watch` has recalled the pages; `given_up` are the authorities left alone.
        """
        self._seen.update(keys)
        self.watch.absorb(watch)
        for authority in given_up:
            self._bench.failures.give_up(authority)

    def hold_back(self, rests: Mapping[str, float], now: float) -> None:
        """Let sites, and addresses, rest for some seconds: earlier runs have asked them."""
        self._bench.hold_back({name: now + seconds for name, seconds in rests.items()})

    def resume(self) -> None:
        """A session is resumed. Until `resumed`, this rank isn't passive."""
        self._resuming = True

    def state(self) -> State | None:
        """What this rank knows, if it has stopped in good order; it has no further use then.

        None: only the logs have all of it. So it is after a stop that broke off a replay or a page,
        with URLs held for a claim, with an order that remembers more, and with a cache of what was
        sent.
        """
        sent, order = self.foreign.keys_to_keep(), self._bench.order.state()
        if sent is None or order is None or self._broken_off or self._held or self.joining:
            return None
        left = [
            (visit.found, -visit.rank[0])
            for visit in self._visiting.values()
            if not visit.found.is_errand
        ]
        left += self._bench.drain()
        own, aside = self.foreign.split(left)
        left = own + aside
        return State(
            seen=array("Q", self._seen).tobytes(),
            sent=array("Q", sent).tobytes(),
            urls=[found.url for found, _ in left],
            hops=[found.hops for found, _ in left],
            scores=array("d", [score for _, score in left]).tobytes(),
            order=order,
            aside=len(aside),
            chains={
                index: self._without_cookies(found)
                for index, (found, _) in enumerate(left)
                if found.chain
            },
            watch=self.watch.tables(),
            given=self._registrar.given,
            learned=self.ownership.learned,
            failures=self._bench.failures.in_a_row,
            named_by=self._declared.as_dict(),
        )

    def _without_cookies(self, found: Found) -> tuple[int, ...]:
        """The chain that a URL has after a resume. If it had cookies, they are lost then."""
        had_some = found.key in found.chain or self._jars.get(found.key).cookies
        return begun_anew(found.chain) if had_some else found.chain

    def restore(self, state: State) -> Iterator[None]:
        """Be as the core that gave the state, in steps; after the first one, visits may begin."""
        self._seen.update(array("Q", state.seen))
        self.foreign.note_earlier_links(array("Q", state.sent), ())
        self.watch.restore(state.watch)
        for site, rank in state.given.items():
            self._registrar.recall(site, rank)
        self.ownership.learned.update(state.learned)
        self._declared.update(state.named_by)
        self._bench.failures.in_a_row.update(state.failures)
        self._bench.order.restore(state.order)
        scores = array("d", state.scores)
        inside = len(state.urls) - state.aside
        for index, address in enumerate(state.urls):
            if index % _STEP == 0:
                yield
            try:
                site = self._sites.of(address)
            except BaseException as error:
                self._faults.note(error, "the site", address)
                continue
            chain = state.chains.get(index, ())
            found = Found(url.key(address), address, site, state.hops[index], chain)
            if index < inside:
                self._bench.enqueue(found, score=scores[index])
            else:
                self.foreign.aside.append(found)
        yield

    def found_again(
        self, source: Found | None, links: Sequence[Link], now: float, targets: Iterable[int] = ()
    ) -> None:
        """Admit links of a page of an earlier run, or sitemaps (no source), that aren't fetched.

        `targets`: the keys of all links of the page that are followed, if the order wants them.
        """
        if source is None:
            origin = Origin(None, 0, again=True)
        elif links and links[0].flags & REDIRECT:
            chain = (*source.chain, source.key)
            if links[0].flags & COOKIES_LOST:
                chain = begun_anew(chain)
            origin = Origin(source, source.hops, chain, again=True)
        elif self.follows(source.hops):
            origin = Origin(source, source.hops + 1, again=True)
        else:
            return
        self._admit(links, origin, now)
        if source is not None and self._bench.order.wants_links:
            self._bench.fetched(source, [key for key in targets if key not in self._replicated])

    def resumed(self, *, wholly: bool) -> None:
        """Note that all links of earlier runs are admitted; not `wholly` if a stop broke that off.

        A stop may have dropped the replay meanwhile (`abandon`); then this does nothing.
        """
        if not self._resuming:
            return
        self._resuming = False
        self.abandoned += not wholly
        self._broken_off |= not wholly

    def join(self, site: str, seed: str, end: str, now: float) -> None:
        """Take a site into the scope, because redirects of a seed end there, and tell all ranks."""
        if self._note_joined(site, seed, end):
            for rank in range(self._ranks):
                if rank != self.rank:
                    outbox = self._outboxes.open(rank, now, urgent=True)
                    outbox.joined.append((site, seed, end))

    def _note_joined(self, site: str, seed: str, end: str) -> bool:
        """Keep a site in `joining`; whether it is new. Until `joined`, this rank isn't passive."""
        if site in self._joined:
            return False
        self._joined.add(site)
        self.joining.append((site, seed, end))
        self._open_joins += 1
        return True

    def found_late(
        self, source: Found | None, links: Sequence[Link], before: Iterable[Link], now: float
    ) -> None:
        """Admit links of a logged page, or sitemaps (no source), that lead to sites that have
        joined the scope since. `before`: the other links of the page that are followed."""
        if source is None:
            origin = Origin(None, 0)
        elif links and links[0].flags & REDIRECT:
            origin = Origin(source, source.hops, (*source.chain, source.key))
        elif self.follows(source.hops):
            origin = Origin(source, source.hops + 1)
        else:
            return
        owners = {self.ownership.owner(link) for link in before}
        origin.others = tuple(rank for rank in owners if rank not in {None, self.rank})
        self._admit(links, origin, now)

    def joined(self, sites: int, *, wholly: bool) -> None:
        """Note that the logged links to so many joined sites are admitted.

        Not `wholly` if a stop broke that off.
        """
        self._open_joins = max(0, self._open_joins - sites)  # `abandon` may have dropped them
        self.abandoned += not wholly
        self._broken_off |= not wholly

    def recall_joined(self, sites: Iterable[str]) -> None:
        """Take in the sites that joined in earlier runs of the session, before `start`."""
        self._joined.update(sites)

    def follows(self, hops: int) -> bool:
        """Whether links of a page so far from a seed are followed. (A redirect always is.)"""
        return hops < self._max_hops and hops < self._max_depth

    def settle(self, claims: Mapping[str, int], claimant: int) -> dict[str, int]:
        """As the registrar of these sites, whose part in an earlier run is given: their parts now.

        They stay with the rank of that part, if there is such a part, else they are `claimant`'s.
        """
        table = self.ownership.rank_of_part
        settled = {}
        for site, part in claims.items():
            owner = self._registrar.recall(site, table[part] if part < len(table) else claimant)
            settled[site] = table.index(owner)
            self.ownership.learn(site, settled[site])
        return settled

    def introduced(self, links: Iterable[Link], now: float) -> None:
        """Admit what no page links to: the sitemaps of a site. They begin here, as seeds do."""
        links = list(links)
        for link in links:  # also of those that are sent no more, as all ranks know them
            owner = self.ownership.owner(link)
            if owner is not None and owner != self.rank and not link.flags & OUT_OF_SCOPE:
                self.foreign.tell_names(owner, link.key, now)
        self._admit(links, Origin(None, 0), now)

    def _origin(self, source: Found, links: Sequence[Link]) -> Origin | None:
        """Where these links were found, unless that is too far from a seed to follow them."""
        jar = self._jars.take(source.key)
        if links and links[0].flags & REDIRECT:
            return Origin(source, source.hops, (*source.chain, source.key), jar)
        if source.hops >= self._max_hops:
            return None
        if source.hops >= self._max_depth and links and self.watch.too_deep(source.hops):
            return None
        return Origin(source, source.hops + 1)

    def _show_order(self, source: Found, links: Sequence[Link]) -> None:
        """Let the order of the frontier see the links of a page."""
        followed = [link.key for link in links if not link.flags & OUT_OF_SCOPE]
        self._bench.fetched(source, [key for key in followed if key not in self._replicated])

    def received(self, sender: int, message: Message, now: float) -> None:
        """Take a message of another rank. Notes aren't the core's."""
        assert not isinstance(message, Note)
        if isinstance(message, Batch):
            if self._arrivals[sender].is_new(message.number):
                self.traffic.batches_received += 1
                self._open_batch(sender, message, now)
        else:
            self._termination.received(sender, message)

    def _admit(self, links: Iterable[Link], origin: Origin, now: float) -> None:
        """The door. A link that has been seen costs a few look-ups and no call."""
        rank, seen, replicated = self.rank, self._seen, self._replicated
        owners, counts = self.ownership.rank_of_site, self._bench.order.counts
        elsewhere, new_tuple, chain = self.foreign.meet, tuple.__new__, origin.chain
        site = known = None
        for link in links:
            # By index, as a named tuple is slow to unpack, and most links need no more of theirs.
            fields: Fields = link
            key = fields[0]
            if link[3] & OUT_OF_SCOPE:
                continue
            if replicated and key in replicated and key not in chain:
                continue
            if link[2] != site:  # most links of a page lead to its own site
                site = link[2]
                known = owners.get(site)
            owner = known
            if owner is None:
                owner = self.ownership.owner(link)
                if owner is None:
                    owner = self._claim(link, origin, now)
                    if owner is None:
                        continue
            if owner != rank:
                elsewhere(owner, link, origin, now)
            elif key not in seen:
                seen.add(key)
                # As Found(...), in half of the time.
                found = new_tuple(Found, (key, link[1], site, origin.hops, chain))
                if chain:
                    self._jars.put(key, origin.jar)
                self._take(found, origin.source)
            elif chain and key in chain:
                self._ask_again(Found(key, link[1], link[2], origin.hops, chain), origin.jar)
            elif counts:
                self._bench.linked(key)

    def _ask_again(self, found: Found, jar: Jar) -> None:
        """Take in a URL of this rank that was fetched before: a redirect leads back there."""
        self._jars.put(found.key, jar)
        self._bench.enqueue(found)

    def _take(self, found: Found, source: Found | None, links: int = 1) -> None:
        watch, poor = self.watch, False
        if watch.rules:
            if not self._takes_in(found, source):
                return
            if watch.poor:
                try:
                    poor = watch.is_poor(found)
                except BaseException as error:
                    self._faults.note(error, "the rules on traps", found.url)
        self._bench.enqueue(found, links, poor)

    def _takes_in(self, found: Found, source: Found | None) -> bool:
        """Whether the rules on traps let a URL in. A rule that fails on the URL lets it in."""
        try:
            return self.watch.admit(found, source)
        except BaseException as error:
            self._faults.note(error, "the rules on traps", found.url)
            return True

    # --- sites that no table knows ------------------------------------------------------------

    def _claim(self, link: Link, origin: Origin | None, now: float) -> int | None:
        """The owner of an unlisted site if this rank may decide it, else the URL is held."""
        site = link.site
        registrar = self.ownership.registrar(site)
        if registrar == self.rank:
            self._grant(site, self.rank)
            return self.ownership.owner(link)
        if site not in self._held:
            self._outboxes.open(registrar, now).claims.append(site)
            self.traffic.claims += 1
        self._held[site].append((link, origin))
        return None

    def _grant(self, site: str, claimant: int) -> int:
        self._registrar.loads[self.rank] = self._bench.enqueued
        owner = self._registrar.grant(site, claimant)
        part = self.ownership.rank_of_part.index(owner)
        self.ownership.learn(site, part)
        return part

    def _learn(self, site: str, part: int, now: float) -> None:
        self.ownership.learn(site, part)
        for link, origin in self._held.pop(site, ()):
            if origin is None:
                self._run_errand(link, now)
            else:
                self._admit([link], origin, now)

    # --- batches ------------------------------------------------------------------------------

    def _open_batch(self, sender: int, batch: Batch, now: float) -> None:
        loads = self._registrar.loads
        loads[sender] = max(loads[sender], batch.load)  # batches may overtake each other
        for site in batch.claims:
            part = self._grant(site, sender)
            self._outboxes.open(sender, now).grants[site] = part
        for site, part in batch.grants.items():
            self._learn(site, part, now)
        for joined in batch.joined:
            self._note_joined(*joined)
        for key, names in batch.named_by.items():
            self._declared.declare(key, tuple(names))
        owners = self.ownership.rank_of_site
        for index, address in enumerate(batch.urls):
            key, links = url.key(address), batch.counts[index]
            chain = batch.chains.get(index, ())
            if key in self._seen and key not in chain:
                if self._bench.order.counts:
                    self._bench.linked(key, links)
                continue
            site = self._sites.of(address)
            found = Found(key, address, site, batch.hops[index], chain)
            jar = Jar.of(batch.cookies.get(key, ()))
            if key in self._seen:
                self._ask_again(found, jar)
                continue
            self._seen.add(key)
            self._jars.put(key, jar)
            if site not in owners and self.ownership.part(found) is None:
                # The sender knows that we own this site before the registrar's word reached us.
                self._learn(site, self.ownership.home, now)
            self._take(found, None, links)
        if batch.stop:
            self.stopping = True
        self.quota.received(sender, batch, now)
        if self._clocks is not None:
            self._clocks.received(sender, batch, now)

    def tick(self, now: float) -> list[tuple[int, Message]]:
        """The messages that must leave now, each with its destination."""
        quota, termination = self.quota, self._termination
        if self._clocks is not None:
            self._clocks.settle(now, able=self._may_fetch())
        if 1 <= quota.left < inf and not (self.under_way or self.waiting):
            quota.give_back(now)
        dry = not self.under_way and (not self.waiting or self.stopping or quota.starved)
        due = self._outboxes.due(now, everything=dry)
        if not (due or dry or termination.messages):
            return []  # as after most events
        messages: list[tuple[int, Message]] = [
            (rank, outbox.batch(self._bench.enqueued)) for rank, outbox in due
        ]
        self.traffic.batches_sent += len(due)
        if dry and (not self._held or self.stopping):
            termination.passive(self.traffic.batches_sent, self.traffic.batches_received)
        messages += termination.messages
        termination.messages.clear()
        return messages

    @property
    def counts_links(self) -> bool:
        """Whether the order of the frontier counts the links to a URL."""
        return self._bench.order.counts

    def next_visit_time(self) -> float | None:
        """When `acquire` can succeed next, as far as is known; None: not before something comes."""
        return self._bench.next_time()

    def next_time(self) -> float | None:
        """When `tick` will have something to do, unless something happens before."""
        batch = self._outboxes.next_time()
        turn = None if self._clocks is None else self._clocks.next_time()
        if batch is None or turn is None:
            return turn if batch is None else batch
        return min(batch, turn)

    # --- visits -------------------------------------------------------------------------------

    def acquire(self, now: float) -> Visit | None:
        """A visit that may begin now, within the page quota."""
        if self.stopping:
            return None
        if self.foreign.aside:
            self.foreign.take_up(self.under_way, now)
        quota = self.quota
        if quota.left < 1:
            if self._bench.waiting:
                quota.ask(now)
            if quota.left < 1:
                return None
        visit = self._bench.acquire(now)
        if self._clocks is not None:
            # A clock whose home is this rank arrives at once.
            while visit is None and self._clocks.settle(now, able=True):
                visit = self._bench.acquire(now)
        if visit is not None:
            fields: Fields = visit.found
            self._visiting[fields[0]] = visit
            self._open_visits += 1
            quota.left -= 1
        return visit

    def _may_fetch(self) -> bool:
        return self.quota.left >= 1 and not self.stopping

    def refusal(self, visit: Visit) -> Failure | None:
        """Why the site isn't to be asked for this URL after all, if so."""
        if visit.failures and self._bench.failures.are_too_many(visit.failures):
            return Failure.SITE_GIVEN_UP
        try:
            counts = self.watch.rules and not visit.found.is_errand
            if counts and self.watch.is_full(visit.found.site):
                return Failure.SITE_FULL
            if self.watch.is_crowded(visit.found):
                return Failure.TOO_MANY_HOSTS
        except BaseException as error:
            self._faults.note(error, "the rules on traps", visit.found.url)
        return None

    def refusal_at(self, visit: Visit, address: str) -> Failure | None:
        """Why a URL isn't to be asked for at the address that the name of its host leads to."""
        try:
            if self.watch.is_crowded(visit.found, address):
                return Failure.TOO_MANY_HOSTS
        except BaseException as error:
            self._faults.note(error, "the rules on traps", visit.found.url)
        return None

    def locate(self, visit: Visit, address: str, now: float) -> bool:
        """Whether a visit may go to the address of its host; else it has been given back."""
        free = self._bench.locate(visit, address, now)
        if not free:
            self._put_back(visit)
        return free

    def begin(self, visit: Visit, now: float, *, crawl_delay_s: float | None = None) -> bool:
        """Whether the request of a visit may start now; else it has been given back.

        To be called right before each request; see Workbench.begin.
        """
        if self.declines(visit, now):
            return False
        may_start = self._bench.begin(visit, now, crawl_delay_s=crawl_delay_s)
        if not may_start:
            self._put_back(visit)
        return may_start

    def declines(self, visit: Visit, now: float) -> bool:
        """Whether the crawl stops early. Then a visit that hasn't begun has ended."""
        if self.stopping:
            self.end(visit, POSTPONED, now)
        return self.stopping

    def end(
        self,
        visit: Visit,
        outcome: Outcome,
        now: float,
        *,
        crawl_delay_s: float | None = None,
        retry_after_s: float | None = None,
    ) -> bool:
        """End a visit; whether its URL is dealt with. If so, `stored` must follow.

        Else the URL waits again. See Workbench.end for the arguments.
        """
        over = self._bench.end(
            visit, outcome, now, crawl_delay_s=crawl_delay_s, retry_after_s=retry_after_s
        )
        if not over:
            self.retries += outcome is FAILED or outcome is BUSY
            self._put_back(visit)
        return over

    def _put_back(self, visit: Visit) -> None:
        del self._visiting[visit.found.key]
        self._open_visits -= 1
        self.quota.left += 1

    def stored(
        self, found: Found, links: Sequence[Link], now: float, *, response: bool
    ) -> Iterator[None]:
        """Admit the links of a URL whose visit has ended, now that its row is stored.

        `links`: of a page all of its links, of a redirect only its target; a redirect is no hop,
        and its chain is that of its source with the source added. `response`: there was one. In
        steps, for pages with very many links; to be gone through to the end.
        """
        origin = self._origin(found, links)
        if origin is not None:
            for at in range(0, len(links), _STEP):
                if at:
                    yield
                self._admit(links[at : at + _STEP], origin, now)
            if response and self._bench.order.wants_links:
                self._show_order(found, links)
        self._finish(found, response=response)

    def run_errand(self, address: str, now: float) -> None:
        """Fetch a robots.txt to which another site's redirects, when its own site allows that.

        There will be a visit to its `errand`, at this rank. If another rank has the site's clock,
        this rank borrows the clock.
        """
        self._run_errand(Link(url.key(address), address, self._sites.of(address), 0), now)

    def _run_errand(self, link: Link, now: float) -> None:
        owner = self.ownership.owner(link)
        if owner is None:
            owner = self._claim(link, None, now)
            if owner is None:
                return
        if owner != self.rank and self._clocks is not None:
            self._clocks.borrow(link.site, owner)
        self._errands += 1
        name = errand(link.url, self._errands)
        self._bench.enqueue_errand(Found(url.key(name), name, link.site, 0))

    def wake(self, site: str) -> None:
        """Let a site go on whose errand is done, whatever came of it."""
        self._bench.wake(site)

    def _finish(self, found: Found, *, response: bool) -> None:
        fields: Fields = found
        del self._visiting[fields[0]]
        self._open_visits -= 1
        taken_up = self.foreign.taken_up
        if taken_up and found.key in taken_up:
            taken_up.remove(found.key)
            self.traffic.inter_part_pages += response
        if response:
            self.pages += 1
            self._outboxes.pages = self.pages
        else:
            self.quota.left += 1

    def stop(self, now: float) -> None:
        """End the crawl early, on all ranks: fetches under way are finished, nothing new begins."""
        if not (self.stopping or self.ended):
            self.stopping = True
            for rank in range(self._ranks):
                if rank != self.rank:
                    self._outboxes.open(rank, now, urgent=True).stop = True

    def abandon(self, *, in_order: bool) -> None:
        """Drop the visits that are open: the crawl stops, and their URLs are left for a resume.

        `in_order`: the links of every row that is stored have been admitted.
        """
        assert self.stopping
        self._broken_off |= self._resuming or not in_order
        self.abandoned += self.under_way
        self._open_visits = self._open_joins = 0
        self._resuming = False

    @property
    def under_way(self) -> int:
        """How much this rank has begun and not ended: visits, a replay, sites that are joining.

        Until that is nothing, this rank isn't passive, because new URLs may come of it.
        """
        return self._open_visits + self._resuming + self._open_joins

    @property
    def waiting(self) -> int:
        """URLs that this rank has still to fetch."""
        return self._bench.waiting + len(self.foreign.aside)

    @property
    def ended(self) -> bool:
        return self._termination.ended

    @property
    def complete(self) -> bool:
        """Whether this rank has dealt with every URL it knows of."""
        waiting = self.waiting or self.abandoned
        return not (waiting or self.under_way or self._held or len(self._outboxes))
