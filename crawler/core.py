"""The core: the part of an agent that decides. Events in, actions out; no socket, no clock, no MPI.

Two shells drive it, the agent (`crawler.pipeline`) and the simulator (`crawler.simulate`), and
neither decides anything about URLs by itself:

* `start`, `discovered`, `received` bring URLs to the one door, `_admit`: there each is taken in to
  be fetched, sent to its owner, held until its owner is known, or dropped as seen;
* `acquire` hands out a visit; `finish` ends it, and so does whatever puts its URL back: `retry`,
  `fail` and `locate`;
* `tick` gives the messages that must leave now, and notices when this rank is passive.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from crawler import config, url
from crawler.exchange import Batch, Message, Note, Outboxes, Quota, Report, Termination
from crawler.ownership import Ownership, Registrar
from crawler.ports import OUT_OF_SCOPE, REDIRECT, Failure, Found, Link, PageRow
from crawler.scope import Sites
from crawler.seen import UrlSeen, sent_memory
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
        Failure.ROBOTS_DENIED,
        Failure.SITE_GIVEN_UP,
        Failure.SITE_FULL,
    )
)


@dataclass(slots=True)
class Traffic:
    """What this rank has sent, by the words of DESIGN: the models' messages aren't MPI's."""

    inter_part_links: int = 0  # links found whose page belongs to another rank
    inter_part_urls: int = 0  # URLs sent
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
    others: set[int] = field(default_factory=set)  # the ranks that own some of them


class Core:
    """The decisions of one rank. `ended` becomes true on all ranks by the same wave."""

    def __init__(
        self,
        settings: config.Config,
        ranks: int,
        ownership: Ownership,
        sites: Sites,
        seen: UrlSeen,
    ) -> None:
        self.rank = ownership.rank
        self.ownership = ownership
        self.bench = Workbench(settings.politeness, settings.retry)
        self.watch = Watch(settings.traps)
        self.traffic = Traffic()
        self.pages = 0  # responses
        self.retries = 0  # URLs put back after a failure
        self.stopping = False  # a limit or a signal ends the crawl early
        self._ranks = ranks
        self._max_hops = settings.scope.max_hops or inf
        self._sites = sites
        self._seen = seen
        self._sent = sent_memory(settings.exchange, seen)
        self._replicated: frozenset[int] = frozenset()  # keys that every rank knows
        self._outboxes = Outboxes(ranks, settings.exchange)
        self._registrar = Registrar(ranks)
        self._held: defaultdict[str, list[tuple[Link, _Page]]] = defaultdict(list)
        self._open = 0  # visits acquired whose links haven't been admitted
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
        """
        nowhere = _Page(None, 0)
        popular = [link for link in replicated if not link.flags & OUT_OF_SCOPE]
        for seed in (*seeds, *popular):
            if not seed.flags & OUT_OF_SCOPE and self.ownership.starts(seed):
                self._admit(seed, nowhere, now)
        self._replicated = frozenset(link.key for link in popular)

    def introduced(self, links: Iterable[Link], now: float) -> None:
        """Admit what no page links to: the sitemaps of a site. They begin here, as seeds do."""
        nowhere = _Page(None, 0)
        for link in links:
            if not link.flags & OUT_OF_SCOPE:
                self._admit(link, nowhere, now)

    def discovered(self, source: Found, links: Sequence[Link], now: float) -> None:
        """Admit the out-links of a fetched page, or the target of a redirect (then the only link).

        A redirect is no hop. Its chain is that of its source with the source added.
        """
        for _ in self._discovered(source, links, now):
            pass

    def _discovered(self, source: Found, links: Sequence[Link], now: float) -> Iterator[None]:
        if links and links[0].flags & REDIRECT:
            page = _Page(source, source.hops, (*source.chain, source.key))
        elif source.hops >= self._max_hops or (links and self.watch.too_deep(source.hops)):
            return
        else:
            page = _Page(source, source.hops + 1)
        for number, link in enumerate(links, start=1):
            if not link.flags & OUT_OF_SCOPE:
                self._admit(link, page, now)
            if number % _STEP == 0:
                yield

    def received(self, sender: int, message: Message, now: float) -> None:
        """Take a message of another rank. Notes aren't the core's."""
        assert not isinstance(message, Note)
        if isinstance(message, Batch):
            self.traffic.batches_received += 1
            self._open_batch(sender, message, now)
        elif isinstance(message, Report):
            self._collect(sender, message)
        else:
            self._termination.conclude(message)

    def _admit(self, link: Link, page: _Page, now: float) -> None:
        """The door."""
        if link.key in self._replicated:
            return
        owner = self.ownership.owner(link)
        if owner is None:
            owner = self._claim(link, page, now)
            if owner is None:
                return
        if owner == self.rank:
            if self._seen.add(link.key):
                found = Found(link.key, link.url, link.site, page.hops, page.chain)
                self._take(found, page.source)
        else:
            self._send(owner, link, page, now)

    def _take(self, found: Found, source: Found | None) -> None:
        if self.watch.admit(found, source):
            self.bench.enqueue(found)

    def _send(self, owner: int, link: Link, page: _Page, now: float) -> None:
        traffic = self.traffic
        traffic.inter_part_links += 1
        if page.source is not None and owner not in page.others:
            page.others.add(owner)
            traffic.messages_page_part += 1
            traffic.site_part.add((page.source.site, owner))
        if self._outboxes.count_again(owner, link.key):
            return
        if self._sent.add(link.key):
            found = Found(link.key, link.url, link.site, page.hops, page.chain)
            self._outboxes.open(owner, now, self.pages).add(found)
            traffic.inter_part_urls += 1

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
            self._admit(link, page, now)

    # --- batches ------------------------------------------------------------------------------

    def _open_batch(self, sender: int, batch: Batch, now: float) -> None:
        loads = self._registrar.loads
        loads[sender] = max(loads[sender], batch.load)  # batches may overtake each other
        for site in batch.claims:
            part = self._grant(site, sender)
            self._outboxes.open(sender, now, self.pages).grants[site] = part
        for site, part in batch.grants.items():
            self._learn(site, part, now)
        for index, address in enumerate(batch.urls):
            key = url.key(address)
            if not self._seen.add(key):
                continue
            site, chain = self._sites.of(address), batch.chains.get(index, ())
            found = Found(key, address, site, batch.hops[index], chain)
            if self.ownership.part(found) is None:
                # The sender knows that we own this site before the registrar's word reached us.
                self._learn(site, self.ownership.home, now)
            self._take(found, None)
        if batch.stop:
            self.stopping = True
        if batch.ask:
            self._quota.ask(sender)
        self._quota.give_back(batch.returned)
        self._allowance += batch.allow
        if batch.allow:
            self._asked = False
        self._share_quota(now)

    def tick(self, now: float) -> list[tuple[int, Message]]:
        """The messages that must leave now, each with its destination."""
        self._return_quota(now)
        dry = not self._open and (not self.bench.waiting or self.stopping or self._starved)
        batches: list[tuple[int, Message]] = [
            (rank, outbox.batch(self.bench.enqueued))
            for rank, outbox in self._outboxes.due(now, self.pages, everything=dry)
        ]
        self.traffic.batches_sent += len(batches)
        if dry and (not self._held or self.stopping):
            self._report()
        control, self._control = self._control, []
        return batches + control

    def next_time(self) -> float | None:
        """When `tick` will have something to do, unless something happens before."""
        return self._outboxes.next_time()

    # --- visits -------------------------------------------------------------------------------

    def acquire(self, now: float) -> Visit | None:
        """A visit that may begin now, within the page quota."""
        if self.stopping:
            return None
        if self._allowance < 1:
            if self.bench.waiting and not self._asked:
                self._asked = True
                if self.rank == 0:
                    self._quota.ask(0)
                    self._share_quota(now)
                else:
                    self._outboxes.open(0, now, self.pages).ask = True
            if self._allowance < 1:
                return None
        visit = self.bench.acquire(now)
        if visit is not None:
            self._open += 1
            self._allowance -= 1
        return visit

    def refusal(self, visit: Visit) -> Failure | None:
        """Why the site isn't to be asked for this URL after all, if so."""
        if self.bench.has_given_up(visit.failures):
            return Failure.SITE_GIVEN_UP
        if self.watch.is_full(visit.found.site):
            return Failure.SITE_FULL
        return None

    def locate(self, visit: Visit, address: str, now: float) -> bool:
        """Whether a visit may go to the address of its host; else it has been given back."""
        free = self.bench.locate(visit, address, now)
        if not free:
            self._put_back()
        return free

    def retry(self, visit: Visit, now: float, *, crawl_delay_s: float | None = None) -> None:
        """Give back a visit that asked its site for something else: its URL is still to be had."""
        self.bench.put_back(visit, now, crawl_delay_s=crawl_delay_s)
        self._put_back()

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
            self._put_back()
        return not again

    def _put_back(self) -> None:
        self._open -= 1
        self._allowance += 1

    def stored(
        self, row: PageRow, links: Sequence[Link], found: Found, now: float
    ) -> Iterator[None]:
        """A visit has been released and its row stored: admit its links, unless it is a trap's.

        In steps, for pages with very many links; to be gone through to the end.
        """
        if self.watch.stored(row):
            yield from self._discovered(found, links, now)
        self.finish(response=row.status is not None)

    def finish(self, *, response: bool) -> None:
        """A visit has been released, its row stored, its links admitted."""
        self._open -= 1
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
                    self._outboxes.open(rank, now, self.pages).stop = True

    @property
    def complete(self) -> bool:
        """Whether this rank has dealt with every URL it knows of."""
        return not (self.bench.waiting or self._open or self._held or len(self._outboxes))

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
                self._outboxes.open(rank, now, self.pages).allow += pages

    def _return_quota(self, now: float) -> None:
        if self._open or self.bench.waiting or not 1 <= self._allowance < inf:
            return
        pages, self._allowance = int(self._allowance), 0
        if self.rank == 0:
            # It may stand in its own queue still, and must not be given this back at once.
            self._quota.withdraw(0)
            self._asked = False
            self._quota.give_back(pages)
            self._share_quota(now)
        else:
            self._outboxes.open(0, now, self.pages).returned += pages

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
