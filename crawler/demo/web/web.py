"""Generates a web: its sites, pages, links and oddities. Says what a crawl of it must find."""

import math
import random
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self
from urllib.parse import quote

from crawler.demo.web.writing import TOPICS, WORDS, Link, Page, make_sentences, write

_KINDS: Final = "club archive journal museum guide forum society library notes atlas".split()  # noqa: SIM905
_ROBOTS: Final = b"""User-agent: badbot
Disallow: /

User-agent: *
Disallow: /private/
Allow: /private/open.html
"""


@dataclass(slots=True)
class _Site:
    index: int
    host: str
    topic: str
    popularity: float
    home: Page
    sections: list[Page]
    leaves: list[Page]

    @property
    def root(self) -> str:
        return f"http://{self.host}"

    @property
    def pages(self) -> list[Page]:
        return [self.home, *self.sections, *self.leaves]


@dataclass(repr=False)
class DemoWeb:
    """A web of sites, pages and links. `respond` answers requests to all its hosts.

    A crawl starts at `seeds`, and `hosts` are its scope. `pages` holds the HTML pages with status
    200, and `redirects` the redirects, both by normalised URL. Any other URL is a 404.
    """

    seed: int
    seeds: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    pages: dict[str, Page] = field(default_factory=dict)
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)  # status, target
    guarded: set[str] = field(default_factory=set)  # hosts whose robots.txt forbids /private/
    _pools: dict[str, list[str]] = field(default_factory=dict)  # sentences by topic

    @classmethod
    def generate(cls, seed: int, pages: int = 2000, sites: int = 48) -> Self:
        """Generate a web of about `pages` pages.

        The sizes of the sites follow a power law, but no site is much larger than all others.
        """
        rng = random.Random(seed)
        weights = [1 / (rank + 6) for rank in range(sites)]
        popularity = rng.sample(weights, sites)
        plan = [
            _plan_site(rng, index, max(8, round(pages * weight / sum(weights))), popularity[index])
            for index, weight in enumerate(weights)
        ]
        web = cls(seed, tuple(site.home.url for site in plan[:3]), tuple(s.host for s in plan))
        for site in plan:
            _link_inside(rng, site)
            _link_across(rng, site, plan)
        for site in plan:
            web.pages |= {page.url: page for page in site.pages}
            web._add_oddities(rng, site, plan)
        return web

    def _add_oddities(self, rng: random.Random, site: _Site, plan: list[_Site]) -> None:
        """Add redirects, dead links, duplicates and closed folders to a site.

        Links to them stand on randomly chosen pages of the site. Some kinds are only on some sites.
        """
        root, leaves = site.root, site.leaves

        def put(target: str) -> None:
            rng.choice(site.pages).links.append(Link(target))

        def redirect(path: str, target: str) -> None:
            self.redirects[root + path] = (rng.choice((301, 301, 302)), target)
            put(root + path)

        def add(path: str) -> Page:
            url = root + path
            self.pages[url] = Page(url, site.topic, _draw_size(rng), site.home.navigation)
            return self.pages[url]

        for section in site.sections[:2]:
            redirect(section.url.removeprefix(root).removesuffix("/"), section.url)
        for number in range(max(1, len(leaves) // 25)):
            redirect(f"/old/{number}.html", rng.choice(leaves).url)
            put(f"{root}/gone/{number}.html")
        for number in range(1 + len(leaves) // 60):
            redirect(f"/go/{number}", _elsewhere(rng, site, plan))
        if site.index % 2 == 0:  # the same bytes under two names
            self.pages[root + "/index.html"] = site.home
            put(root + "/index.html")
        if site.index % 3 == 0:
            self.guarded.add(site.host)
            site.home.links += [Link(root + "/private/"), Link(root + "/private/open.html")]
            add("/private/").links.append(Link(root + "/private/inner.html"))
            add("/private/inner.html")
            add("/private/open.html")
        if site.index % 4 == 0:  # a page that only a chain of redirects leads to
            self.redirects[root + "/before"] = (301, add("/moved/here.html").url)
            redirect("/long-before", root + "/before")
        site.home.links.append(Link(f"http://{site.topic}.elsewhere.test/"))

    def allowed(self, url: str) -> bool:
        """Whether the robots.txt of the URL's site allows it."""
        host, _, path = url.removeprefix("http://").partition("/")
        closed = path.startswith("private/") and path != "private/open.html"
        return not (closed and host in self.guarded)

    @cached_property
    def requests(self) -> frozenset[str]:
        """The URLs that a complete crawl requests: pages, redirects and dead links.

        The URLs of robots.txt files aren't among them.
        """
        seen = set(self.seeds)
        queue = deque(self.seeds)
        roots = tuple(f"http://{host}/" for host in self.hosts)
        while queue:
            url = queue.popleft()
            if url in self.redirects:
                targets = [self.redirects[url][1]]
            else:
                targets = self.pages[url].targets() if url in self.pages else []
            for target in targets:
                if target not in seen and target.startswith(roots) and self.allowed(target):
                    seen.add(target)
                    queue.append(target)
        return frozenset(seen)

    @cached_property
    def reachable(self) -> frozenset[str]:
        """The URLs that a complete crawl gets an HTML page for."""
        return self.requests & self.pages.keys()

    def respond(self, host: str, path: str) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body of the response to a request for `path` (with its query)."""
        url = f"http://{host}{path}"
        if url in self.pages:
            page = self.pages[url]
            body = write(page, self.seed, self._sentences(page.topic))
            in_header = page.encoding == "utf-8" or page.size % 2
            charset = f"; charset={page.encoding}" if in_header else ""
            return 200, [("Content-Type", f"text/html{charset}")], body
        if url in self.redirects:
            status, target = self.redirects[url]
            if len(path) % 2:
                target = target.removeprefix(f"http://{host}")
            return status, [("Location", target), ("Content-Type", "text/html")], b"<p>Moved."
        if path == "/robots.txt" and host in self.guarded:
            return 200, [("Content-Type", "text/plain")], _ROBOTS
        return 404, [("Content-Type", "text/html")], b"<h1>Not found</h1>"

    def _sentences(self, topic: str) -> list[str]:
        if topic not in self._pools:
            self._pools[topic] = make_sentences(random.Random(f"{self.seed} {topic}"), topic)
        return self._pools[topic]


def _plan_site(rng: random.Random, index: int, size: int, popularity: float) -> _Site:
    """Plan a site of `size` pages: a home page, sections, and leaves. It has no links yet."""
    topic = list(TOPICS)[index % len(TOPICS)]
    turn, kind = divmod(index // len(TOPICS), len(_KINDS))
    name = f"{topic}-{_KINDS[kind]}{turn + 1 if turn else ''}"
    host = f"{'www.' if index % 5 == 0 else ''}{name}.{('example', 'test')[index % 2]}"
    own = TOPICS[topic].split()
    names = rng.sample(own, max(1, min(8, round(math.sqrt(size) / 2))))
    navigation = [Link(f"http://{host}/"), *(Link(f"http://{host}/{name}/") for name in names)]

    def page(path: str) -> Page:
        page = Page(f"http://{host}{path}", topic, _draw_size(rng), navigation)
        chance = rng.random()
        if chance < 0.03:
            page.base = f"/{rng.choice(names)}/"
        elif chance < 0.09:
            page.encoding = rng.choice(("windows-1252", "windows-1251", "shift_jis"))
        return page

    pattern = rng.choices(("/{}/{}-{}.html", "/{}/{}-{}/", "/view?in={}&page={}-{}"), (6, 3, 1))[0]
    words = [*own, *WORDS[60:], "café"]
    leaves = [
        page(pattern.format(names[n % len(names)], quote(rng.choice(words)), n))
        for n in range(size - 1 - len(names))
    ]
    sections = [page(f"/{name}/") for name in names]
    return _Site(index, host, topic, popularity, page("/"), sections, leaves)


def _draw_size(rng: random.Random) -> int:
    return round(min(60_000, max(2_000, rng.lognormvariate(math.log(12_000), 0.75))))


def _link_inside(rng: random.Random, site: _Site) -> None:
    """Link the pages of a site: sections list leaves, leaves link to neighbours and others."""
    width = len(site.sections)
    for number, section in enumerate(site.sections):
        section.links += [Link(leaf.url) for leaf in site.leaves[number::width]]
    site.home.links += [Link(rng.choice(site.leaves).url) for _ in range(4)]
    for number, leaf in enumerate(site.leaves):
        around = (number - width, number + width)
        leaf.links += [Link(site.leaves[n].url) for n in around if 0 <= n < len(site.leaves)]
        leaf.links += [Link(_some_leaf(rng, site)) for _ in range(rng.randint(3, 7))]


def _some_leaf(rng: random.Random, site: _Site) -> str:
    return site.leaves[int(len(site.leaves) * rng.random() ** 2)].url  # the first ones are popular


def _link_across(rng: random.Random, site: _Site, plan: list[_Site]) -> None:
    """Add links to other sites.

    A ring of links goes through the sites of each community, and another through the communities,
    so that every site can be reached.
    """
    topics = len(TOPICS)
    ring = [site.index + topics if site.index + topics < len(plan) else site.index % topics]
    if site.index < topics:
        ring.append((site.index + 1) % min(topics, len(plan)))
    site.home.links += [Link(plan[number].home.url) for number in ring]
    for page in site.pages:
        for _ in range(min(10, round(rng.expovariate(1 / 2.6)))):
            rel = "nofollow" if rng.random() < 0.05 else ""
            page.links.append(Link(_elsewhere(rng, site, plan), rel))


def _elsewhere(rng: random.Random, site: _Site, plan: list[_Site]) -> str:
    """Choose a page of another site, mostly of the same community, and often its home page."""
    step = len(TOPICS) if rng.random() < 0.88 and len(plan) > 2 * len(TOPICS) else 1
    others = [n for n in range(site.index % step, len(plan), step) if n != site.index]
    if not others:
        return site.home.url
    other = plan[rng.choices(others, [plan[n].popularity for n in others])[0]]
    return other.home.url if rng.random() < 0.4 else _some_leaf(rng, other)
