"""The one door: every URL that a rank learns of passes here, wherever it comes from.

The door does one of four things with a URL. It passes the URL to the workbench, to be fetched. It
passes it to `foreign`, if another rank owns it. It holds it until the owner is known (`claims`). Or
it drops it, because the URL has been seen. If the store of URL-seen answers late, the door submits
the URL to the store first, and `verify` handles the answers.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from crawler import config, url
from crawler.core.claims import Claims
from crawler.core.clocks import SharedClocks
from crawler.core.exchange import TreeExchange, make_foreign
from crawler.core.foreign import Origin, key_of
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.core.seen import Candidate, LateSeen, UrlSeen, known_at_once
from crawler.core.trap_rules import TrapRules
from crawler.core.workbench import Workbench
from crawler.messages import Batch
from crawler.ports import (
    OUT_OF_SCOPE,
    REDIRECT,
    CrawlUrl,
    Fields,
    Link,
    errand,
    is_requisite,
    without_mark,
)
from crawler.reading.cookies import Jar, Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Sites
from crawler.reading.traps import TrapMonitor


class Door:
    """Admits URLs at one rank. For URLs of this rank, only the door asks the store of URL-seen.

    There are five ways in: `admit` for links, `introduce` for sitemaps, `require` for requisites,
    `receive` for batches of other ranks, and `run_errand` for a robots.txt to which another
    robots.txt redirects.
    """

    def __init__(
        self,
        settings: config.Config,
        ranks: int,
        ownership: Ownership,
        sites: Sites,
        seen: UrlSeen | LateSeen,
        sent: UrlSeen,
        bench: Workbench,
        traps: TrapMonitor,
        outboxes: Outboxes,
        clocks: SharedClocks | None,
        declared: DeclaredSitemaps,
        jars: Jars,
        rules: TrapRules,
    ) -> None:
        self.foreign = make_foreign(
            settings, ownership, seen, sent, rules, bench, outboxes, declared, jars
        )
        self.claims = Claims(ranks, ownership, outboxes, self.foreign.traffic)
        self.replicated: frozenset[int] = frozenset()  # keys that every rank knows
        self.late = seen if isinstance(seen, LateSeen) else None
        self.known = known_at_once(seen)  # URLs of this rank that have been met
        self._ownership = ownership
        self._sites = sites
        self._bench = bench
        self._backlog = bench.backlog
        self._traps = traps
        self._outboxes = outboxes
        self._clocks = clocks
        self._declared = declared
        self._jars = jars
        self._rules = rules
        self._max_hops = settings.scope.most_hops
        self._max_depth = settings.traps.max_depth or inf
        self._errands = 0  # so far
        # Is told the site and the key of each URL that this rank takes care of.
        self.note_met: Callable[[str, int], None] | None = None
        self.returning: set[int] = set()  # clients that have returned sites: they send URLs back

    @property
    def pending(self) -> int:
        """The number of URLs for which the store hasn't answered whether they are new."""
        return 0 if self.late is None else self.late.pending

    # --- where links were found ---------------------------------------------------------------

    def follows(self, hops: int) -> bool:
        """Whether the links of a page with so many hops are followed. Redirects always are."""
        return hops < self._max_hops and hops < self._max_depth

    def origin(self, source: CrawlUrl, links: Sequence[Link]) -> Origin | None:
        """The origin of the links of `source`, or None if it has too many hops to follow them."""
        jar = self._jars.take(source.key)
        if links and links[0].flags & REDIRECT:
            return Origin(source, source.hops, (*source.chain, source.key), jar)
        if source.hops >= self._max_hops:
            return None
        if source.hops >= self._max_depth and links and self._traps.too_deep(source.hops):
            return None
        return Origin(source, source.hops + 1)

    # --- ways in ------------------------------------------------------------------------------

    def admit(self, links: Sequence[Link], origin: Origin, now: float) -> None:
        """Admit links that were found at `origin`. A seen link costs a few look-ups and no call."""
        rank, late, replicated = self._ownership.rank, self.late, self.replicated
        unmet = self.known.unmet(map(key_of, links))
        origin.links, origin.unmet = links, None
        owners, counts = self._ownership.rank_of_site, self._backlog.counts
        elsewhere, new_tuple, chain = self.foreign.meet, tuple.__new__, origin.chain
        site = known = None
        for link in links:
            # A named tuple is slow to unpack, so the fields are read by index, as far as needed.
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
                owner = self._ownership.owner(link)
                if owner is None:
                    owner = self.claims.claim(link, origin, self._backlog.enqueued, now)
                    if owner is None:
                        continue
            if owner != rank:
                elsewhere(owner, link, origin, now)
            elif key in unmet:
                # The same as CrawlUrl(...), in half the time.
                found = new_tuple(CrawlUrl, (key, link[1], site, origin.hops, chain))
                if late is not None:
                    late.submit(Candidate(found, origin.source, origin.jar), now)
                    continue
                unmet.discard(key)
                if chain:
                    self._jars.put(key, origin.jar)
                self.take_in(found, origin.source)
            elif chain and key in chain:
                self._ask_again(CrawlUrl(key, link[1], link[2], origin.hops, chain), origin.jar)
            elif counts:
                self._backlog.count_links(key)
        origin.links, origin.unmet = (), None  # a held link keeps its origin

    def introduce(self, links: Sequence[Link], now: float) -> None:
        """Admit the sitemaps of a site, to which no page links. They have 0 hops, as seeds do."""
        for link in links:  # also for sitemaps that are not sent, because every rank knows them
            owner = self._ownership.owner(link)
            if (
                owner is not None
                and owner != self._ownership.rank
                and not link.flags & OUT_OF_SCOPE
            ):
                self.foreign.tell_names(owner, link.key, now)
        self.admit(links, Origin(None, 0), now)

    def require(
        self, requisites: Sequence[Link], hops: int, now: float, *, replayed: bool = False
    ) -> None:
        """Admit the requisites of a page, or of a requisite, with so many hops.

        A requisite that this rank already knows as a page is left out, because its page is fetched.
        `replayed`: found in an earlier run.
        """
        pages = [url.own_key(without_mark(link.url)) for link in requisites]
        unmet = self.known.unmet(pages)
        new = [link for link, page in zip(requisites, pages, strict=True) if page in unmet]
        self.admit(new, Origin(None, hops, replayed=replayed, requisites=True), now)

    def receive(
        self, sender: int, batch: Batch, now: float, indexes: Sequence[int] | None = None
    ) -> None:
        """Admit the URLs of another rank's batch, and handle its claims and answers to claims.

        `indexes`: of these URLs; None: of all.
        """
        self.claims.hear(sender, batch.load)
        for site in batch.claims:
            part = self.claims.grant(site, sender, self._backlog.enqueued)
            self._outboxes.open(sender, now).grants[site] = part
        for site, part in batch.grants.items():
            self._learn(site, part, now)
        for key, names in batch.declared_by.items():
            self._declared.declare(key, tuple(names))
        if batch.declared_by and isinstance(self.foreign, TreeExchange):
            self.foreign.pass_names(sender, batch.declared_by, now)
        owners, late = self._ownership.rank_of_site, self.late
        if indexes is None:
            indexes = range(len(batch.urls))
        packed = memoryview(batch.keys).cast("Q")
        keys = {i: packed[i] if packed else url.own_key(batch.urls[i]) for i in indexes}
        unmet = self.known.unmet(keys.values())
        for index, key in keys.items():
            address, links = batch.urls[index], batch.counts[index]
            chain = batch.chains.get(index, ())
            if self._ownership.tree is not None and self._pass_on(sender, batch, index, key, now):
                continue
            if key not in unmet and key not in chain:
                if self._backlog.counts:
                    self._backlog.count_links(key, links)
                continue
            if is_requisite(address) and not self.known.unmet([url.own_key(without_mark(address))]):
                continue  # its page is fetched
            site = self._sites.of(address)
            found = CrawlUrl(key, address, site, batch.hops[index], chain)
            jar = Jar.of(batch.cookies.get(key, ()))
            if key not in unmet:
                self._ask_again(found, jar)
                continue
            if late is None:
                unmet.discard(key)
                self._jars.put(key, jar)
            else:
                late.submit(Candidate(found, None, jar, links), now)
            if site not in owners and self._ownership.part(found) is None:
                # The sender has learned that this rank owns the site before this rank has.
                self._learn(site, self._ownership.home, now)
                unmet = self.known.unmet(keys.values())  # without URLs held for the site
            if late is None:
                self.take_in(found, None, links, poor=key in batch.poor)

    def _pass_on(self, sender: int, batch: Batch, index: int, key: int, now: float) -> bool:
        """Pass a URL of a batch on, if another rank takes care of it; whether that is so."""
        ownership, tree = self._ownership, self._ownership.tree
        assert tree is not None
        if tree.hands_out and tree.leaves == [ownership.rank]:
            return False  # there is no other server that owns URLs
        is_client = not tree.is_server(ownership.rank)
        if is_client and tree.hands_out:
            return False
        address, chain = batch.urls[index], batch.chains.get(index, ())
        found = CrawlUrl(key, address, self._sites.of(address), batch.hops[index], chain)
        if is_client and ownership.unit(found.site) not in ownership.learned:
            ownership.move(found.site, ownership.rank)  # the server has assigned it
        owner = ownership.owner(found)
        if owner is None or owner == ownership.rank:
            return False
        assert isinstance(self.foreign, TreeExchange)
        jar = Jar.of(batch.cookies.get(key, ()))
        poor, links = key in batch.poor, batch.counts[index]
        if is_client or sender in self.returning:
            self.foreign.send_on(owner, found, links, jar, now, poor=poor)
        else:
            self.foreign.pass_on(owner, found, links, jar, now, poor=poor)
        return True

    def run_errand(self, address: str, now: float) -> None:
        """Fetch a robots.txt to which the robots.txt of another site redirects.

        This rank visits it as an errand (`ports.errand`), as soon as the clock of its site allows
        that. If another rank has the clock, this rank borrows the clock.
        """
        self._run_errand(Link(url.own_key(address), address, self._sites.of(address), 0), now)

    def _run_errand(self, link: Link, now: float) -> None:
        owner = self._ownership.owner(link)
        if owner is None:
            owner = self.claims.claim(link, None, self._backlog.enqueued, now)
            if owner is None:
                return
        if owner != self._ownership.rank and self._clocks is not None:
            self._clocks.borrow(link.site, owner)
        self._errands += 1
        name = errand(link.url, self._errands)
        self._bench.enqueue_errand(CrawlUrl(url.own_key(name), name, link.site, 0))

    def _learn(self, site: str, part: int, now: float) -> None:
        """Note the owner of an unlisted site, and admit the links held for the site."""
        for link, origin in self.claims.learn(site, part):
            if origin is None:
                self._run_errand(link, now)
            else:
                self.admit([link], origin, now)

    def show_order(self, source: CrawlUrl, targets: Iterable[int]) -> None:
        """Let the order of the frontier see the links of a page. See `Backlog.note_page`.

        `targets`: the keys of all links of the page that are followed. The replicated ones among
        them count for nothing. A link that is pending at the store of URL-seen brings its URL the
        mean of all links (OPIC).
        """
        if not self._backlog.order.wants_links:
            return
        replicated = self.replicated
        self._backlog.note_page(source, [key for key in targets if key not in replicated])

    # --- whether a URL is new -----------------------------------------------------------------

    def verify(self, now: float, *, hurry: bool) -> None:
        """Handle the answers of a store that answers late. See LateSeen.take_answers."""
        if self.late is None:
            return
        for candidate, is_new in self.late.take_answers(now, hurry=hurry):
            found = candidate.found
            if candidate.is_foreign:
                if is_new:
                    self.foreign.set_aside(found, candidate.source, candidate.jar)
            elif is_new:
                self._jars.put(found.key, candidate.jar)
                self.take_in(found, candidate.source, candidate.links)
            elif found.key in found.chain:
                self._ask_again(found, candidate.jar)
            elif self._backlog.counts:
                self._backlog.count_links(found.key, candidate.links)

    def _ask_again(self, found: CrawlUrl, jar: Jar) -> None:
        """Take in a fetched URL of this rank again, because a redirect leads back to it."""
        self._jars.put(found.key, jar)
        self._bench.enqueue(found)

    def take_in(
        self, found: CrawlUrl, source: CrawlUrl | None, links: int = 1, *, poor: bool = False
    ) -> None:
        """Take in a new URL of this rank, if the rules on traps let it in.

        `poor`: it comes last, because the rank that has found it says so.
        """
        if self.note_met is not None:
            self.note_met(found.site, found.key)
        if self._rules.on:
            if not self.lets_in(found, source):
                return
            poor = poor or self.is_poor(found)
        self._bench.enqueue(found, links, poor)

    def lets_in(self, found: CrawlUrl, source: CrawlUrl | None) -> bool:
        """Whether the rules on traps let in a new URL of this rank. If not, it has been met."""
        if self._rules.admits(found, source):
            return True
        if self.late is None:
            self.known.update((found.key,))  # a seed server notes only what waits by `add`
        return False

    def is_poor(self, found: CrawlUrl) -> bool:
        """Whether the rules on traps let a new URL of this rank come last."""
        return bool(self._rules.poor) and not found.is_requisite and self._rules.is_poor(found)
