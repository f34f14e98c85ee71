"""Shows what the crawler does with a URL, and why: the commands `fetch` and `explain`."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from crawler import config, url
from crawler.agent.timing import SystemClock
from crawler.core.courtesy import Courtesy
from crawler.core.ownership import Ownership
from crawler.core.schemes import make_scheme, place_parts
from crawler.core.tree import Tree
from crawler.faults import Faults
from crawler.modes import mode_of
from crawler.net import DnsResolver, HttpFetcher, fetch_robots
from crawler.ports import NO_HTTPS, CrawlUrl, Failure, Fetched, FetchError, Response, UserError
from crawler.reading.cookies import Jars
from crawler.reading.parse import finish
from crawler.reading.reader import REDIRECTS, PageReader, make_scope
from crawler.reading.robots import Rules
from crawler.reading.scope import Scope
from crawler.session import digest, joined, parse_seed, read_seeds


async def fetch(settings: config.Config, urls: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    """Fetch URLs as a crawl would. Gives one object for each URL, in their order.

    Redirects are followed. A host name without a scheme is asked for by https, and by http if https
    can't be reached. No robots.txt is asked for, because a person asked for this page.
    Fields: url, status or error, redirects (each with url, status and location), headers, encoding,
    bytes, truncated, digest, links (each with url and flags, see ports).
    """
    async with AsyncExitStack() as stack:
        fetcher = await _fetcher(settings, stack)
        for address in urls:
            yield await _fetch_one(settings, fetcher, address)


async def _fetcher(settings: config.Config, stack: AsyncExitStack) -> HttpFetcher:
    private = settings.fetch.allow_private_addresses
    resolver = await stack.enter_async_context(DnsResolver(settings.dns, private, SystemClock()))
    return await stack.enter_async_context(
        HttpFetcher(settings.fetch, resolver, sites=settings.sites)
    )


async def _fetch_one(settings: config.Config, fetcher: HttpFetcher, address: str) -> dict[str, Any]:
    """Fetch one URL. The traceback of an internal error goes to the log."""
    faults = Faults()
    result: dict[str, Any] = {"url": address, "redirects": []}
    try:
        target = _normalised(settings, address)
    except url.BadUrlError:
        return {**result, "error": Failure.BAD_URL.value}
    jars = Jars()
    reader = PageReader(settings, _scope(settings, target), jars=jars)
    try:
        response, failure = await _follow(fetcher, reader, jars, target, result["redirects"])
        if failure in NO_HTTPS and parse_seed(address).startswith("//"):
            target = f"http:{target.removeprefix('https:')}"
            response, failure = await _follow(fetcher, reader, jars, target, result["redirects"])
    except BaseException as error:
        faults.note(error, "the exchange", target)
        return {**result, "error": Failure.INTERNAL.value}
    if response is None:
        return {**result, "error": failure}
    page = None
    if response.has_page:
        try:
            page = finish(reader.page(response))
        except BaseException as error:
            faults.note(error, "the page", response.url)
            failure = Failure.INTERNAL
    if failure is not None:
        result["error"] = failure.value
    return {
        **result,
        "status": response.status,
        "headers": [
            [name.decode("latin-1"), value.decode("latin-1")] for name, value in response.headers
        ],
        "encoding": (page.encoding or None) if page else None,
        "bytes": len(response.payload),
        "truncated": response.truncated,
        "digest": digest(response.stored),
        "links": [{"url": target, "flags": flags} for target, flags in page.links.items()]
        if page
        else [],
    }


async def _follow(
    fetcher: HttpFetcher,
    reader: PageReader,
    jars: Jars,
    target: str,
    redirects: list[dict[str, Any]],
) -> tuple[Response | None, Failure | None]:
    """The response at the end of the redirects, if any, and the failure, if any."""
    found = CrawlUrl(url.key(target), target, url.site(target), 0)
    try:
        response = await fetcher.fetch(target)
        while response.status in REDIRECTS:
            target = reader.redirect_target(response)
            step = Fetched(found, response.started, response)
            for _ in reader.read(step):
                pass  # the pauses that `read` offers aren't needed: nothing else runs
            if step.failure is Failure.TOO_MANY_REDIRECTS:
                return None, step.failure
            redirects.append({"url": response.url, "status": response.status, "location": target})
            if step.failure is not None:
                return None, step.failure
            chain, jar = (*found.chain, found.key), jars.take(found.key)
            found = CrawlUrl(url.key(target), target, url.site(target), 0, chain)
            jars.put(found.key, jar)
            response = await fetcher.fetch(target, cookie=reader.cookie(found))
    except url.BadUrlError:
        return None, Failure.BAD_REDIRECT
    except FetchError as error:
        return None, error.failure
    return response, response.failure


def _normalised(settings: config.Config, address: str) -> str:
    """Normalise a URL as a seed is normalised. Raises BadUrlError."""
    normalised = url.of_seed(parse_seed(address))
    fold = settings.normalise.folding()
    return fold(normalised) if fold else normalised


def _scope(settings: config.Config, address: str) -> Scope:
    """The scope for the seeds of the configuration. Without seeds, the address is the only seed.

    If the configuration names a session, sites that joined its scope are in scope, too.
    """
    seeds = read_seeds(settings) or [address]
    scope = make_scope(settings, seeds, time.gmtime().tm_year)
    if settings.session.directory:
        scope.restore_joined(one.site for one in joined(Path(settings.session.directory)))
    return scope


async def explain(
    settings: config.Config,
    address: str,
    ranks: int,
    *,
    robots_file: Path | None = None,
    offline: bool = False,
) -> dict[str, Any]:
    """Say what a crawl with this configuration and `ranks` ranks does with a URL.

    Fields: url, normalised, scope {allowed, rule}, robots {allowed, line}, site, delay_s,
    connections, sites (the numbers of the `[[sites]]` that match), key (16 hex digits), part, rank,
    why. If the configuration has no seeds, the URL is the only seed.
    `robots_file`: is read instead of the site's robots.txt. `offline`: no request is sent, so
    without a `robots_file` the field robots is null.
    """
    try:
        normalised = _normalised(settings, address)
    except url.BadUrlError:
        return {"url": address, "normalised": None, "why": "not an http or https URL"}
    scope = _scope(settings, normalised)
    verdict = scope.judge(normalised)
    rules = await _rules(settings, normalised, robots_file, offline=offline)
    scheme = make_scheme(settings, ranks)
    ownership = Ownership(0, scheme, place_parts(scheme, ranks), "claim")
    site, key = scope.sites.of(normalised), url.key(normalised)
    overrides = settings.overrides()
    courtesy = Courtesy(settings.politeness, overrides)
    part = ownership.part(CrawlUrl(key, normalised, site, 0))
    if not verdict.allowed:
        why = f"not fetched: {verdict.rule}"
    elif rules is not None and not rules.allows(normalised):
        why = "not fetched: robots.txt forbids it"
    elif not mode_of(settings).divides:
        part, why = (
            None,
            f"fetched by each rank that finds it: session.mode = {settings.session.mode!r}",
        )
    elif part is None:
        why = (
            f"its site isn't in the part vector: assignment.unlisted ="
            f" {settings.assignment.unlisted!r} decides, the registrar is rank"
            f" {ownership.registrar(site)}"
        )
    elif ownership.tree is not None:
        part, why = _served(ownership.tree, site)
    else:
        why = f"fetched by rank {ownership.rank_of_part[part]}, by {settings.assignment.scheme}"
    robots, delay_s = None, courtesy.delay_s(site)
    if rules is not None:
        crawl_delay_s = min(rules.crawl_delay or 0.0, settings.politeness.max_crawl_delay_s)
        delay_s = max(delay_s, crawl_delay_s)
        allowed, line = rules.decide(normalised)
        robots = {"allowed": allowed, "line": line}
    return {
        "url": address,
        "normalised": normalised,
        "scope": {"allowed": verdict.allowed, "rule": verdict.rule},
        "robots": robots,
        "site": site,
        "delay_s": delay_s,
        "connections": courtesy.connections(site),
        "sites": [number + 1 for number in overrides.numbers(site)],
        "key": f"{key:016x}",
        "part": part,
        "rank": None if part is None else ownership.rank_of_part[part],
        "why": why,
    }


def _served(tree: Tree, site: str) -> tuple[int | None, str]:
    """The client that fetches a URL under dynamic assignment, if that is known, and why."""
    number, holder = tree.dsets.of(site), tree.dsets.holder(site)
    server = tree.server_of(holder)
    if holder != server:
        how = "handed out by" if tree.hands_out else "below"
        return holder, f"fetched by rank {holder}, which holds DSet {number}, {how} rank {server}"
    clients = ", ".join(map(str, tree.clients_of(server)))
    what = "hands it" if tree.hands_out else "gives its site"
    return None, f"the seed server at rank {server} {what} to one of its clients (ranks {clients})"


async def _rules(
    settings: config.Config, address: str, robots_file: Path | None, *, offline: bool
) -> Rules | None:
    if robots_file is not None:
        try:
            return Rules.parse(robots_file.read_bytes(), settings.robots.agent)
        except OSError as error:
            raise UserError(
                f"--robots-file {robots_file}: {error.strerror}; name a file that can be read"
            ) from None
    obeys = settings.overrides().of(url.site(address)).robots
    if offline or not (settings.robots.obey if obeys is None else obeys):
        return None
    async with AsyncExitStack() as stack:
        fetcher = await _fetcher(settings, stack)
        return await fetch_robots(fetcher, url.authority(address), settings.robots.agent)
