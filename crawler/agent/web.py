"""How a rank gets pages and robots.txt files from the web, and pages of the previous session."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from crawler import config, session
from crawler.agent.progress import Tally
from crawler.agent.recording import RecordingFetcher
from crawler.agent.robots_gate import RobotsGate
from crawler.core.budget import Budget
from crawler.core.core import Core
from crawler.faults import Faults
from crawler.net import DnsResolver, HttpFetcher, NotingFetcher
from crawler.ports import Clock, CrawlDelay, Earlier, Fetcher, Group
from crawler.reading.scope import Sites

_RULES_BYTES: Final = 48 << 20  # of robots.txt files
_RULES_SHARE: Final = 16  # these are at most so small a part of the budget


class Web(NamedTuple):
    """What a rank fetches with. The request log gets a row for each request."""

    robots: RobotsGate
    pages: Fetcher
    find_earlier: Callable[[int], Earlier | None]  # a page of the previous session, by its key


async def open_web(
    stack: AsyncExitStack,
    settings: config.Config,
    core: Core,
    group: Group,
    sites: Sites,
    store: session.RankStore,
    manners: session.Manners,
    tally: Tally,
    faults: Faults,
    clock: Clock,
) -> Web:
    """Open connections and files, which `stack` closes, and return the ways to the web."""
    budget = core.budget
    fetcher = await _open_fetcher(stack, settings, faults, clock, budget)
    previous = stack.enter_context(await _open_previous(settings, core, group))
    budget.add("previous", previous.nbytes)
    noting = partial(
        NotingFetcher, fetcher, sites=sites, note=store.note, clock=clock, time=manners.time
    )
    recording = partial(RecordingFetcher, store=store, clock=clock)
    records = settings.storage.records
    fails = "failures" in records

    def note_delay(authority: str, crawl_delay_s: float) -> None:
        store.note(CrawlDelay(manners.time(clock.now()), authority, crawl_delay_s))

    robots = RobotsGate(
        settings.robots,
        recording(noting(kind="robots"), responses="robots" in records, failures=fails),
        clock,
        tally,
        faults,
        None if "robots" in records else store.keep,
        note_delay,
        sites.of,
        lambda address: core.door.run_errand(address, clock.now()),
        core.wake,
        lambda: core.halt.stopping,
        min(_RULES_BYTES, settings.seen.memory // _RULES_SHARE),
        settings.overrides(),
    )
    budget.add("robots", robots.nbytes)
    pages: Fetcher = noting(kind="page")
    if fails:
        pages = recording(pages, responses=False, failures=True)
    return Web(robots, pages, previous.find)


async def _open_fetcher(
    stack: AsyncExitStack, settings: config.Config, faults: Faults, clock: Clock, budget: Budget
) -> HttpFetcher:
    """Return the HTTP client of a rank, which `stack` closes."""
    resolver = await stack.enter_async_context(
        DnsResolver(settings.dns, settings.fetch.allow_private_addresses, clock)
    )
    budget.add("addresses", resolver.nbytes)
    return await stack.enter_async_context(
        HttpFetcher(
            settings.fetch,
            resolver,
            one_address=settings.politeness.per == "address",
            resends=False,
            faults=faults,
            sites=settings.sites,
        )
    )


async def _open_previous(settings: config.Config, core: Core, group: Group) -> session.Previous:
    """Return the pages of the previous session that this rank may have to fetch.

    All ranks read the session together.
    """
    if not settings.session.previous:
        return session.Previous.of_nothing()
    directory = Path(settings.session.previous)
    previous = await session.Previous.read(directory, group, core.ownership.only_fetcher)
    if core.is_server:  # it has read its share for the others
        previous.close()
        return session.Previous.of_nothing()
    return previous
