"""What a rank does with links to URLs that other ranks own. Each mode has a class for that.

`Firewall` drops the links. `CrossOver` sets the URLs aside, and fetches them, oldest first, while
this rank has no URLs of its own to fetch. In independent mode there are no such links. The classes
that send URLs are in `exchange`. See `modes`.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

from xxhash import xxh3_64_intdigest

from crawler.core.aside import Aside
from crawler.core.seen import Candidate, LateSeen, Unmet, UrlSeen, known_at_once
from crawler.core.workbench import Workbench
from crawler.ports import CrawlUrl, Link
from crawler.reading.cookies import NO_COOKIES, Jar, Jars

_PAIR_BYTES: Final = 75  # of a hash in `Traffic.site_part`
Waiting = tuple[CrawlUrl, float]  # with its score
key_of: Callable[[Link], int] = itemgetter(0)  # of a link


class Traffic:
    """What this rank has sent (docs/measures.md). These messages are the models', not MPI's."""

    def __init__(self) -> None:
        self.inter_part_links = 0  # links found that lead to URLs of other ranks
        self.dropped_links = 0  # such links that a firewall dropped
        self.inter_part_pages = 0  # pages of other ranks that this rank has crossed over to
        self.transmissions_target_part = 0  # URLs sent that the memory of sent URLs didn't hold
        self.messages_page_part = 0  # (page, other rank) pairs with a link
        # Hashes of the pairs (source site, other rank), in 70 bytes each. Names would take twice
        # that.
        self.site_part: set[int] = set()
        self.claims = 0
        self.urls_up = 0  # URLs sent to the server above, with or without their texts
        self.urls_down = 0  # URLs sent to ranks below
        self.batches_sent = 0
        self.batches_received = 0
        self.urls_to: dict[int, int] = {}  # URLs sent, by receiving rank

    @property
    def inter_part_urls(self) -> int:
        """How many URLs this rank has sent to others."""
        return sum(self.urls_to.values())

    def count_urls(self, to: int, urls: int) -> None:
        """Count URLs sent to a rank."""
        self.urls_to[to] = self.urls_to.get(to, 0) + urls


def pair_hash(site: str, rank: int) -> int:
    """A hash of a pair (source site, other rank)."""
    return xxh3_64_intdigest(site.encode(), rank)


class Origin:
    """Where links were found."""

    __slots__ = (
        "chain",
        "hops",
        "jar",
        "links",
        "others",
        "replayed",
        "requisites",
        "source",
        "unmet",
    )

    # Written by hand, because mypyc doesn't compile the methods that `dataclass` makes, and an
    # origin is made for each page.
    def __init__(
        self,
        source: CrawlUrl | None,
        hops: int,
        chain: tuple[int, ...] = (),
        jar: Jar = NO_COOKIES,
        *,
        replayed: bool = False,
        requisites: bool = False,
    ) -> None:
        self.source = source  # the page with the links; None for seeds and requisites
        self.hops = hops  # the hops of the links
        self.chain = chain  # the chain of the links; a URL in the chain is requested again
        self.jar = jar  # the cookies of the chain
        self.others: tuple[int, ...] = ()  # the other ranks that own some of the links
        self.replayed = replayed  # found in an earlier run, which has counted them
        self.requisites = requisites  # the links are requisites, which are counted apart
        self.links: Sequence[Link] = ()  # those that are being admitted
        self.unmet: Unmet | None = None  # links that `foreign` doesn't know, once it has looked


class Foreign:
    """What a rank does with links to URLs of other ranks, in independent mode: there are none.

    The other modes have derived classes. Only `CrossOver` fills `deferred` and `crossing`.
    """

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.deferred = Aside()  # URLs to be taken up, oldest first
        self.crossing: set[int] = set()  # keys of URLs that were taken up and aren't done
        self.of_requisites = Traffic()  # no links, so they are counted apart
        self._recounted = Traffic()  # what earlier runs have counted

    def nbytes(self) -> int:
        """About how many bytes of memory the counted pairs take."""
        return _PAIR_BYTES * (len(self.traffic.site_part) + len(self._recounted.site_part))

    def traffic_of(self, origin: Origin) -> Traffic:
        """Where links from this origin are counted."""
        if origin.replayed:
            return self._recounted
        return self.of_requisites if origin.requisites else self.traffic

    def meet(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        """Take a link to a URL that the rank `owner` owns. This is called for each such link."""
        raise AssertionError(f"{link.url} belongs to rank {owner}, and no rank knows of others")

    def set_aside(self, found: CrawlUrl, source: CrawlUrl | None, jar: Jar) -> None:
        """Take a URL of another rank that was submitted by `meet` and is new. See CrossOver."""
        raise AssertionError(f"{found.url} was never submitted")

    def note_earlier_links(self, fetched: Iterable[int], left: Iterable[int]) -> None:
        """Note links that earlier runs of the session found, by the keys of their URLs.

        `fetched`: URLs that were fetched. `left`: URLs that other ranks take care of.
        """

    def tell_names(self, owner: int, key: int, now: float) -> None:
        """Tell the owner of a sitemap which authorities declare it, each authority once."""

    def cross_over(self, visiting: int, now: float) -> None:
        """Enqueue URLs set aside until one can be fetched now. See CrossOver."""

    def keys_to_keep(self) -> Iterable[int] | None:
        """The keys of sent URLs that a snapshot must hold, or None if a snapshot can't do that."""
        return ()

    def split(self, waiting: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
        """Separate this rank's own URLs that wait at the end of a run from those of other ranks."""
        return waiting, []


class Firewall(Foreign):
    """Drops the links."""

    def meet(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        """Count the link, and drop it."""
        traffic = self.traffic_of(origin)
        traffic.inter_part_links += 1
        traffic.dropped_links += 1


class CrossOver(Foreign):
    """Sets the URLs aside, to fetch them after this rank's own."""

    def __init__(
        self,
        seen: UrlSeen | LateSeen,
        lets_in: Callable[[CrawlUrl, CrawlUrl | None], bool],
        bench: Workbench,
        most_crossing: int,
        jars: Jars,
    ) -> None:
        """`lets_in` says whether the rules on traps let a URL in, given the page with the link.

        `most_crossing`: URLs in the workbench at a time. `jars` get the cookies of URLs that are
        set aside.
        """
        super().__init__()
        self.deferred = Aside(bench.backlog.disk)
        self._seen = seen
        self._late = seen if isinstance(seen, LateSeen) else None
        self._known = known_at_once(seen)
        self._lets_in = lets_in
        self._bench = bench
        self._most_crossing = most_crossing
        self._jars = jars

    def meet(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        """Set the URL aside, if it is new and the rules on traps let it in."""
        traffic = self.traffic_of(origin)
        traffic.inter_part_links += 1
        key = link.key
        again = key in origin.chain  # the URL was fetched, so the rules on traps have let it in
        unmet = origin.unmet
        if unmet is None:
            unmet = origin.unmet = self._known.unmet(map(key_of, origin.links))
        if not again and key not in unmet:
            return
        found = CrawlUrl(key, link.url, link.site, origin.hops, origin.chain)
        if again:
            self._put(found, origin.jar)
        elif self._late is None:
            unmet.discard(key)
            self.set_aside(found, origin.source, origin.jar)
        else:
            candidate = Candidate(found, origin.source, origin.jar, is_foreign=True)
            self._late.submit(candidate, now)

    def set_aside(self, found: CrawlUrl, source: CrawlUrl | None, jar: Jar) -> None:
        """Set a new URL aside, if the rules on traps let it in."""
        if self._lets_in(found, source):
            self._put(found, jar)

    def _put(self, found: CrawlUrl, jar: Jar) -> None:
        self._jars.put(found.key, jar)
        self.deferred.append(found)

    def note_earlier_links(self, fetched: Iterable[int], left: Iterable[int]) -> None:
        """Note the fetched URLs as seen, whichever rank has fetched them."""
        self._seen.update(fetched)

    def cross_over(self, visiting: int, now: float) -> None:
        """Cross over: enqueue URLs set aside until one can be fetched now.

        This is done only while no URL of this rank's own waits or is being fetched. `visiting`: the
        number of visits under way. Few URLs are taken up at a time, because each of their pages may
        lead to URLs of this rank's own.
        """
        bench, backlog, crossing = self._bench, self._bench.backlog, self.crossing
        while (
            self.deferred.size and backlog.waiting + visiting == len(crossing) < self._most_crossing
        ):
            due = bench.next_time()
            if due is not None and due <= now:
                return
            found = self.deferred.popleft()
            crossing.add(found.key)
            bench.enqueue(found)

    def split(self, waiting: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
        """See Foreign."""
        own = [one for one in waiting if one[0].key not in self.crossing]
        deferred = [one for one in waiting if one[0].key in self.crossing]
        return own, deferred
