"""Makes the links of a crawl, from URLs and from how they were found.

Whether a link is followed depends on the scope, and on what leads there: an element of a page, a
redirect, or a sitemap that somebody names. Links are judged when a response is read, and some are
judged again when logs are read (`link_again`, `brings_in`).
"""

from crawler import config, url
from crawler.ports import BY_USER, NOFOLLOW, OUT_OF_SCOPE, REDIRECT, CrawlUrl, Link, Names, names_of
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Scope


def unfollowed(settings: config.Config, *, judges_again: bool) -> int:
    """Return the flags that keep a logged link from being followed. One of them is enough.

    `judges_again`: the link was judged by another scope than the present one, so
    `Judge.link_again` must judge it again.
    """
    if not judges_again:
        return OUT_OF_SCOPE
    return NOFOLLOW if settings.robots.obey_nofollow else 0


class Judge:
    """Judges the links of one rank by the scope and by how they were found."""

    def __init__(
        self, settings: config.Config, scope: Scope, declared: DeclaredSitemaps | None = None
    ) -> None:
        """`declared`: the sitemaps that this rank knows to be declared; by default none."""
        self.scope = scope
        self._obeys_nofollow = settings.robots.obey_nofollow
        self._declared = DeclaredSitemaps() if declared is None else declared

    def link(self, address: str, flags: int) -> Link:
        """Return the link to a normalised URL, with OUT_OF_SCOPE if it must not be followed."""
        if self._obeys_nofollow and flags & NOFOLLOW:
            flags |= OUT_OF_SCOPE
        return self.scope.link(address, flags)

    def sitemap(self, address: str, names: Names | None) -> Link:
        """Return the link to a sitemap that the user or these authorities name."""
        held = any(
            name == BY_USER or self.scope.judge_host(name).allowed for name in names_of(names)
        )
        return self.scope.link_beyond(address) if held else self.scope.link(address)

    def redirect(self, source: CrawlUrl, address: str, flags: int = 0) -> Link:
        """Return the link of a redirect to a normalised URL.

        Redirects of named sitemaps may lead to any host. Redirects of seeds may lead to any host if
        the scope is the sites of the seeds.
        """
        if (names := self._declared.authorities(source.key)) is not None:
            link = self.sitemap(address, names)
            return link._replace(flags=link.flags | flags | REDIRECT)
        beyond = self.scope.widens and self.scope.seed_of(source) is not None
        judge = self.scope.link_beyond if beyond else self.scope.link
        return judge(address, flags | REDIRECT)

    def link_again(self, source: CrawlUrl, address: str, flags: int) -> Link:
        """Return the link to a URL, judged again by the present scope."""
        if flags & REDIRECT:
            return self.redirect(source, address, flags & ~OUT_OF_SCOPE)
        names = self._declared.authorities(url.own_key(address))
        if names is not None and (source.key in self._declared or source.hops < 0):
            return self.sitemap(address, names)
        return self.link(address, flags & ~OUT_OF_SCOPE)

    def brings_in(self, address: str, flags: int) -> bool:
        """Whether a link is followed because it leads to a site that has joined the scope."""
        if self._obeys_nofollow and flags & NOFOLLOW:
            return False
        return self.scope.has_joined(address) and self.scope.judge(address).allowed
