"""Finds the links in a response, in the form in which the core gets them.

No I/O happens here. The work is done in steps of a few milliseconds, and a generator yields between
two steps, so that a large page doesn't hold up the others.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from crawler import config, url
from crawler.extensions import FILTER, load
from crawler.ports import (
    BY_USER,
    NO_HTTPS,
    NOFOLLOW,
    OUT_OF_SCOPE,
    REDIRECT,
    CrawlUrl,
    Failure,
    Fetched,
    Link,
    Names,
    Response,
    names_of,
    walked,
)
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import Judge
from crawler.reading.media import HTML, HTML_TYPES, types_of
from crawler.reading.parse import MediaTypes, Page, form_of, read_headers
from crawler.reading.parse import read as read_html
from crawler.reading.requisites import Requisites
from crawler.reading.scope import Scope, Sites
from crawler.reading.shapes import Shapes
from crawler.reading.sitemaps import Entry, belongs, entries, is_sitemap

REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MOST_NOTICES: Final = 20  # messages about seeds from one rank
MAX_REDIRECTS: Final = 20  # in a row; browsers follow as many by default
_SITEMAPS_STEP: Final = 32  # sitemaps of a robots.txt; names in odd characters take 0.1 ms each
_STEP: Final = 1 << 17  # characters of links that are compared with the scope in one step
_WORK_PER_LINK: Final = 256  # characters that each link counts as, in addition to its own
_WORK_PER_KNOWN: Final = 32  # characters that a link counts as if it was judged before
_AS_SENT: Final = {byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}
_SITEMAP: Final = (b"<urlset", b"<sitemapindex")
_SITEMAP_HEAD = 4096  # bytes at the start that must contain a tag of a sitemap
_SITEMAP_NAMES: Final = (".xml", ".gz", ".txt")  # of seeds that may be as long as a sitemap


def make_scope(
    settings: config.Config, seeds: Iterable[str], year: int, *, by_scheme: bool = False
) -> Scope:
    """Return the scope, which includes the rules on traps that look at a URL alone.

    `year`: the present year. `by_scheme`: see Scope. Raises UserError, also if a filter can't be
    used.
    """
    shapes = Shapes(settings.traps, year)
    sites = Sites(settings.assignment.site)
    filters = [load(FILTER, name, settings.options_of(name)) for name in settings.scope.filters]
    return Scope(settings.scope, sites, seeds, shapes.rule, filters, by_scheme=by_scheme)


def redirect_target(response: Response) -> str:
    """Return the normalised URL to which a redirect leads. Raises BadUrlError if there is none."""
    location = response.header(b"location")
    if location is None:
        raise url.BadUrlError("")
    if len(location) > url.MAX_LENGTH:
        raise url.LongUrlError(location[: url.MAX_LENGTH].decode("latin-1"))
    # Bytes beyond ASCII are escaped, so that the request sends them as they came.
    return url.normalise(location.decode("latin-1").translate(_AS_SENT), response.url)


class PageReader:
    """Reads the responses of a crawl, and finds the links that they lead to."""

    def __init__(
        self,
        settings: config.Config,
        scope: Scope,
        declared: DeclaredSitemaps | None = None,
        jars: Jars | None = None,
    ) -> None:
        """Read the settings.

        `declared` holds the sitemaps that this rank knows to be declared; by default there are
        none.

        `jars` holds the cookies of URLs to which redirects lead. The reader changes the jar of a
        URL that redirects, and the core passes the jar on to the target.
        """
        self._scope = scope
        self._elements = frozenset(settings.extract.elements)
        self._anchors = settings.extract.anchors
        self._max_links = settings.extract.max_links
        self._max_link_bytes = int(settings.extract.max_link_bytes)
        self._kinds = MediaTypes(settings.extract.types)
        self._agent = settings.robots.agent
        self._fold = settings.normalise.folding() or None  # asking a Folding takes time
        self._sitemaps = settings.sitemaps
        self._most_bytes = max(int(settings.fetch.max_bytes), int(settings.sitemaps.max_bytes))
        self._notices = 0
        self._declared = DeclaredSitemaps() if declared is None else declared
        self.judge = Judge(settings, scope, self._declared)
        self._requisites = Requisites(settings, scope)
        self._max_redirects = settings.fetch.max_redirects
        self._jars = Jars() if jars is None else jars
        self._exact = settings.seen.exact

    def read(self, fetched: Fetched) -> Iterator[None]:
        """Find the out-links of a fetch, and put them into it, in steps.

        The out-links are the links of a page, the target of a redirect, or the earlier links of a
        page that hasn't changed. If redirects of a seed end here, the site joins the scope first.
        """
        response = fetched.response
        if fetched.found.is_requisite:
            yield from self._read_requisite(fetched, response)
            return
        if response is None:
            if fetched.failure is Failure.ROBOTS_DENIED:  # the site exists, so it may join
                self._arrive(fetched)
            elif fetched.failure in NO_HTTPS:
                self._turn_to_http(fetched)
            return
        if response.status in REDIRECTS:
            self._follow(fetched, response)
            return
        self._arrive(fetched)
        fetched.judged_with = len(self._scope.joined)
        targets: Iterable[tuple[str, int]] = ()
        if response.status == 304 and fetched.earlier is not None:
            earlier = fetched.earlier
            targets = earlier.links
            fetched.title, fetched.language = earlier.row.title, earlier.row.language
            fetched.anchors = earlier.anchors if self._anchors else ()
            self._requisites.note(fetched, earlier.requisites)
        elif response.has_page and (names := self._named_by(fetched.found, response)) is not None:
            targets = yield from self._listed(fetched, response, names)
        elif response.has_page:
            page = yield from self.page(response)
            fetched.noindex, targets = page.noindex, page.links.items()
            fetched.title, fetched.language = page.head
            fetched.anchors = page.anchors
            self._requisites.note(fetched, page.requisites)
        yield  # so that pages that are read together are all scanned before the first is judged
        work = 0
        index_of, links, known = fetched.sitemaps_of, fetched.links, self._scope.known.young
        for target, flags in targets:
            link = None if flags or index_of is not None else known.get(target)
            if link is not None:
                work += _WORK_PER_KNOWN
            else:
                work += _WORK_PER_LINK + len(target)
                if index_of is not None:
                    link = self.judge.sitemap(target, index_of)
                else:
                    link = self.judge.link(target, flags & ~OUT_OF_SCOPE)
            links.append(link)
            if work > _STEP:
                work = 0
                yield
        self._look_at_seed(fetched)

    def _read_requisite(self, fetched: Fetched, response: Response | None) -> Iterator[None]:
        """Find what a requisite needs itself. The target of a redirect is a requisite, too."""
        if response is None:
            return
        if response.status not in REDIRECTS:
            needed = yield from self._requisites.of_requisite(fetched, response)
        else:
            try:
                needed = [redirect_target(response)]
            except url.BadUrlError:
                fetched.failure = Failure.BAD_REDIRECT
                return
        self._requisites.note(fetched, needed)

    def _turn_to_http(self, fetched: Fetched) -> None:
        """Let a seed without a scheme, which https can't reach, redirect to http."""
        address = self._scope.by_http(fetched.found)
        if address is not None:
            fetched.judged_with = len(self._scope.joined)
            fetched.links = [self._scope.link(address, REDIRECT)]
            text = f"seed {fetched.found.url}: {fetched.failure}; {address} is asked for instead"
            self._notice(fetched, text)

    def _look_at_seed(self, fetched: Fetched) -> None:
        """Tell the user about a seed if none of its links is in scope.

        For example, such a page refreshes to another site, or holds only frames of another site.
        """
        if fetched.found.hops > 0 or not fetched.links:
            return
        seed = self._scope.seed_of(fetched.found)
        if seed is not None and all(link.flags & OUT_OF_SCOPE for link in fetched.links):
            where = fetched.links[0].url
            text = (
                f"seed {seed}: none of its {len(fetched.links):,} links is in scope;"
                f" the first is {where}"
            )
            self._notice(fetched, text)

    def renew(self, fetched: Fetched) -> None:
        """Judge the links of a page again, if a site has joined the scope while it was read."""
        if 0 <= fetched.judged_with < len(self._scope.joined):
            fetched.judged_with = len(self._scope.joined)
            fetched.links = [
                self._scope.link(link.url, link.flags & ~OUT_OF_SCOPE)
                if link.flags & OUT_OF_SCOPE and self.judge.brings_in(link.url, link.flags)
                else link
                for link in fetched.links
            ]

    def may_add_site(self, found: CrawlUrl) -> bool:
        """Whether `read` may add the site of this URL to the scope, because a seed led here."""
        return bool(found.chain) and self._scope.widens and self._scope.seed_of(found) is not None

    def _arrive(self, fetched: Fetched) -> None:
        """Add the site of a fetch to the scope, if redirects of a seed end here."""
        found = fetched.found
        seed = self._scope.seed_of(found) if self.may_add_site(found) else None
        if seed is not None and self._scope.join(found.site):
            fetched.joins = found.site, seed
            self._notice(
                fetched, f"seed {seed}: redirects to {found.url}; its site joins the scope"
            )

    def _notice(self, fetched: Fetched, text: str) -> None:
        """Tell the user about a seed that leads to another site; only the first few are named."""
        self._notices += 1
        if self._notices <= _MOST_NOTICES:
            fetched.notice = text
        elif self._notices == _MOST_NOTICES + 1:
            fetched.notice = "more seeds redirect to other sites: the report names them"

    def page(self, response: Response) -> Generator[None, None, Page]:
        """Return the links and robots directives of a response with status 2xx, in steps.

        The body is read only if `extract.types` includes its type. Otherwise only the headers are
        read.
        """
        if self._requisites.is_sheet(response):
            said = read_headers(response, self._elements, self._agent, self._fold)
            return said._replace(requisites=(yield from self._requisites.of_sheet(response)))
        media, label = types_of(response)
        if not self._kinds.hold(media, response.url, label):
            return read_headers(response, self._elements, self._agent, self._fold)
        if label == HTML and not self._kinds.hold(media, response.url):
            media = HTML  # feeds aren't read as such, so this one is read as its label says
        if media in HTML_TYPES:
            return (
                yield from read_html(
                    response,
                    self._elements,
                    self._agent,
                    self._fold,
                    self._max_links,
                    self._max_link_bytes,
                    self._scope.trapped,
                    form_of(media, label),
                    anchors=self._anchors,
                    requisites=self._requisites.wanted,
                )
            )
        said = read_headers(response, self._elements, self._agent, self._fold)
        flags = NOFOLLOW if said.nofollow else 0
        links = said.links
        for entry in entries(response.body, response.url):  # a feed
            if entry is None:
                yield
            elif len(links) < self._max_links:
                links.setdefault(self._folded(entry.url), flags)
        return said

    def redirect_target(self, response: Response) -> str:
        """Return the normalised and folded target of a redirect. Raises BadUrlError without one."""
        target = redirect_target(response)
        return self._fold.of_redirect(target, response.url) if self._fold else target

    def sitemaps(self, authority: str, named: Iterable[str]) -> Generator[None, None, list[Link]]:
        """Return links to the sitemaps of an authority that the configuration wants to be read.

        `named` are the sitemaps in its robots.txt, which may be on any host. They are out of scope
        if the authority is. The work is done in steps.
        """
        references = list(named) if self._sitemaps.from_robots else []
        if self._sitemaps.well_known:
            references.append("/sitemap.xml")
        links = {}
        for number, reference in enumerate(references, 1):
            if number % _SITEMAPS_STEP == 0:
                yield
            try:
                link = self.judge.sitemap(url.normalise(reference, authority + "/"), authority)
            except url.BadUrlError:
                continue
            self._declared.declare(link.key, authority)
            links[link.key] = link
        return list(links.values())

    def max_bytes(self, found: CrawlUrl) -> int | None:
        """Return the limit on the body of a URL; None for the usual limit of pages."""
        if found.key in self._declared:
            return self._most_bytes
        if found.hops == 0 and self._scope.seed_of(found) is not None:
            path = found.url.partition("?")[0].lower()
            return self._most_bytes if path.endswith(_SITEMAP_NAMES) else None
        return None

    def _follow(self, fetched: Fetched, response: Response) -> None:
        fetched.judged_with = len(self._scope.joined)
        try:
            target = self.judge.redirect(fetched.found, self.redirect_target(response))
        except url.BadUrlError:
            fetched.failure = Failure.BAD_REDIRECT
            return
        again = self._meet_cookies(fetched, response, target)
        fetched.failure = redirect_failure(
            fetched.found, target.key, self._max_redirects, again=again
        )
        is_loop = fetched.failure is Failure.REDIRECT_LOOP
        if self._exact and is_loop and target.url != fetched.found.url:
            fetched.links = [target]  # its key may be in the chain only because another URL has it
        if fetched.failure is None:
            fetched.links = [target]
            authorities = self._declared.authorities(fetched.found.key)
            if authorities is not None:
                self._declared.declare(target.key, authorities)
                fetched.sitemaps_of = authorities
            seed = self._scope.seed_of(fetched.found)
            if seed is not None and target.flags & OUT_OF_SCOPE:
                rule = self._scope.judge_beyond(target.url).rule
                text = f"seed {seed}: redirects to {target.url}, which is out of scope ({rule})"
                self._notice(fetched, text)

    def cookie(self, found: CrawlUrl) -> str:
        """Return the value of the header Cookie for a URL. Only redirects can have set cookies."""
        return self._jars.get(found.key).header(found.url) if found.chain else ""

    def _meet_cookies(self, fetched: Fetched, response: Response, target: Link) -> bool:
        """Add the cookies of a redirect to the jar of its chain.

        Returns whether the redirect leads back to a URL of its chain that hasn't been requested
        with these cookies yet. Such a URL is requested again.
        """
        found, before = fetched.found, self._jars.take(fetched.found.key)
        jar = before.after(response)
        self._jars.put(found.key, jar)
        fetched.gives_cookies = bool(jar.cookies)
        cookie = jar.header(target.url)
        seen = before.header(found.url) if target.key == found.key else ""
        once = (*walked(found.chain), found.key).count(target.key) == 1
        return once and cookie not in {"", seen}

    def _named_by(self, found: CrawlUrl, response: Response) -> Names | None:
        """Return who names the sitemap that a response is; None if it isn't read as a sitemap.

        The names are empty if nobody names it.
        """
        reads_others = self._sitemaps.from_robots or self._sitemaps.well_known
        names = self._declared.authorities(found.key)
        if names is not None and (reads_others or BY_USER in names_of(names)):
            return names
        if self._scope.seed_of(found) is not None and is_sitemap(response.body):
            return BY_USER
        if reads_others:
            head = response.body[:_SITEMAP_HEAD]
            return () if any(tag in head for tag in _SITEMAP) else None
        return None

    def _listed(
        self, fetched: Fetched, response: Response, names: Names
    ) -> Generator[None, None, list[tuple[str, int]]]:
        limits = self._sitemaps
        if BY_USER in names_of(names):
            fetched.found = fetched.found._replace(hops=-1)  # so its entries have 0, like seeds
        found: dict[str, Entry] = {}
        for entry in entries(response.body, response.url, limits.max_bytes, limits.max_entries):
            if entry is None:
                yield
            elif belongs(response.url, entry.url, names):
                found[entry.url if entry.is_sitemap else self._folded(entry.url)] = entry
        if names:
            for address, entry in found.items():
                if entry.is_sitemap:  # the file is an index, so all its entries are sitemaps
                    self._declared.declare(url.own_key(address), names)
                    fetched.sitemaps_of = names
        lastmods = enumerate(entry.lastmod for entry in found.values())
        fetched.lastmods = {number: text for number, text in lastmods if text}
        return [(address, 0) for address in found]

    def _folded(self, address: str) -> str:
        return self._fold(address) if self._fold else address


def redirect_failure(
    source: CrawlUrl, target: int, limit: int = MAX_REDIRECTS, *, again: bool = False
) -> Failure | None:
    """Return the reason why a redirect isn't followed, or None if it is followed.

    The redirect leads from `source` to the URL with the key `target`. `limit`: the most redirects
    in a row. `again`: the target may be requested again, because there is a cookie for it.
    """
    chain = walked(source.chain)
    if not again and (target == source.key or target in chain):
        return Failure.REDIRECT_LOOP
    if len(chain) >= limit:
        return Failure.TOO_MANY_REDIRECTS
    return None
