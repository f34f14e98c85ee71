"""The scope: whether a URL belongs to the crawl, and to which site it belongs.

No I/O happens here. The scope judges every distinct link of every page, so the verdicts on
authorities and links are cached.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from crawler import config, url
from crawler.extensions import Plugin
from crawler.ports import OUT_OF_SCOPE, CrawlUrl, Link, UserError, requisite
from crawler.reading.hosts import public_suffixes
from crawler.recent import Recent

_CACHED_BYTES = 14 << 20  # of each cache
_PLACE_BYTES = 230  # of an authority in a cache without its name, about
_LINK_BYTES = 210  # of a link in a cache without its URL, about
_TRAPS = "traps."


class Verdict(NamedTuple):
    """Whether a URL is in scope, and why."""

    allowed: bool
    rule: str  # the rule that decided, in words of the configuration


_ANY_HOST = Verdict(True, "any host")


class Sites:
    """Maps URLs to sites. The scheme of a URL doesn't matter.

    A site is the host with its port (`url.site`). If `kind` is "domain", it is the registrable
    domain by the Public Suffix List.
    """

    def __init__(self, kind: str) -> None:
        self.are_domains = kind == "domain"
        self._suffixes = public_suffixes() if self.are_domains else None
        self._make = self._registrable if self.are_domains else url.site
        self._known = Recent[str](_CACHED_BYTES, _place_bytes)  # by authority

    def nbytes(self) -> int:
        """About how many bytes of memory the cached sites take."""
        return self._known.nbytes()

    def of(self, address: str) -> str:
        """Return the site of a normalised URL."""
        authority = address[: address.index("/", 8)]  # without a call, as this is done for each URL
        return self._known.young.get(authority) or self.of_authority(authority)

    def of_authority(self, authority: str) -> str:
        """Return the site of an authority, `scheme://host[:port]`."""
        site = self._known.find(authority)
        if site is None:
            site = self._make(authority)
            self._known.keep(authority, site)
        return site

    def _registrable(self, authority: str) -> str:
        host = url.host_of_site(url.site(authority))
        assert self._suffixes is not None
        if host.replace(".", "").isdigit() or ":" in host:
            return host  # an address has no domain
        return self._suffixes.privatesuffix(host) or host


class Scope:
    """Judges whether URLs are in scope, by the rules in config.Scope."""

    def __init__(
        self,
        rules: config.Scope,
        sites: Sites,
        seeds: Iterable[str],
        trap: Callable[[str], str | None] = lambda _: None,
        filters: Sequence[Plugin[bool]] = (),
        *,
        by_scheme: bool = False,
    ) -> None:
        """Read the rules.

        `seeds` are normalised (`url.of_seed` gives their URLs); their sites are the scope if no
        rule names hosts. `trap` returns the rule on traps that a URL breaks by its shape, or None
        (traps.Shapes.rule). `filters`: see config.Scope.
        `by_scheme`: judge as earlier versions did, where `http://` and `https://` of a seed's host
        were two sites, and one of them could be out of scope.

        Raises UserError for a host, domain or suffix that no host name can match.
        """
        self.sites = sites
        self.trapped: Counter[str] = Counter()  # links by the rule of [traps] that keeps them out
        self._trap = trap
        self.filters = filters
        self._hosts = frozenset(_host_name(host, "hosts") for host in rules.hosts)
        self._any_host = "*" in rules.domains
        domains = (_host_name(name, "domains") for name in rules.domains if name != "*")
        self._domains = frozenset(domains)
        self._suffixes = frozenset(_host_name(name, "suffixes") for name in rules.suffixes)
        self._seeds: dict[int, str] = {}  # their URLs, by key
        self._bare: set[int] = set()  # the keys of those that the user gave without a scheme
        for seed in seeds:
            self.add_seed(seed)
        seeds = list(self._seeds.values())
        self.joined: set[str] = set()  # sites that redirects of seeds have brought in
        self._seed_sites: frozenset[str] = frozenset()
        self._seed_authorities: frozenset[str] = frozenset()  # empty: all of a seed's site
        self._above: frozenset[str] = frozenset()  # the hosts of the seeds, without www
        self._folders: dict[str, set[str]] = {}  # of the seeds, by host and port; empty: any folder
        if not (self._hosts or self._domains or self._suffixes or self._any_host):
            self._seed_sites = frozenset(map(sites.of, seeds))
            if rules.of_seeds == "subdomains":
                self._above = frozenset(url.host(seed).removeprefix("www.") for seed in seeds)
            elif rules.of_seeds == "path":
                for seed in seeds:
                    self._folders.setdefault(url.site(seed), set()).add(_folder(seed))
            if by_scheme and not sites.are_domains:
                self._seed_authorities = frozenset(map(url.authority, seeds))
        self._include = [re.compile(pattern) for pattern in rules.include]
        self._exclude = [re.compile(pattern) for pattern in rules.exclude]
        self._places = Recent[tuple[Verdict, str]](_CACHED_BYTES, _place_bytes)  # by authority
        # The links that `link` returns without further flags, by URL: most links of a page occur on
        # the neighbouring pages, too. Those that a rule on traps keeps out aren't here, because
        # `link` counts them each time.
        self.known = Recent[Link](_CACHED_BYTES, _link_bytes)

    def nbytes(self) -> int:
        """About how many bytes of memory the cached verdicts and links take."""
        return self._places.nbytes() + self.known.nbytes()

    def judge(self, address: str) -> Verdict:
        """Return the verdict on a normalised URL."""
        return self._judge(address, self.judge_host(url.authority(address)))

    def judge_host(self, authority: str) -> Verdict:
        """Return the verdict on the host of an authority. If it isn't allowed, no URL there is."""
        return self._place(authority)[0]

    def _place(self, authority: str) -> tuple[Verdict, str]:
        """Return the verdict on an authority, and its site."""
        place = self._places.find(authority)
        if place is None:
            place = self._judge_authority(authority), self.sites.of_authority(authority)
            self._places.keep(authority, place)
        return place

    def seed_of(self, found: CrawlUrl) -> str | None:
        """Return the seed that a URL is, or whose redirects led to it; None if there is none."""
        return self._seeds.get(found.chain[0] if found.chain else found.key)

    def by_http(self, found: CrawlUrl) -> str | None:
        """Return the URL by which a seed is asked for if https fails; None if there is none."""
        bare = not found.chain and found.key in self._bare
        return f"http:{found.url.removeprefix('https:')}" if bare else None

    @property
    def widens(self) -> bool:
        """Whether sites to which seeds redirect join the scope; they do if no rule names hosts."""
        return bool(self._seed_sites)

    def join(self, site: str) -> bool:
        """Add a site to the scope, if the scope widens. Returns whether the site is new in it."""
        if not self.widens or site in self.joined or site in self._seed_sites:
            return False
        self.joined.add(site)
        self._places.clear()
        self.known.clear()
        return True

    def add_seed(self, seed: str) -> None:
        """Note a seed, also during the crawl. If it isn't in scope then, its site must join."""
        address = url.of_seed(seed)
        key = url.own_key(address)
        self._seeds[key] = address
        if address != seed:
            self._bare.add(key)

    def restore_joined(self, sites: Iterable[str]) -> None:
        """Add the sites that joined in earlier runs. Must be called before a link is judged."""
        if self.widens:
            self.joined.update(sites)

    def has_joined(self, address: str) -> bool:
        """Whether the site of a normalised URL has joined the scope."""
        return bool(self.joined) and self.sites.of(address) in self.joined

    def _judge(self, address: str, verdict: Verdict) -> Verdict:
        """Return the verdict on a URL, given the verdict on its authority."""
        if not verdict.allowed:
            return verdict
        if self._folders and verdict is not _ANY_HOST and not self._is_below(address):
            return Verdict(False, "scope.of_seeds: not below the folder of a seed")
        if self._include:
            for pattern in self._include:
                if pattern.search(address):
                    verdict = Verdict(True, f"scope.include: {pattern.pattern}")
                    break
            else:
                return Verdict(False, "scope.include: no pattern matches")
        for pattern in self._exclude:
            if pattern.search(address):
                return Verdict(False, f"scope.exclude: {pattern.pattern}")
        for plugin in self.filters:
            if not plugin.ask(address, address):  # nor is a URL let in on which the plug-in fails
                return Verdict(False, f"scope.filters: {plugin.name}")
        trap = self._trap(address)
        return Verdict(False, _TRAPS + trap) if trap else verdict

    def _is_below(self, address: str) -> bool:
        """Whether a URL lies in the folder of a seed. A site that joined has the folders of all."""
        folders = self._folders.get(url.site(address)) or set().union(*self._folders.values())
        return _path(address).startswith(tuple(folders))

    def link(self, address: str, flags: int = 0) -> Link:
        """Return the link to a normalised URL, with OUT_OF_SCOPE among its flags if it is out."""
        link = self.known.find(address) or self._make_link(address)
        return Link(link.key, address, link.site, link.flags | flags) if flags else link

    def link_beyond(self, address: str, flags: int = 0) -> Link:
        """Return the link to a normalised URL that may be on any host.

        Only scope.include, scope.exclude and the rules on traps can put it out of scope.
        """
        link = self.link(address)
        if link.flags & OUT_OF_SCOPE and self._judge(address, _ANY_HOST).allowed:
            link = link._replace(flags=link.flags & ~OUT_OF_SCOPE)
        return link._replace(flags=link.flags | flags)

    def requisite(self, address: str) -> Link | None:
        """Return the link to a requisite with this normalised URL, by the name of the requisite.

        It may be on any host. Only scope.exclude, scope.filters and the rules on traps can keep it
        out: then this returns None.
        """
        if any(pattern.search(address) for pattern in self._exclude):
            return None
        if not all(plugin.ask(address, address) for plugin in self.filters):
            return None
        trap = self._trap(address)
        if trap is not None:
            self.trapped[trap] += 1
            return None
        name = requisite(address)
        return Link(url.own_key(name), name, self.sites.of(address), 0)

    def judge_beyond(self, address: str) -> Verdict:
        """Return the verdict on the target of a redirect of a seed.

        If the scope widens, the target may be on any host.
        """
        return self._judge(address, _ANY_HOST) if self.widens else self.judge(address)

    def _make_link(self, address: str) -> Link:
        """Return the link with no flag but OUT_OF_SCOPE, and remember it."""
        verdict, site = self._place(url.authority(address))
        allowed, rule = self._judge(address, verdict)
        link = Link(url.own_key(address), address, site, 0 if allowed else OUT_OF_SCOPE)
        if not allowed and rule.startswith(_TRAPS):
            self.trapped[rule.removeprefix(_TRAPS)] += 1
        else:
            self.known.keep(address, link)
        return link

    def _judge_authority(self, authority: str) -> Verdict:
        host = url.host(authority)
        if host in self._hosts:
            return Verdict(True, f"scope.hosts: {host}")
        if self._any_host:
            return Verdict(True, "scope.domains: *")
        if domain := _longest_ending(host, self._domains):
            return Verdict(True, f"scope.domains: {domain}")
        if suffix := _longest_ending(host.partition(".")[2], self._suffixes):
            return Verdict(True, f"scope.suffixes: {suffix}")
        site = self.sites.of_authority(authority)
        known = not self._seed_authorities or authority in self._seed_authorities
        if site in self._seed_sites and known:
            return Verdict(True, f"site of a seed: {site}")
        if _longest_ending(host, self._above):
            return Verdict(True, f"scope.of_seeds: subdomain of a seed: {host}")
        if site in self.joined:
            return Verdict(True, f"site that a seed redirects to: {site}")
        if self._seed_sites:
            return Verdict(False, "not the site of a seed")
        return Verdict(False, "no host, domain or suffix of the scope matches")


def _longest_ending(host: str, names: Container[str]) -> str:
    """Return the longest of these names that is the host or stands behind a dot of it, or ""."""
    ending = host if names else ""
    while ending and ending not in names:
        ending = ending.partition(".")[2]
    return ending


def _place_bytes(authority: str) -> int:
    return _PLACE_BYTES + len(authority)


def _link_bytes(address: str) -> int:
    return _LINK_BYTES + len(address)


def _path(address: str) -> str:
    """The path of a normalised URL, with what follows it."""
    return address[address.index("/", 8) :]


def _folder(address: str) -> str:
    path = _path(address).partition("?")[0]
    return path[: path.rindex("/") + 1]


_HOST_NAME = re.compile(r"[^/:@?#*\[\]\s]+")
_IPV6 = re.compile(r"\[?([0-9a-fA-F.]*:[0-9a-fA-F:.]*)\]?")


def _host_name(text: str, key: str) -> str:
    """Return a host name of `[scope]` as normalised URLs write it, without dots around it.

    Raises UserError, with the key of the configuration, if the text is no host name.
    """
    name = text.strip(".")
    if address := _IPV6.fullmatch(name):
        name = f"[{address[1]}]"
    if address or _HOST_NAME.fullmatch(name):
        with suppress(url.BadUrlError):
            return url.host(url.normalise(f"http://{name}/"))
    raise UserError(
        f"scope.{key}: {text!r} must be a host name or the end of one, without scheme, port or *"
    )
