"""Traps: places without end, known by the shape of a URL or by how much of the same there is.

Each rule is a key of the table [traps], and is counted under that name. `shapes` judges a URL
alone, wherever it is found; `Watch` remembers, at the owner of a site, what there was of the site.
What a rule refuses is never fetched; a page that was fetched is stored in any case. `branches`
refuses nothing: it says which URLs may well come last.
"""

import re
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final

from crawler import config
from crawler.ports import REDIRECT, Fetched, Found, PageRow, walked
from crawler.reading.branches import Branches, hash_of, resembles, sketch_of
from crawler.reading.hosts import Hosts

_SESSION_ID = re.compile(
    r"(?<=[?&;])(?:(?=\w*?sess)\w++=[^&;/]{6,}|(?:sid|oscsid|zenid)=[\w-]{16,}|cf(?:id|token)=[\w-]{6,})"
    r"|(?<=/)\([a-z]\([0-9a-z]{16,}\)\)(?=/)",  # ASP.NET without cookies
    re.IGNORECASE,
)
_ESCAPED_AGAIN = re.compile(r"%((?:25)+)")  # %2F, %252F, %25252F, ...
_WATCHED_URLS = 100_000
_FEW_REDIRECTS: Final = 5  # in a row


class Watch:
    """What a rank remembers of the sites that it owns. `fired` counts what each rule kept out.

    With `assignment.scheme = "url-hash"` a site has several owners, and each sees its share only.
    Remembered are numbers under 64-bit hashes: about 100 bytes a site, and as much for each path
    with queries and each URL with a session id.
    """

    def __init__(self, traps: config.Traps) -> None:
        self.fired: Counter[str] = Counter()
        self._traps = traps
        self.rules = any(traps.model_dump().values())  # whether there are any
        self._urls: Counter[int] = Counter()  # by site
        self._bytes: Counter[int] = Counter()  # by site
        self._queries: Counter[int] = Counter()  # by path
        self._session_ids: Counter[int] = Counter()  # by what is left of the URL
        self._same: Counter[int] = Counter()  # by site and digest
        self._long_redirects: Counter[int] = Counter()  # by site; a resume counts anew
        self._growths: OrderedDict[int, int] = OrderedDict()  # by key of the latest grown URLs
        self._branches = Branches(traps.max_near_duplicates)
        self.hosts = Hosts(traps)
        self._has_host_rules = bool(self.hosts)
        self.poor = self._branches.poor  # empty: no URL is, and needn't be asked about

    def admit(self, found: Found, source: Found | None) -> bool:
        """Whether a new URL may be fetched. `source`: the page that it was found on, if known."""
        rule = self._rule(found, source)
        if rule is not None:
            self.fired[rule] += 1
        return rule is None

    def too_deep(self, hops: int) -> bool:
        """Whether links of a page so far from a seed aren't followed."""
        if 0 < self._traps.max_depth <= hops:
            self.fired["max_depth"] += 1
            return True
        return False

    def stored(self, row: PageRow) -> bool:
        """Take note of a fetch; whether links found there are worth following."""
        if self._has_host_rules:
            self.hosts.note(row)
        if self._traps.max_bytes_per_site and row.bytes:
            self._bytes[hash_of(row.site)] += row.bytes
        if not (self._traps.max_same_content and row.duplicate and row.digest):
            return True
        same = hash_of(f"{row.site} {row.digest}")
        self._same[same] += 1  # the first of them was no duplicate
        if self._same[same] < self._traps.max_same_content:
            return True
        self.fired["max_same_content"] += 1
        return False

    def compare(self, fetched: Fetched) -> None:
        """Compare the text of a page with others of its branch, and with pages of other hosts.

        The first happens only if the page has links, the second only if there are many hosts.
        """
        response = fetched.response
        if response is None or not response.has_page:
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
        """Take note of a seed: no rule keeps its host out."""
        if self._has_host_rules:
            self.hosts.welcome(url)

    def is_crowded(self, found: Found, address: str | None = None) -> bool:
        """Whether a URL must not be asked for, because its host is one of too many without content.

        `address` is the address of the host, if that is to be judged.
        """
        if not (self._has_host_rules and self.hosts.refuses(found.url, address)):
            return False
        self.fired["max_barren_hosts"] += 1
        return True

    def gets_lost(self, fetched: Fetched) -> bool:
        """Take note of where a chain of redirects has got; whether it isn't followed further, as
        too many redirects of long chains at its site have led nowhere."""
        most = self._traps.max_long_redirects
        excess = len(walked(fetched.found.chain)) - _FEW_REDIRECTS
        if not most or excess < 0:
            return False
        site = hash_of(fetched.found.site)
        if not (fetched.links and fetched.links[0].flags & REDIRECT):
            if fetched.failure is None and self._long_redirects[site]:
                self._long_redirects[site] = max(0, self._long_redirects[site] - excess)
            return False
        if self._long_redirects[site] < most:
            self._long_redirects[site] += 1
            return False
        self.fired["max_long_redirects"] += 1
        return True

    def is_poor(self, found: Found) -> bool:
        """Whether a URL that is let in should come only when nothing else of its site waits."""
        if not self._branches.is_poor(found.url):
            return False
        self.fired["max_near_duplicates"] += 1
        return True

    def recall(self, row: PageRow) -> None:
        """Take note of a page of an earlier run, admitted and stored there."""
        self._rule(row, None)
        self.stored(row)

    def absorb(self, other: "Watch") -> None:
        """Take over what another Watch has recalled."""
        for mine, its in zip(self.counters(), other.counters(), strict=True):
            mine.update(its)
        if self._has_host_rules:
            self.hosts.absorb(other.hosts)

    def keeps_out(self, found: Found, source: Found | None) -> bool:
        """Whether a rule may have kept a URL out, in a crawl all of whose pages are recalled.

        How far URLs had grown isn't, so any growth will do.
        """
        if source is not None:
            self._growths[source.key] = self._traps.max_growth
        if self._has_host_rules and self.hosts.may_have_kept_out(found.url):
            return True
        return self._rule(found, source) is not None

    def tables(self) -> list[tuple[bytes, bytes]]:
        """What is counted, packed as in state.State."""
        return [
            (array("Q", counter).tobytes(), array("q", counter.values()).tobytes())
            for counter in self.counters()
        ] + self.hosts.tables()

    def restore(self, tables: Iterable[tuple[bytes, bytes]]) -> None:
        """Go on where another Watch has given its tables."""
        packed, counters = list(tables), self.counters()
        for counter, (hashes, counts) in zip(counters, packed, strict=False):
            counter.update(dict(zip(array("Q", hashes), array("q", counts), strict=True)))
        if self._has_host_rules and len(packed) > len(counters):  # else of an earlier version
            self.hosts.restore(packed[len(counters) :])

    def counters(self) -> tuple[Counter[int], ...]:
        """What has been counted, in an order that stays."""
        return self._urls, self._bytes, self._queries, self._session_ids, self._same

    def is_full(self, site: str) -> bool:
        """Whether the site has sent all that it may; counted, as it keeps a URL out."""
        limit = self._traps.max_bytes_per_site
        if not limit or self._bytes[hash_of(site)] < limit:
            return False
        self.fired["max_bytes_per_site"] += 1
        return True

    def _rule(self, found: Found | PageRow, source: Found | None) -> str | None:
        traps, address = self._traps, found.url
        site = hash_of(found.site) if traps.max_urls_per_site else 0
        if 0 < traps.max_urls_per_site <= self._urls[site]:
            return "max_urls_per_site"
        if self._has_host_rules:
            rule = self.hosts.rule(address)
            if rule is not None:
                return rule
        path, mark, _ = address.partition("?")
        # Without one of these characters there is no session id; the search takes far longer.
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
        if traps.max_urls_per_site:
            self._urls[site] += 1
        return None

    def _grows(self, found: Found | PageRow, source: Found | None) -> bool:
        """Whether this is the URL of the page before with something put in, once too often.

        As /?at=/ on the page /?at=, and /?at=// on that. What is escaped again on every hop has
        something put in at many places, and is known by the 25s.
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
        if not put_in or put_in.isdigit():  # numbers get longer by themselves
            return False
        growths = self._growths.get(source.key, 0) + 1
        if growths > limit:
            return True
        self._growths[found.key] = growths
        if len(self._growths) > _WATCHED_URLS:
            self._growths.popitem(last=False)
        return False


def _split(address: str) -> tuple[str, str]:
    """What may grow of a URL, and what is before: its query, or else the last of its path."""
    at = address.find("?") + 1 or address.rindex("/") + 1
    return address[:at], address[at:]


def _put_in(old: str, new: str) -> str:
    """What makes `new` of `old` if put in at one place; else nothing."""
    head, differs = 0, len(old) + 1  # `old` and `new` share `head` characters, and not `differs`
    while differs - head > 1:
        middle = (head + differs) // 2
        if new.startswith(old[head:middle], head):
            head = middle
        else:
            differs = middle
    rest = old[head:]
    return new[head : len(new) - len(rest)] if new.endswith(rest) else ""
