"""Reading: from a response to its links, as the core takes them.

Pure, and in steps of a few milliseconds, so that no page keeps the others waiting: a generator
yields between two of them.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from crawler import config, url
from crawler.ports import (
    NOFOLLOW,
    OUT_OF_SCOPE,
    REDIRECT,
    Failure,
    Fetched,
    Found,
    Link,
    Names,
    Response,
    names_of,
    walked,
)
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.media import HTML, HTML_TYPES, types_of
from crawler.reading.parse import Kinds, Page, form_of, read_headers
from crawler.reading.parse import read as read_html
from crawler.reading.scope import Scope, Sites
from crawler.reading.shapes import Shapes
from crawler.reading.sitemaps import Entry, belongs, entries

REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MOST_NOTICES: Final = 20  # about seeds, from one rank
MAX_REDIRECTS: Final = 20  # as browsers follow, by default
_STEP: Final = 1 << 17  # characters of links held against the scope in one step
_WORK_PER_LINK: Final = 256  # characters that a link counts as, besides its own
_AS_SENT: Final = {byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}
_SITEMAP: Final = (b"<urlset", b"<sitemapindex")
_SITEMAP_HEAD = 4096  # bytes in which one of these stands


def make_scope(
    settings: config.Config, seeds: Iterable[str], year: int, *, by_scheme: bool = False
) -> Scope:
    """The scope with the rules on traps that look at a URL alone. `year`: the present year.

    `by_scheme`: see Scope.
    """
    shapes = Shapes(settings.traps, year)
    sites = Sites(settings.assignment.site)
    return Scope(settings.scope, sites, seeds, shapes.rule, by_scheme=by_scheme)


def unfollowed(settings: config.Config, *, judges_again: bool) -> int:
    """The flags any of which keeps a logged link from being followed. `judges_again`: the scope
    that it was held against isn't the present one, and is to be asked (`Reader.link`)."""
    if not judges_again:
        return OUT_OF_SCOPE
    return NOFOLLOW if settings.robots.obey_nofollow else 0


def redirect_target(response: Response) -> str:
    """Where a redirect leads, normalised. Raises BadUrlError if that is nowhere."""
    location = response.header(b"location")
    if location is None:
        raise url.BadUrlError("")
    if len(location) > url.MAX_LENGTH:
        raise url.LongUrlError(location[: url.MAX_LENGTH].decode("latin-1"))
    # Bytes beyond ASCII go to the wire as they came.
    return url.normalise(location.decode("latin-1").translate(_AS_SENT), response.url)


class Reader:
    """What the responses of a crawl lead to."""

    def __init__(
        self,
        settings: config.Config,
        scope: Scope,
        declared: DeclaredSitemaps | None = None,
        jars: Jars | None = None,
    ) -> None:
        """`declared`: the sitemaps that this rank knows to be declared; by default none yet.

        `jars` are the cookies of URLs to which redirects lead. The reader changes the jar of a URL
        that redirects, and the core hands the jar on to the target.
        """
        self._scope = scope
        self._elements = frozenset(settings.extract.elements)
        self._max_links = settings.extract.max_links
        self._max_link_bytes = int(settings.extract.max_link_bytes)
        self._kinds = Kinds(settings.extract.types)
        self._agent = settings.robots.agent
        self._obeys_nofollow = settings.robots.obey_nofollow
        self._fold = settings.normalise.folding()
        self._sitemaps = settings.sitemaps
        self._most_bytes = max(int(settings.fetch.max_bytes), int(settings.sitemaps.max_bytes))
        self._notices = 0
        self._declared = DeclaredSitemaps() if declared is None else declared
        self._max_redirects = settings.fetch.max_redirects
        self._jars = Jars() if jars is None else jars

    def read(self, fetched: Fetched) -> Iterator[None]:
        """Fill in the out-links of a fetch, in steps.

        They are the links of a page, the target of a redirect, or the earlier links of a page that
        hasn't changed. If redirects of a seed end here, the site joins the scope first.
        """
        response = fetched.response
        if response is None:
            if fetched.failure is Failure.ROBOTS_DENIED:  # the site is there
                self._arrive(fetched)
            return
        if response.status in REDIRECTS:
            self._follow(fetched, response)
            return
        self._arrive(fetched)
        fetched.judged_with = len(self._scope.joined)
        targets: Iterable[tuple[str, int]] = ()
        if response.status == 304 and fetched.earlier is not None:
            targets = fetched.earlier.links
        elif response.has_page and self._is_sitemap(fetched.found.key, response):
            targets = yield from self._listed(fetched, response)
        elif response.has_page:
            page = yield from self.page(response)
            fetched.noindex, targets = page.noindex, page.links
        work = 0
        index_of, link, links = fetched.sitemaps_of, self._scope.link, fetched.links
        for target, flags in targets:
            if index_of is not None:
                links.append(self.sitemap(target, index_of))
            elif flags:
                links.append(self.link(target, flags & ~OUT_OF_SCOPE))
            else:
                links.append(link(target))
            work += _WORK_PER_LINK + len(target)
            if work > _STEP:
                work = 0
                yield
        self._look_at_seed(fetched)

    def _look_at_seed(self, fetched: Fetched) -> None:
        """Tell the user about a seed none of whose links is in scope.

        Such a page may only refresh to another site, or hold only frames of one.
        """
        if fetched.found.hops or not fetched.links:
            return
        seed = self._scope.seed_of(fetched.found)
        if seed is not None and all(link.flags & OUT_OF_SCOPE for link in fetched.links):
            where = fetched.links[0].url
            text = (
                f"seed {seed}: none of its {len(fetched.links):,} links is in scope, like {where}"
            )
            self._notice(fetched, text)

    def renew(self, fetched: Fetched) -> None:
        """Judge the links of a page again, if a site has joined the scope while it was read."""
        if 0 <= fetched.judged_with < len(self._scope.joined):
            fetched.judged_with = len(self._scope.joined)
            fetched.links = [
                self._scope.link(link.url, link.flags & ~OUT_OF_SCOPE)
                if link.flags & OUT_OF_SCOPE and self.brings_in(link.url, link.flags)
                else link
                for link in fetched.links
            ]

    def brings_in(self, address: str, flags: int) -> bool:
        """Whether a link is followed because it leads to a site that has joined the scope."""
        if self._obeys_nofollow and flags & NOFOLLOW:
            return False
        return self._scope.has_joined(address) and self._scope.judge(address).allowed

    def _arrive(self, fetched: Fetched) -> None:
        """Take the site into the scope if redirects of a seed end here."""
        found = fetched.found
        seed = self._scope.seed_of(found) if found.chain else None
        if seed is not None and self._scope.join(found.site):
            fetched.joins = found.site, seed
            self._notice(
                fetched, f"seed {seed}: redirects to {found.url}; its site joins the scope"
            )

    def _notice(self, fetched: Fetched, text: str) -> None:
        """Tell the user about a seed that leads elsewhere, for the first few of them."""
        self._notices += 1
        if self._notices <= _MOST_NOTICES:
            fetched.notice = text
        elif self._notices == _MOST_NOTICES + 1:
            fetched.notice = "more seeds redirect to other sites: the report names them"

    def page(self, response: Response) -> Generator[None, None, Page]:
        """The links and robots directives of a response with status 2xx.

        The body is read only if the document is of a kind in which links are read.
        """
        media, label = types_of(response)
        if not self._kinds.hold(media, response.url, label):
            return read_headers(response, self._elements, self._agent, self._fold)
        if label == HTML and not self._kinds.hold(media, response.url):
            media = HTML  # a feed that nobody asked for is what it is called
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
                )
            )
        said = read_headers(response, self._elements, self._agent, self._fold)
        flags = NOFOLLOW if said.nofollow else 0
        links = dict.fromkeys(said.links)
        for entry in entries(response.body, response.url):  # a feed
            if entry is None:
                yield
            elif len(links) < self._max_links:
                links[self._folded(entry.url), flags] = None
        return said._replace(links=list(links))

    def redirect_target(self, response: Response) -> str:
        """Where a redirect leads, normalised and folded. Raises BadUrlError if that is nowhere."""
        target = redirect_target(response)
        return self._fold.of_redirect(target, response.url) if self._fold else target

    def sitemaps(self, authority: str, named: Iterable[str]) -> list[Link]:
        """The sitemaps of an authority that are to be read.

        `named` are those in its robots.txt, which may be on any host. They are out of scope if the
        authority is.
        """
        references = list(named) if self._sitemaps.from_robots else []
        if self._sitemaps.well_known:
            references.append("/sitemap.xml")
        links = {}
        for reference in references:
            try:
                link = self.sitemap(url.normalise(reference, authority + "/"), authority)
            except url.BadUrlError:
                continue
            self._declared.declare(link.key, authority)
            links[link.key] = link
        return list(links.values())

    def sitemap(self, address: str, names: Names | None) -> Link:
        """The link to a sitemap that the robots.txt of these authorities names."""
        held = any(map(self._scope.holds, names_of(names)))
        return self._scope.link_beyond(address) if held else self._scope.link(address)

    def max_bytes(self, key: int) -> int | None:
        """The limit on the body of a URL by its key; None if it is the usual limit of pages."""
        return self._most_bytes if key in self._declared else None

    def _follow(self, fetched: Fetched, response: Response) -> None:
        fetched.judged_with = len(self._scope.joined)
        try:
            target = self.redirect(fetched.found, self.redirect_target(response))
        except url.BadUrlError:
            fetched.failure = Failure.BAD_REDIRECT
            return
        again = self._meet_cookies(fetched, response, target)
        fetched.failure = redirect_failure(
            fetched.found, target.key, self._max_redirects, again=again
        )
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

    def cookie(self, found: Found) -> str:
        """The value of Cookie for a URL to which redirects have led; mostly empty."""
        return self._jars.get(found.key).header(found.url) if found.chain else ""

    def _meet_cookies(self, fetched: Fetched, response: Response, target: Link) -> bool:
        """Take the cookies of a redirect into the jar of its chain.

        Returns whether the redirect leads back to a URL of its chain that wasn't asked with these
        cookies yet. Such a URL is worth asking again.
        """
        found, before = fetched.found, self._jars.take(fetched.found.key)
        jar = before.after(response)
        self._jars.put(found.key, jar)
        fetched.gives_cookies = bool(jar.cookies)
        cookie = jar.header(target.url)
        seen = before.header(found.url) if target.key == found.key else ""
        once = (*walked(found.chain), found.key).count(target.key) == 1
        return once and cookie not in {"", seen}

    def redirect(self, source: Found, address: str, flags: int = 0) -> Link:
        """The link of a redirect to a normalised URL.

        Redirects of named sitemaps may lead to any host. So may redirects of seeds, if the scope is
        the sites of the seeds.
        """
        if (names := self._declared.authorities(source.key)) is not None:
            link = self.sitemap(address, names)
            return link._replace(flags=link.flags | flags | REDIRECT)
        beyond = self._scope.widens and self._scope.seed_of(source) is not None
        judge = self._scope.link_beyond if beyond else self._scope.link
        return judge(address, flags | REDIRECT)

    def _is_sitemap(self, key: int, response: Response) -> bool:
        if not (self._sitemaps.from_robots or self._sitemaps.well_known):
            return False
        head = response.body[:_SITEMAP_HEAD]
        return key in self._declared or any(name in head for name in _SITEMAP)

    def _listed(
        self, fetched: Fetched, response: Response
    ) -> Generator[None, None, list[tuple[str, int]]]:
        limits, authorities = self._sitemaps, self._declared.authorities(fetched.found.key)
        found: dict[str, Entry] = {}
        for entry in entries(response.body, response.url, limits.max_bytes, limits.max_entries):
            if entry is None:
                yield
            elif belongs(response.url, entry.url, authorities):
                found[entry.url if entry.is_sitemap else self._folded(entry.url)] = entry
        if authorities is not None:
            for address, entry in found.items():
                if entry.is_sitemap:  # then all are: it is an index
                    self._declared.declare(url.key(address), authorities)
                    fetched.sitemaps_of = authorities
        lastmods = enumerate(entry.lastmod for entry in found.values())
        fetched.lastmods = {number: text for number, text in lastmods if text}
        return [(address, 0) for address in found]

    def _folded(self, address: str) -> str:
        return self._fold(address) if self._fold else address

    def link_again(self, source: Found, address: str, flags: int) -> Link:
        """The link to a URL, judged again by the present scope."""
        if flags & REDIRECT:
            return self.redirect(source, address, flags & ~OUT_OF_SCOPE)
        names = self._declared.authorities(url.key(address))
        if names is not None and source.key in self._declared:
            return self.sitemap(address, names)
        return self.link(address, flags & ~OUT_OF_SCOPE)

    def link(self, address: str, flags: int) -> Link:
        """The link to a normalised URL, with its place in the crawl."""
        if self._obeys_nofollow and flags & NOFOLLOW:
            flags |= OUT_OF_SCOPE  # recorded, never followed
        return self._scope.link(address, flags)


def redirect_failure(
    source: Found, target: int, limit: int = MAX_REDIRECTS, *, again: bool = False
) -> Failure | None:
    """The reason why a redirect from `source` to the URL with the key `target` isn't followed.

    Returns None if it is followed. `limit`: redirects in a row. `again`: the target may be asked
    again, because there is a cookie for it.
    """
    chain = walked(source.chain)
    if not again and (target == source.key or target in chain):
        return Failure.REDIRECT_LOOP
    if len(chain) >= limit:
        return Failure.TOO_MANY_REDIRECTS
    return None
