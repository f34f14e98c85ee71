"""Rules on traps. They keep out endless URLs, by their shape or by what a site has sent before.

Each rule is a key of the table [traps], and what it keeps out is counted under that name. `shapes`
judges a URL alone. `TrapMonitor` belongs to the owner of a site, and remembers what the site has
sent. A URL that a rule refuses is never fetched; a page that was fetched is always stored.
`branches` refuses nothing: it finds URLs that should be fetched last.
"""

import re
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final

from crawler import config
from crawler.compact import Numbers
from crawler.ports import REDIRECT, REQUISITE, CrawlUrl, Fetched, Link, PageRow, walked
from crawler.reading.branches import Branches, hash_of, resembles, sketch_of
from crawler.reading.hosts import Hosts

_SESSION_ID = re.compile(
    r"(?<=[?&;])(?:(?=\w*?sess)\w++=[^&;/]{6,}|(?:sid|oscsid|zenid)=[\w-]{16,}|cf(?:id|token)=[\w-]{6,})"
    r"|(?<=/)\([a-z]\([0-9a-z]{16,}\)\)(?=/)",  # ASP.NET without cookies
    re.IGNORECASE,
)
_ESCAPED_AGAIN = re.compile(r"%((?:25)+)")  # %2F, %252F, %25252F, ...
_WATCHED_URLS = 100_000
_COUNT_BYTES: Final = 100
_FEW_REDIRECTS: Final = 5  # in a row


class TrapMonitor:
    """Judges URLs by what a rank remembers of the sites that it owns.

    `fired` counts what each rule kept out. With `assignment.scheme = "url-hash"` a site has several
    owners, and each knows only its own URLs. Counts are kept under 64-bit hashes. They take about
    200 bytes for each site, and 27 bytes for each path with queries, each URL with a session id and
    each payload that a site has sent several times.
    """

    def __init__(self, traps: config.Traps, overrides: config.Overrides | None = None) -> None:
        """`overrides`: other limits of some sites."""
        self.fired: Counter[str] = Counter()
        self._traps = traps
        self._overrides = overrides or config.Overrides()
        self._counts_urls = traps.max_urls_per_site > 0 or self._overrides.limit_urls
        self._counts_bytes = traps.max_bytes_per_site > 0 or self._overrides.limit_bytes
        # Whether any rule is on.
        self.rules = any(limit for _, limit in traps) or self._counts_urls or self._counts_bytes
        self._urls: Counter[int] = Counter()  # by site
        self._bytes: Counter[int] = Counter()  # by site
        self._queries = Numbers()  # by path
        self._session_ids = Numbers()  # by the URL without its session id
        self._same = Numbers()  # by site and digest
        self._long_redirects: Counter[int] = Counter()  # by site; a resume starts at 0
        self._growths: OrderedDict[int, int] = OrderedDict()  # by key, of the latest grown URLs
        self._branches = Branches(traps.max_near_duplicates)
        self.hosts = Hosts(traps)
        self._has_host_rules = bool(self.hosts)
        self.poor = self._branches.poor  # if empty, `is_poor` is False for every URL

    def nbytes(self) -> int:
        """About how many bytes of memory the counts and the branches take."""
        large = self._urls, self._bytes, self._growths, self._long_redirects
        small = self._queries, self._session_ids, self._same
        counts = sum(table.nbytes() for table in small) + _COUNT_BYTES * sum(map(len, large))
        return counts + self.hosts.nbytes() + self._branches.nbytes()

    def admit(self, found: CrawlUrl, source: CrawlUrl | None) -> bool:
        """Whether a new URL may be fetched. `source`: the page with the link, if known."""
        rule = self._rule(found, source)
        if rule is not None:
            self.fired[rule] += 1
        return rule is None

    def grows(self, found: Link, source: CrawlUrl) -> bool:
        """Whether a link must not leave this rank, because its URL has grown too often in a row.

        Only the rank that has read the page can judge that. See `_grows`.
        """
        if not (self._traps.max_growth and self._grows(found, source)):
            return False
        self.fired["max_growth"] += 1
        return True

    def too_deep(self, hops: int) -> bool:
        """Whether a page is too many links from a seed for its own links to be followed."""
        if 0 < self._traps.max_depth <= hops:
            self.fired["max_depth"] += 1
            return True
        return False

    def stored(self, row: PageRow) -> bool:
        """Note a fetch. Returns whether the links of the page are followed."""
        if self._counts_bytes and row.bytes:
            self._bytes[hash_of(row.site)] += row.bytes
        if row.role == REQUISITE:  # it has no links
            return True
        if self._has_host_rules:
            self.hosts.note(row)
        if not (self._traps.max_same_content and row.duplicate and row.digest):
            return True
        same = hash_of(f"{row.site} {row.digest}")
        self._same[same] += 1  # counts duplicates; the first page is none
        if self._same[same] < self._traps.max_same_content:
            return True
        self.fired["max_same_content"] += 1
        return False

    def compare(self, fetched: Fetched) -> None:
        """Compare the text of a page with others of its branch, and with pages of other hosts.

        The branch is compared only if the page has links, other hosts only if there are several.
        """
        response = fetched.response
        if response is None or not response.has_page or fetched.found.is_requisite:
            return
        if fetched.links:
            self._branches.add(fetched.found.url, response.body)
        url, address = fetched.found.url, response.address
        if self._has_host_rules and self.hosts.wants_sketch(url, address):
            sketch = sketch_of(response.body)
            others = self.hosts.resembled(url, address)
            fetched.alike = any(resembles(sketch, other) for other in others)
            if not fetched.alike:
                self.hosts.keep_sketch(url, address, sketch)

    def welcome(self, url: str) -> None:
        """Note a seed, so that no rule keeps its host out."""
        if self._has_host_rules:
            self.hosts.welcome(url)

    def is_crowded(self, found: CrawlUrl, address: str | None = None) -> bool:
        """Whether a URL must not be fetched, because its domain or address is closed.

        `address`: that of the host; None to judge by the domain alone.
        """
        if not (self._has_host_rules and self.hosts.refuses(found.url, address)):
            return False
        self.fired["max_barren_hosts"] += 1
        return True

    def gets_lost(self, fetched: Fetched) -> bool:
        """Note a step in a chain of redirects. Returns whether the chain must end here.

        The chain ends if too many redirects of long chains at the site have led nowhere.
        """
        most = self._traps.max_long_redirects
        excess = len(walked(fetched.found.chain)) - _FEW_REDIRECTS
        if not most or excess < 0:
            return False
        site = hash_of(fetched.found.site)
        if not (fetched.followed and fetched.followed[0].flags & REDIRECT):
            if fetched.failure is None and self._long_redirects[site]:
                self._long_redirects[site] = max(0, self._long_redirects[site] - excess)
            return False
        if self._long_redirects[site] < most:
            self._long_redirects[site] += 1
            return False
        self.fired["max_long_redirects"] += 1
        return True

    def is_poor(self, found: CrawlUrl) -> bool:
        """Whether an admitted URL should be fetched only when no other URL of its site waits."""
        if not self._branches.is_poor(found.url):
            return False
        self.fired["max_near_duplicates"] += 1
        return True

    def replay(self, row: PageRow, *, admitted: bool = False) -> None:
        """Note a page that an earlier run admitted and stored. `admitted`: its URL is counted."""
        if not admitted:
            self._rule(row, None)
        self.stored(row)

    def keeps_out(self, found: CrawlUrl, source: CrawlUrl | None) -> bool:
        """Whether a rule may have kept a URL out of a crawl, after all its pages were recalled.

        How far URLs had grown isn't known then. So one more growth counts as one too many.
        """
        if source is not None:
            self._growths[source.key] = self._traps.max_growth
        if self._has_host_rules and self.hosts.may_have_kept_out(found.url):
            return True
        return self._rule(found, source) is not None

    def tables(self) -> list[tuple[bytes, bytes]]:
        """Return the counts as packed tables, for a snapshot or another rank."""
        return [
            (array("Q", counter).tobytes(), array("q", counter.values()).tobytes())
            for counter in self.counters()
        ] + self.hosts.tables()

    def restore(self, tables: Iterable[tuple[bytes, bytes]]) -> None:
        """Add the counts of another TrapMonitor, given by its tables."""
        packed, counters = list(tables), self.counters()
        for counter, (hashes, counts) in zip(counters, packed, strict=False):
            counter.update(dict(zip(array("Q", hashes), array("q", counts), strict=True)))
        # Snapshots of earlier versions have no tables of hosts.
        if self._has_host_rules and len(packed) > len(counters):
            self.hosts.restore(packed[len(counters) :])

    def counters(self) -> tuple[Counter[int] | Numbers, ...]:
        """Return the counters, always in the same order."""
        return self._urls, self._bytes, self._queries, self._session_ids, self._same

    def is_full(self, site: str) -> bool:
        """Whether a site has sent max_bytes_per_site. If so, counts a URL that is kept out."""
        limit = self._overrides.of(site).max_bytes
        if limit is None:
            limit = self._traps.max_bytes_per_site
        if not limit or self._bytes[hash_of(site)] < limit:
            return False
        self.fired["max_bytes_per_site"] += 1
        return True

    def _rule(self, found: CrawlUrl | PageRow, source: CrawlUrl | None) -> str | None:
        traps, address = self._traps, found.url
        site = hash_of(found.site) if self._counts_urls else 0
        if 0 < self._max_urls(found.site) <= self._urls[site]:
            return "max_urls_per_site"
        if self._has_host_rules:
            rule = self.hosts.rule(address)
            if rule is not None:
                return rule
        path, mark, _ = address.partition("?")
        # A session id needs one of these characters. Looking for them is much faster than the
        # search below.
        ids_possible = mark or ";" in path or "&" in path or "/(" in path
        if ids_possible and traps.max_session_ids and _SESSION_ID.search(address):
            bare = hash_of(_SESSION_ID.sub("", address))
            if self._session_ids[bare] >= traps.max_session_ids:
                return "max_session_ids"
            self._session_ids[bare] += 1
        if traps.max_growth and self._grows(found, source):
            return "max_growth"
        if mark and traps.max_queries_per_path:
            key = hash_of(path)
            if self._queries[key] >= traps.max_queries_per_path:
                return "max_queries_per_path"
            self._queries[key] += 1
        if self._counts_urls:
            self._urls[site] += 1
        return None

    def _max_urls(self, site: str) -> int:
        limit = self._overrides.of(site).max_urls
        return self._traps.max_urls_per_site if limit is None else limit

    def _grows(self, found: CrawlUrl | PageRow | Link, source: CrawlUrl | None) -> bool:
        """Whether a URL is the URL of its page with text inserted, once too often in a row.

        For example, the page /?at= links to /?at=/, and that page to /?at=//. A URL that is escaped
        once more on every hop (%2F, %252F, %25252F) has text inserted at several places, and is
        recognised by the repeated 25.
        """
        limit = self._traps.max_growth
        if "%2525" in found.url and max(map(len, _ESCAPED_AGAIN.findall(found.url))) > 2 * limit:
            return True
        if source is None or len(found.url) <= len(source.url):
            return False
        before, end = _split(source.url)
        if not (end and found.url.startswith(before) and _split(found.url)[0] == before):
            return False
        put_in = _put_in(end, found.url[len(before) :])
        if not put_in or put_in.isdigit():  # a number that grows, for example from 9 to 99
            return False
        growths = self._growths.get(source.key, 0) + 1
        if growths > limit:
            return True
        self._growths[found.key] = growths
        if len(self._growths) > _WATCHED_URLS:
            self._growths.popitem(last=False)
        return False


def _split(address: str) -> tuple[str, str]:
    """Split a URL before the part that may grow: its query, or else the last path segment."""
    at = address.find("?") + 1 or address.rindex("/") + 1
    return address[:at], address[at:]


def _put_in(old: str, new: str) -> str:
    """Return the text that turns `old` into `new` if inserted at one place; empty if none does."""
    head, differs = 0, len(old) + 1  # the shared start has at least `head`, not `differs` letters
    while differs - head > 1:
        middle = (head + differs) // 2
        if new.startswith(old[head:middle], head):
            head = middle
        else:
            differs = middle
    rest = old[head:]
    return new[head : len(new) - len(rest)] if new.endswith(rest) else ""
