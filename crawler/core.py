"""The core: the part of an agent that decides. Events in, actions out; no socket, no clock, no MPI.

Two shells drive it, the agent (`crawler.pipeline`) and the simulator (`crawler.simulate`), and
neither decides anything about URLs by itself:

* `start`, `discovered`, `received` bring URLs to the one door, `_admit`: there each is taken in to
  be fetched, dealt with as the mode says if another rank owns it, held until its owner is known,
  or dropped as seen;
* `acquire` hands out a visit; `finish` ends it, and so does whatever puts its URL back: `retry`,
  `fail` and `locate`;
* `tick` gives the messages that must leave now, and notices when this rank is passive.

What becomes of inter-part links is `session.mode` (Cho and Garcia-Molina 2002, section 3): in
`exchange` they are sent to their owners, in `firewall` dropped. In `cross-over` a rank sets them
aside, and follows them, oldest first, while it has dealt with everything of its own. `independent`
knows none: each rank owns what it finds. Whatever the mode, batches carry page quota and the stop.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from math import inf
from typing import Final

from crawler import config, url
from crawler.exchange import (
    Arrivals,
    Batch,
    Message,
    Note,
    Outboxes,
    Quota,
    Report,
    Termination,
)
from crawler.order import BreadthFirst, make_order
from crawler.ownership import Ownership, Registrar
from crawler.ports import OUT_OF_SCOPE, REDIRECT, Failure, Found, Link, PageRow, Spill
from crawler.scope import Sites
from crawler.seen import CacheSeen, MemorySeen, UrlSeen, sent_memory
from crawler.state import State
from crawler.traps import Watch
from crawler.workbench import Visit, Workbench

MAX_REDIRECTS: Final = 5
_STEP = 500  # links, a few milliseconds
BUSY: Final = frozenset((429, 503))  # statuses of a server that has too much to do
# What may be otherwise in a while. The other failures are answers of a kind.
_PASSING: Final = frozenset(
    (
        Failure.DNS_FAILED,
        Failure.UNREACHABLE,
        Failure.REFUSED,
        Failure.CONNECT_TIMEOUT,
        Failure.DISCONNECTED,
        Failure.TIMEOUT,
        Failure.TLS,
        Failure.ROBOTS_UNREACHABLE,
        Failure.UNAVAILABLE,
    )
)
# What is known without a request.
_UNASKED: Final = frozenset(
    (
        Failure.BAD_URL,
        Failure.DNS_NOT_FOUND,
        Failure.PRIVATE_ADDRESS,
        Failure.NO_CONTACT,
        Failure.ROBOTS_DENIED,
        Failure.SITE_GIVEN_UP,
        Failure.SITE_FULL,
    )
)


@dataclass(slots=True)
class Traffic:
    """What this rank has sent, by the words of DESIGN: the models' messages aren't MPI's."""

    inter_part_links: int = 0  # links found whose page belongs to another rank
    dropped_links: int = 0  # of them those that a firewall stopped
    inter_part_pages: int = 0  # pages of other ranks that this one has crossed over to
    inter_part_urls: int = 0  # URLs sent
    transmissions_target_part: int = 0  # of them those not sent before, as far as is remembered
    messages_page_part: int = 0  # (page, other rank) pairs with a link
    site_part: set[tuple[str, int]] = field(default_factory=set)  # (source site, other rank) pairs
    claims: int = 0
    batches_sent: int = 0
    batches_received: int = 0


@dataclass(slots=True)
class _Page:
    """Where links were found."""

    source: Found | None  # None: they are seeds
    hops: int  # of the links
    chain: tuple[int, ...] = ()  # of the links
    others: tuple[int, ...] = ()  # the ranks that own some of them
    again: bool = False  # found in an earlier run, which has counted them


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
    ) -> None:
        """`order`: by default what the configuration names. `spill`: none, and all that waits is
        kept in memory."""
        self.rank = ownership.rank
        self.ownership = ownership
        self.bench = Workbench(
            settings.politeness,
            settings.retry,
            order or make_order(settings.frontier),
            spill,
            settings.frontier.memory,
        )
        self.watch = Watch(settings.traps)
        self.traffic = Traffic()
        self._recounted = Traffic()  # what earlier runs have counted
        self.pages = 0  # responses
        self.retries = 0  # URLs put back after a failure
        self.abandoned = 0  # what was left undone at a stop: visits, the rest of a replay
        self.stopping = False  # a limit or a signal ends the crawl early
        self._ranks = ranks
        self._independent = settings.session.mode == "independent"
        self._max_hops = settings.scope.max_hops or inf
        self._max_depth = settings.traps.max_depth or inf
        self._sites = sites
        self._seen = seen
        self._sent = sent_memory(settings.exchange, seen)
        self._left: set[int] = set()  # keys of URLs that their owners are told by others
        self._replicated: frozenset[int] = frozenset()  # keys that every rank knows
        self.named_by: dict[int, str] = {}  # by key of a sitemap: whose robots.txt names it
        self._outboxes = Outboxes(ranks, settings.exchange)
        self._numbers = [count() for _ in range(ranks)]  # of batches, by receiver
        self._arrivals = [Arrivals() for _ in range(ranks)]  # by sender
        self._registrar = Registrar(ranks)
        self._held: defaultdict[str, list[tuple[Link, _Page]]] = defaultdict(list)
        # What becomes of a URL that another rank owns.
        elsewhere = {"firewall": self._drop, "cross-over": self._set_aside}
        self._elsewhere = elsewhere.get(settings.session.mode, self._send)
        self._aside: deque[Found] = deque()  # cross-over: URLs of other ranks, oldest first
        self._abroad: set[int] = set()  # keys of those taken up and not dealt with
        self._most_abroad = settings.fetch.concurrency
        self._open = 0  # visits acquired whose links haven't been admitted; and an open replay
        self._visiting: dict[int, Visit] = {}  # by key of the URL
        self._broken_off = False  # by a stop, so that only the logs know everything
        limited = settings.session.max_pages > 0
        self._allowance = 0.0 if limited else inf
        self._asked = False
        self._quota = Quota(settings.session.max_pages if self.rank == 0 else 0, ranks)
        self._termination = Termination(ranks)
        self._control: list[tuple[int, Message]] = []  # uncounted messages to send

    # --- URLs come in -------------------------------------------------------------------------

    def start(self, seeds: Iterable[Link], now: float, replicated: Iterable[Link] = ()) -> None:
        """Admit those of the seeds that begin at this rank. Every rank is given all of them.

        So are the replicated URLs, the popular ones of the last session: their owners take them as
        seeds, and links to them are sent to nobody and count for nothing (Cho 2002, section 3.1).
        In independent mode the seeds are dealt out in turn, and there is nothing to replicate.
        """
        popular: list[Link] = []
        if self._independent:
            seeds = islice(seeds, self.rank, None, self._ranks)
        else:
            popular = [link for link in replicated if not link.flags & OUT_OF_SCOPE]
        self._admit(filter(self.ownership.starts, (*seeds, *popular)), _Page(None, 0), now)
        self._replicated = frozenset(link.key for link in popular)

    def recall(self, keys: Iterable[int], watch: Watch, given_up: Iterable[str]) -> None:
        """Take note of URLs of this rank that were fetched, or failed, in earlier runs of the
        session; before `start`, and as often as one likes.

        `watch` has recalled the pages; `given_up` are the authorities left alone.
        """
        self._seen.update(keys)
        self.watch.absorb(watch)
        for authority in given_up:
            self.bench.give_up(authority)

    def remember_sent(self, keys: Iterable[int]) -> None:
        """Links to these URLs were found in earlier runs, and they are fetched."""
        self._sent.update(keys)

    def leave_to_others(self, keys: Iterable[int]) -> None:
        """Links to these URLs were found in earlier runs, and other ranks admit them."""
        # Some are this rank's own, and mustn't be among the seen ones before they come.
        (self._left if self._sent is self._seen else self._sent).update(keys)

    def resume(self) -> None:
        """A session is resumed. Until `resumed`, this rank isn't passive."""
        self._open += 1

    def state(self) -> State | None:
        """What this rank knows, if it has stopped in good order; it has no further use then.

        None: only the logs have all of it. So it is after a stop that broke off a replay or a page,
        with URLs held for a claim, with an order that remembers more, and with a cache of what was
        sent.
        """
        seen, order = self._seen, self.bench.order.state()
        if order is None or self._broken_off or self._held:
            return None
        if not isinstance(seen, MemorySeen) or isinstance(self._sent, CacheSeen):
            return None
        keys = array("Q", seen)
        keys.extend(self._left)  # those of this rank have come
        left = [(visit.found, -visit.rank[0]) for visit in self._visiting.values()]
        left += self.bench.drain()
        abroad = [one for one in left if one[0].key in self._abroad]
        if abroad:
            left = [one for one in left if one[0].key not in self._abroad]
        aside = [*abroad, *((found, 0.0) for found in self._aside)]
        left += aside
        return State(
            seen=keys.tobytes(),
            urls=[found.url for found, _ in left],
            hops=[found.hops for found, _ in left],
            scores=array("d", [score for _, score in left]).tobytes(),
            order=order,
            aside=len(aside),
            chains={index: found.chain for index, (found, _) in enumerate(left) if found.chain},
            watch=self.watch.tables(),
            given=self._registrar.given,
            learned=self.ownership.learned,
            failures=self.bench.failures,
        )

    def restore(self, state: State) -> Iterator[None]:
        """Be as the core that gave the state, in steps; after the first one, visits may begin."""
        self._seen.update(array("Q", state.seen))
        self.watch.restore(state.watch)
        for site, rank in state.given.items():
            self._registrar.recall(site, rank)
        self.ownership.learned.update(state.learned)
        self.bench.failures.update(state.failures)
        self.bench.order.restore(state.order)
        scores = array("d", state.scores)
        inside = len(state.urls) - state.aside
        for index, address in enumerate(state.urls):
            if index % _STEP == 0:
                yield
            site, chain = self._sites.of(address), state.chains.get(index, ())
            found = Found(url.key(address), address, site, state.hops[index], chain)
            if index < inside:
                self.bench.enqueue(found, score=scores[index])
            else:
                self._aside.append(found)
        yield

    def spend(self, pages: int) -> None:
        """The session has had so many pages already."""
        self._quota.spend(pages)

    def found_again(
        self, source: Found | None, links: Sequence[Link], now: float, targets: Iterable[int] = ()
    ) -> None:
        """Admit links of a page of an earlier run, or sitemaps (no source), that aren't fetched.

        `targets`: the keys of all links of the page that are followed, if the order wants them.
        """
        if source is None:
            page = _Page(None, 0, again=True)
        elif links and links[0].flags & REDIRECT:
            page = _Page(source, source.hops, (*source.chain, source.key), again=True)
        elif self.follows(source.hops):
            page = _Page(source, source.hops + 1, again=True)
        else:
            return
        self._admit(links, page, now)
        if source is not None and self.bench.order.wants_links:
            self.bench.fetched(source, [key for key in targets if key not in self._replicated])

    def resumed(self, *, wholly: bool) -> None:
        """What was found in earlier runs has been admitted; if not wholly, for a stop."""
        self._open -= 1
        self.abandoned += not wholly
        self._broken_off |= not wholly

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
        self._admit(links, _Page(None, 0), now)

    def discovered(self, source: Found, links: Sequence[Link], now: float) -> None:
        """Admit the out-links of a fetched page, or the target of a redirect (then the only link).

        A redirect is no hop. Its chain is that of its source with the source added.
        """
        page = self._page(source, links)
        if page is not None:
            self._admit(links, page, now)
            if self.bench.order.wants_links:
                self._show_order(source, links)

    def _page(self, source: Found, links: Sequence[Link]) -> _Page | None:
        """Where these links were found, unless that is too far from a seed to follow them."""
        if links and links[0].flags & REDIRECT:
            return _Page(source, source.hops, (*source.chain, source.key))
        if source.hops >= self._max_hops:
            return None
        if source.hops >= self._max_depth and links and self.watch.too_deep(source.hops):
            return None
        return _Page(source, source.hops + 1)

    def _show_order(self, source: Found, links: Sequence[Link]) -> None:
        """Let the order of the frontier see the links of a page."""
        followed = [link.key for link in links if not link.flags & OUT_OF_SCOPE]
        self.bench.fetched(source, [key for key in followed if key not in self._replicated])

    def received(self, sender: int, message: Message, now: float) -> None:
        """Take a message of another rank. Notes aren't the core's."""
        assert not isinstance(message, Note)
        if isinstance(message, Batch):
            if self._arrivals[sender].is_new(message.number):
                self.traffic.batches_received += 1
                self._open_batch(sender, message, now)
        elif isinstance(message, Report):
            self._collect(sender, message)
        else:
            self._termination.conclude(message)

    def _admit(self, links: Iterable[Link], page: _Page, now: float) -> None:
        """The door. A link that has been seen costs a few look-ups and no call."""
        rank, seen, replicated = self.rank, self._seen, self._replicated
        owners, counts = self.ownership.rank_of_site, self.bench.order.counts
        site = known = None
        for link in links:
            # By index, as a named tuple is slow to unpack, and most links need no more of theirs.
            key = link[0]
            if link[3] & OUT_OF_SCOPE or (replicated and key in replicated):
                continue
            if link[2] != site:  # most links of a page lead to its own site
                site = link[2]
                known = owners.get(site)
            owner = known
            if owner is None:
                owner = self.ownership.owner(link)
                if owner is None:
                    owner = self._claim(link, page, now)
                    if owner is None:
                        continue
            if owner != rank:
                self._elsewhere(owner, link, page, now)
            elif key not in seen:
                seen.add(key)
                self._take(Found(key, link.url, site, page.hops, page.chain), page.source)
            elif counts:
                self.bench.linked(key)

    def _take(self, found: Found, source: Found | None, links: int = 1) -> None:
        if self.watch.admit(found, source):
            self.bench.enqueue(found, links, self.watch.is_poor(found))

    # --- what another rank owns ---------------------------------------------------------------

    def _drop(self, owner: int, link: Link, page: _Page, now: float) -> None:
        traffic = self._recounted if page.again else self.traffic
        traffic.inter_part_links += 1
        traffic.dropped_links += 1

    def _set_aside(self, owner: int, link: Link, page: _Page, now: float) -> None:
        traffic = self._recounted if page.again else self.traffic
        traffic.inter_part_links += 1
        if link.key not in self._seen:
            self._seen.add(link.key)
            found = Found(link.key, link.url, link.site, page.hops, page.chain)
            if self.watch.admit(found, page.source):
                self._aside.append(found)

    def _cross_over(self, now: float) -> None:
        """Take up URLs set aside, oldest first, until one can be fetched now.

        Only while all of this rank's own pages are dealt with, and few at a time: own pages may
        turn up with any of them.
        """
        bench, abroad = self.bench, self._abroad
        while self._aside and bench.waiting + self._open == len(abroad) < self._most_abroad:
            due = bench.next_time()
            if due is not None and due <= now:
                return
            found = self._aside.popleft()
            abroad.add(found.key)
            bench.enqueue(found)

    def _send(self, owner: int, link: Link, page: _Page, now: float) -> None:
        traffic = self._recounted if page.again else self.traffic
        traffic.inter_part_links += 1
        if page.source is not None and owner not in page.others:
            page.others += (owner,)
            traffic.messages_page_part += 1
            traffic.site_part.add((page.source.site, owner))
        key = link.key
        if self._outboxes.count_again(owner, key):
            return
        new = key not in self._sent and key not in self._left
        self._sent.add(key)
        if new:
            traffic.transmissions_target_part += 1
        if new or self.bench.order.counts:  # its owner wants to know of every back-link
            found = Found(key, link.url, link.site, page.hops, page.chain)
            outbox = self._outboxes.add(owner, found, now, self.pages)
            traffic.inter_part_urls += 1
            if key in self.named_by:
                outbox.named_by[key] = self.named_by[key]

    # --- sites that no table knows ------------------------------------------------------------

    def _claim(self, link: Link, page: _Page, now: float) -> int | None:
        """The owner of an unlisted site if this rank may decide it, else the URL is held."""
        site = link.site
        registrar = self.ownership.registrar(site)
        if registrar == self.rank:
            self._grant(site, self.rank)
            return self.ownership.owner(link)
        if site not in self._held:
            self._outboxes.open(registrar, now, self.pages).claims.append(site)
            self.traffic.claims += 1
        self._held[site].append((link, page))
        return None

    def _grant(self, site: str, claimant: int) -> int:
        self._registrar.loads[self.rank] = self.bench.enqueued
        owner = self._registrar.grant(site, claimant)
        part = self.ownership.rank_of_part.index(owner)
        self.ownership.learn(site, part)
        return part

    def _learn(self, site: str, part: int, now: float) -> None:
        self.ownership.learn(site, part)
        for link, page in self._held.pop(site, ()):
            self._admit([link], page, now)

    # --- batches ------------------------------------------------------------------------------

    def _open_batch(self, sender: int, batch: Batch, now: float) -> None:
        loads = self._registrar.loads
        loads[sender] = max(loads[sender], batch.load)  # batches may overtake each other
        for site in batch.claims:
            part = self._grant(site, sender)
            self._outboxes.open(sender, now, self.pages).grants[site] = part
        for site, part in batch.grants.items():
            self._learn(site, part, now)
        for index, authority in batch.named_by.items():
            self.named_by[url.key(batch.urls[index])] = authority
        owners = self.ownership.rank_of_site
        for index, address in enumerate(batch.urls):
            key, links = url.key(address), batch.counts[index]
            if key in self._seen:
                if self.bench.order.counts:
                    self.bench.linked(key, links)
                continue
            self._seen.add(key)
            site, chain = self._sites.of(address), batch.chains.get(index, ())
            found = Found(key, address, site, batch.hops[index], chain)
            if site not in owners and self.ownership.part(found) is None:
                # The sender knows that we own this site before the registrar's word reached us.
                self._learn(site, self.ownership.home, now)
            self._take(found, None, links)
        if batch.stop:
            self.stopping = True
        if batch.allow:
            self._allowance += batch.allow
            self._asked = False
        if batch.ask or batch.returned:
            if batch.ask:
                self._quota.ask(sender)
            self._quota.give_back(batch.returned)
            self._share_quota(now)

    def tick(self, now: float) -> list[tuple[int, Message]]:
        """The messages that must leave now, each with its destination."""
        if 1 <= self._allowance < inf:
            self._return_quota(now)
        dry = not self._open and (not self.waiting or self.stopping or self._starved)
        due = self._outboxes.due(now, self.pages, everything=dry)
        if not (due or dry or self._control):
            return []  # as after most events
        messages: list[tuple[int, Message]] = [
            (rank, outbox.batch(self.bench.enqueued, next(self._numbers[rank])))
            for rank, outbox in due
        ]
        self.traffic.batches_sent += len(due)
        if dry and (not self._held or self.stopping):
            self._report()
        if self._control:
            messages += self._control
            self._control = []
        return messages

    def next_time(self) -> float | None:
        """When `tick` will have something to do, unless something happens before."""
        return self._outboxes.next_time()

    # --- visits -------------------------------------------------------------------------------

    def acquire(self, now: float) -> Visit | None:
        """A visit that may begin now, within the page quota."""
        if self.stopping:
            return None
        if self._aside:
            self._cross_over(now)
        if self._allowance < 1:
            if self.bench.waiting and not self._asked:
                self._asked = True
                if self.rank == 0:
                    self._quota.ask(0)
                    self._share_quota(now)
                else:
                    self._outboxes.open(0, now, self.pages, urgent=True).ask = True
            if self._allowance < 1:
                return None
        visit = self.bench.acquire(now)
        if visit is not None:
            self._visiting[visit.found.key] = visit
            self._open += 1
            self._allowance -= 1
        return visit

    def refusal(self, visit: Visit) -> Failure | None:
        """Why the site isn't to be asked for this URL after all, if so."""
        if visit.failures and self.bench.has_given_up(visit.failures):
            return Failure.SITE_GIVEN_UP
        if self.watch.is_full(visit.found.site):
            return Failure.SITE_FULL
        return None

    def locate(self, visit: Visit, address: str, now: float) -> bool:
        """Whether a visit may go to the address of its host; else it has been given back."""
        free = self.bench.locate(visit, address, now)
        if not free:
            self._put_back(visit)
        return free

    def retry(self, visit: Visit, now: float, *, crawl_delay_s: float | None = None) -> None:
        """Give back a visit that asked its site for something else: its URL is still to be had."""
        self.bench.put_back(visit, now, crawl_delay_s=crawl_delay_s)
        self._put_back(visit)

    def fail(
        self,
        visit: Visit,
        failure: Failure,
        now: float,
        *,
        busy: bool = False,
        retry_after_s: float | None = None,
        crawl_delay_s: float | None = None,
    ) -> bool:
        """Give back a visit whose request has failed; whether that is final.

        If it isn't, the URL waits to be tried again. See Workbench.fail for the arguments.
        """
        if failure not in _PASSING:
            asked = failure not in _UNASKED
            self.bench.release(visit, now, requested=asked, crawl_delay_s=crawl_delay_s)
            return True
        again = self.bench.fail(
            visit, now, busy=busy, retry_after_s=retry_after_s, crawl_delay_s=crawl_delay_s
        )
        if again:
            self.retries += 1
            self._put_back(visit)
        return not again

    def _put_back(self, visit: Visit) -> None:
        del self._visiting[visit.found.key]
        self._open -= 1
        self._allowance += 1

    def stored(
        self, row: PageRow, links: Sequence[Link], found: Found, now: float
    ) -> Iterator[None]:
        """A visit has been released and its row stored: admit its links.

        In steps, for pages with very many links; to be gone through to the end.
        """
        page = self._page(found, links)
        if page is not None:
            for at in range(0, len(links), _STEP):
                if at:
                    yield
                self._admit(links[at : at + _STEP], page, now)
            if self.bench.order.wants_links:
                self._show_order(found, links)
        self.finish(found, response=row.status is not None)

    def finish(self, found: Found, *, response: bool) -> None:
        """A visit has been released, its row stored, its links admitted."""
        del self._visiting[found.key]
        self._open -= 1
        if self._abroad and found.key in self._abroad:
            self._abroad.remove(found.key)
            self.traffic.inter_part_pages += response
        if response:
            self.pages += 1
        else:
            self._allowance += 1

    def stop(self, now: float) -> None:
        """End the crawl early, on all ranks: fetches under way are finished, nothing new begins."""
        if not (self.stopping or self.ended):
            self.stopping = True
            for rank in range(self._ranks):
                if rank != self.rank:
                    self._outboxes.open(rank, now, self.pages, urgent=True).stop = True

    def abandon(self, *, in_order: bool) -> None:
        """Drop the visits that are open: the crawl stops, and their URLs are left for a resume.

        `in_order`: the links of every row that is stored have been admitted.
        """
        assert self.stopping
        self._broken_off |= not in_order
        self.abandoned += self._open
        self._open = 0

    @property
    def waiting(self) -> int:
        """URLs that this rank has still to fetch."""
        return self.bench.waiting + len(self._aside)

    @property
    def complete(self) -> bool:
        """Whether this rank has dealt with every URL it knows of."""
        waiting = self.waiting or self.abandoned
        return not (waiting or self._open or self._held or len(self._outboxes))

    # --- page quota ---------------------------------------------------------------------------

    @property
    def _starved(self) -> bool:
        """No quota, and rank 0 knows: only a message can change that."""
        return self._allowance < 1 and self._asked

    def _share_quota(self, now: float) -> None:
        for rank, pages in self._quota.grants():
            if rank == self.rank:
                self._allowance += pages
                self._asked = False
            else:
                self._outboxes.open(rank, now, self.pages, urgent=True).allow += pages

    def _return_quota(self, now: float) -> None:
        if self._open or self.waiting:
            return
        pages, self._allowance = int(self._allowance), 0
        if self.rank == 0:
            # It may stand in its own queue still, and must not be given this back at once.
            self._quota.withdraw(0)
            self._asked = False
            self._quota.give_back(pages)
            self._share_quota(now)
        else:
            self._outboxes.open(0, now, self.pages, urgent=True).returned += pages

    # --- the end ------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        return self._termination.ended

    def _report(self) -> None:
        """Join the open wave: this rank is passive."""
        traffic = self.traffic
        while report := self._termination.join(traffic.batches_sent, traffic.batches_received):
            if self.rank == 0:
                self._collect(0, report)  # may close the wave and open the next
            else:
                self._control.append((0, report))

    def _collect(self, sender: int, report: Report) -> None:
        sums = self._termination.collect(sender, report)
        if sums is not None:
            self._control += [(rank, sums) for rank in range(1, self._ranks)]
            self._termination.conclude(sums)


def redirect_failure(source: Found, target: int) -> Failure | None:
    """Why a redirect from `source` to the URL with the key `target` isn't followed, if so."""
    if target == source.key or target in source.chain:
        return Failure.REDIRECT_LOOP
    if len(source.chain) >= MAX_REDIRECTS:
        return Failure.TOO_MANY_REDIRECTS
    return None
