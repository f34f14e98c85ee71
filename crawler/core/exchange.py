"""Sends links to URLs that other ranks own to these ranks.

`Exchange` sends a URL straight to its owner, `TreeExchange` along the tree of seed servers.
"""

from collections.abc import Iterable, Mapping

from crawler import config
from crawler.core.foreign import CrossOver, Firewall, Foreign, Origin, key_of, pair_hash
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.core.seen import LateSeen, UrlSeen, known_at_once
from crawler.core.sent import SentMemory, keys_to_keep, make_memory
from crawler.core.trap_rules import TrapRules
from crawler.core.tree import Tree
from crawler.core.workbench import Workbench
from crawler.modes import mode_of
from crawler.ports import CrawlUrl, Link, names_of
from crawler.reading.cookies import Jar, Jars
from crawler.reading.declared import DeclaredSitemaps


class Exchange(Foreign):
    """Sends the URLs to their owners."""

    def __init__(
        self,
        exchange: config.Exchange,
        seen: UrlSeen,
        sent: UrlSeen,
        outboxes: Outboxes,
        declared: DeclaredSitemaps,
        *,
        counts: bool,
    ) -> None:
        """`seen`: URLs that this rank takes care of, as far as that is known at once.

        `sent`: an empty store, for all URLs that are sent or left to other ranks. `declared`:
        sitemaps whose owners are told which authorities declare them. `counts`: whether the owner
        of a URL wants to know of every link to it.
        """
        super().__init__()
        self._sent: SentMemory = make_memory(
            exchange, sent
        )  # also holds what other ranks will send
        self._seen = seen
        self._outboxes = outboxes
        self._declared = declared
        self._counts = counts
        self._told: set[tuple[int, str]] = set()  # keys of sitemaps, and who declares them

    def meet(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        """Put the URL into the outbox of its owner, unless it was sent before."""
        traffic = self.traffic_of(origin)
        traffic.inter_part_links += 1
        if origin.source is not None and owner not in origin.others:
            origin.others += (owner,)
            traffic.messages_page_part += 1
            traffic.site_part.add(pair_hash(origin.source.site, owner))
        key = link.key
        if not self._declared.empty:
            self.tell_names(owner, key, now)
        # A URL that leads back into its chain is requested again. So its owner is told, even if it
        # has the URL already. That doesn't count as a URL sent.
        returns = key in origin.chain
        if self._outboxes.count_again(owner, key):
            if returns:
                self._put(owner, link, origin, now)
            return
        unmet = origin.unmet
        if unmet is None:
            unmet = origin.unmet = self._sent.unmet(map(key_of, origin.links))
        new = key in unmet
        unmet.discard(key)
        if new:
            traffic.transmissions_target_part += 1
        if new or returns:
            self._put(owner, link, origin, now)
            traffic.count_urls(owner, int(new or self._counts))
        elif self._counts:
            self._count_again(owner, link, origin, now)
            traffic.count_urls(owner, 1)

    def _count_again(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        """Tell the owner of one more link to a URL that was sent before."""
        self._put(owner, link, origin, now)

    def _put(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        found = CrawlUrl(link.key, link.url, link.site, origin.hops, origin.chain)
        box = self._outboxes.add(owner, found, now)
        box.cookies.pop(link.key, None)
        if origin.jar.cookies:
            box.cookies[link.key] = origin.jar.terms()

    def note_earlier_links(self, fetched: Iterable[int], left: Iterable[int]) -> None:
        """Note the URLs as sent, so that they are not sent again."""
        # Fetched URLs of this rank are in `seen` already, so they would only waste memory here.
        fetched = list(fetched)
        unmet = self._seen.unmet(fetched)
        self._sent.update(key for key in fetched if key in unmet)
        self._sent.update(left)

    def tell_names(self, owner: int, key: int, now: float) -> None:
        """Tell the owner of a sitemap which authorities declare it, each authority once."""
        # The URL itself may have been sent before as a plain link.
        for authority in names_of(self._declared.authorities(key)):
            if (key, authority) not in self._told:
                self._told.add((key, authority))
                late = key in self._sent  # the owner may read the sitemap at any moment
                names = self._outboxes.open(owner, now, urgent=late).declared_by
                names.setdefault(key, []).append(authority)

    def keys_to_keep(self) -> Iterable[int] | None:
        """See sent.keys_to_keep."""
        return keys_to_keep(self._sent)


class TreeExchange(Exchange):
    """Sends the URLs along the tree of seed servers, towards the rank that takes care of them.

    The next rank on the way has the text of each URL that was sent to it once. So further links to
    the URL are sent as its key and their number alone.
    """

    def __init__(
        self,
        rank: int,
        tree: Tree,
        exchange: config.Exchange,
        seen: UrlSeen,
        sent: UrlSeen,
        outboxes: Outboxes,
        declared: DeclaredSitemaps,
        rules: TrapRules,
        *,
        counts: bool,
    ) -> None:
        """`counts`: whether owners want to know of every link. Servers that hand out URLs do.

        `rules`: a client asks those that depend on pages. Its server sees no pages.
        """
        super().__init__(exchange, seen, sent, outboxes, declared, counts=counts or tree.hands_out)
        self._rules = rules
        self._judges = tree.hands_out and rules.on
        self._rank = rank
        self._tree = tree
        self._owner = tree.above(rank)  # of the link that is met

    def meet(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        """Put the URL into the outbox of the next rank on the way to its owner."""
        key, source = link.key, origin.source
        is_new = self._judges and key not in self._sent and key not in origin.chain
        if is_new and source is not None and self._rules.grows(link, source):
            return
        self._owner = owner
        if not self._declared.empty:
            self.tell_names(owner, link.key, now)  # its owner; the ranks between don't need them
        super().meet(self._hop(owner), link, origin, now)

    def _hop(self, owner: int) -> int:
        return self._tree.next_hop(self._rank, owner)

    def pass_on(
        self, owner: int, found: CrawlUrl, links: int, jar: Jar, now: float, *, poor: bool
    ) -> None:
        """Pass a URL on that another rank has sent, with the number of links to it.

        `poor`: see `Batch`.
        """
        link = Link(found.key, found.url, found.site, 0)
        origin = Origin(None, found.hops, found.chain, jar)
        origin.links = (link,)
        self.meet(owner, link, origin, now)
        if poor:
            self._outboxes.open(self._hop(owner), now).poor.append(found.key)
        if links > 1 and self._tree.hands_out:
            self.count(owner, {found.key: links - 1}, now)
        elif links > 1 and self._counts:
            self._outboxes.count_again(self._hop(owner), found.key, links - 1)

    def send_on(
        self, owner: int, found: CrawlUrl, links: int, jar: Jar, now: float, *, poor: bool
    ) -> None:
        """Send a URL to the next holder of its site, even if it was sent that way before.

        `links`: the number of links to it. `poor`: see `Batch`.
        """
        self._sent.add(found.key)
        link = Link(found.key, found.url, found.site, 0)
        self._put(self._hop(owner), link, Origin(None, found.hops, found.chain, jar), now)
        if links > 1 and self._counts:
            self._outboxes.count_again(self._hop(owner), found.key, links - 1)
        if poor:
            self._outboxes.open(self._hop(owner), now).poor.append(found.key)

    def count(self, owner: int, links: Mapping[int, int], now: float) -> None:
        """Count links to URLs, by their keys, whose texts have been sent towards their owner."""
        known = self._outboxes.open(self._hop(owner), now).known.setdefault(owner, {})
        for key, number in links.items():
            known[key] = known.get(key, 0) + number

    def tell_names(self, owner: int, key: int, now: float) -> None:
        """See Exchange. The server of the owner tells all its clients (`pass_names`).

        Only this server knows which client has the sitemap by now.
        """
        server = self._tree.server_of(owner)
        super().tell_names(owner if server == self._rank else server, key, now)

    def pass_names(self, sender: int, declared_by: Mapping[int, list[str]], now: float) -> None:
        """Tell all clients which authorities declare sitemaps, if this rank assigns sites to them.

        Such a server doesn't know which of them has a sitemap, because only its key is given.
        """
        tree, rank = self._tree, self._rank
        if tree.hands_out or not tree.is_server(rank):
            return
        for client in tree.clients_of(rank):
            if client != sender:
                box = self._outboxes.open(client, now, urgent=True)
                for key, names in declared_by.items():
                    box.declared_by.setdefault(key, []).extend(names)

    def note_earlier_links(self, fetched: Iterable[int], left: Iterable[int]) -> None:
        """See Exchange. A server passes on what others send, so it may get what it has left."""
        super().note_earlier_links(fetched, () if self._tree.is_server(self._rank) else left)

    def note_text(self, key: int) -> None:
        """Note that the server has the text of a URL, because it has handed it out."""
        self._sent.add(key)

    def _put(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        super()._put(owner, link, origin, now)
        if self._judges and self._rules.poor:
            found = CrawlUrl(link.key, link.url, link.site, origin.hops)
            if self._rules.is_poor(found):
                self._outboxes.open(owner, now).poor.append(link.key)

    def _count_again(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        if self._tree.hands_out:
            self.count(self._owner, {link.key: 1}, now)
        else:
            super()._count_again(owner, link, origin, now)


def make_foreign(
    settings: config.Config,
    ownership: Ownership,
    seen: UrlSeen | LateSeen,
    sent: UrlSeen,
    rules: TrapRules,
    bench: Workbench,
    outboxes: Outboxes,
    declared: DeclaredSitemaps,
    jars: Jars,
) -> Foreign:
    """Make the object for the configured mode. See the classes for the arguments."""
    mode, rank, tree = mode_of(settings), ownership.rank, ownership.tree
    if mode.sends:
        known, exchange, counts = known_at_once(seen), settings.exchange, bench.backlog.counts
        if tree is not None:
            return TreeExchange(
                rank, tree, exchange, known, sent, outboxes, declared, rules, counts=counts
            )
        return Exchange(exchange, known, sent, outboxes, declared, counts=counts)
    if mode.drops:
        return Firewall()
    if mode.divides:
        return CrossOver(seen, rules.admits, bench, settings.fetch.concurrency, jars)
    return Foreign()
