"""Sites that join the scope during the crawl, because redirects of seeds lead there.

A rank may have found links to such a site before it learned that the site had joined. Its log has
these links, flagged as out of scope. So the rank reads its own log files and admits these links.
Meanwhile the rank isn't passive, so the crawl doesn't end.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from crawler import session
from crawler.agent.room import with_room
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.ports import OUT_OF_SCOPE, Clock, CrawlUrl, Link
from crawler.reading.judge import Judge
from crawler.reading.scope import Scope
from crawler.session import Correction, Entry, Joined, LoggedPage, LoggedSitemaps, RankStore

_TURN_S: Final = 0.003
_REST: Final = 9  # a pause between two readings of the logs is so many times as long as a reading
_POLL_S: Final = 0.05


class Widening:
    """Admits earlier links of this rank to sites that join the scope."""

    def __init__(
        self,
        core: Core,
        judge: Judge,
        store: RankStore,
        logs: Sequence[Path],
        wire: Wire,
        clock: Clock,
    ) -> None:
        """`logs`: the files of earlier runs that this rank reads."""
        self._core = core
        self._judge = judge
        self._store = store
        self._logs = list(logs)
        self._wire = wire
        self._clock = clock

    def adopt(self, logs: Iterable[Path]) -> None:
        """Look also into the logs that a lost rank has read and written, from now on.

        The lost rank may not have admitted all links to the sites that have joined so far.
        """
        self._logs += logs
        self._core.joining.look_again()

    async def stage(self) -> None:
        """Add sites to the scope when the core learns that they join it."""
        while True:
            await self._wire.joining.wait()
            began = self._clock.now()
            await self._widen()
            if not self._core.joining.sites:
                self._wire.joining.clear()
            await self._rest(_REST * (self._clock.now() - began))

    async def _widen(self) -> None:
        core = self._core
        joining = [Joined(*one) for one in core.joining.sites]
        await with_room(partial(self._store.note_joined, joining))
        for one in joining:
            self._judge.scope.join(one.site)
        wholly, ends = True, self._clock.now() + _TURN_S
        logs = (*self._logs, self._store.log_path)
        entries = chain.from_iterable(map(session.read_log, logs))
        sites = {one.site for one in joining}
        for _ in admit_late(core, self._judge, sites, entries, self._clock.now):
            if core.halt.stopping:
                wholly = False
                break
            if self._clock.now() >= ends:
                self._wire.deliver()
                await asyncio.sleep(0)
                ends = self._clock.now() + _TURN_S
        core.joining.end(len(joining), wholly=wholly)
        self._wire.deliver()

    async def _rest(self, seconds: float) -> None:
        """Wait before the logs are read again, as long as the rank has other work."""
        ends = self._clock.now() + seconds
        while self._clock.now() < ends and self._core.waiting and not self._core.halt.stopping:
            await asyncio.sleep(_POLL_S)


def admit_late(
    core: Core,
    judge: Judge,
    sites: Collection[str],
    entries: Iterable[Entry],
    now: Callable[[], float],
) -> Iterator[None]:
    """Admit logged links to sites that have joined the scope since the links were judged.

    The iterator yields after each entry of the logs.
    """
    scope = judge.scope
    site_of = scope.sites.of

    def follows(address: str, flags: int) -> bool:
        return site_of(address) in sites and judge.brings_in(address, flags)

    correction = Correction(sites, follows)
    for entry in entries:
        if isinstance(entry, LoggedPage):
            if late := dict(correction.late(entry)):
                _admit_page(core, scope, entry, late, now())
        elif isinstance(entry, LoggedSitemaps):
            if scope.sites.of_authority(entry.authority) in sites:
                links = [judge.sitemap(address, entry.authority) for address in entry.urls]
            else:
                links = [scope.link(address) for address in entry.urls if follows(address, 0)]
            core.joining.admit_late(None, links, (), now())
        yield


def _admit_page(
    core: Core, scope: Scope, page: LoggedPage, late: Mapping[int, str], now: float
) -> None:
    """Admit the late links of a page. `late`: their URLs, by the number of the link."""
    row, flags = page.row, page.flags
    source = CrawlUrl(row.key, row.url, row.site, row.hops, page.chain)
    found = [scope.link(address, flags[number] & ~OUT_OF_SCOPE) for number, address in late.items()]
    before = [
        Link(key, address, scope.sites.of(address), flags[number])
        for number, (key, address) in enumerate(zip(page.keys.tolist(), page.urls, strict=True))
        if not flags[number] & OUT_OF_SCOPE
    ]
    core.joining.admit_late(source, found, before, now)
