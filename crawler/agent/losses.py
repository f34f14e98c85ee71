"""Goes on without clients of a seed server that are lost, in the same run (docs/dynamic.md).

Each rank hears of a loss by its transport. If every rank can do without the lost one
(`core.members`), all go on, and no message between them is lost. The server of the lost client
reads the client's log from where its reports end. Then it hands the client's URLs to others.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from crawler import session, url
from crawler.agent.planning import Plan
from crawler.agent.timing import Alarm, Turn
from crawler.agent.widening import Widening
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.members import Logged, Members
from crawler.faults import Faults
from crawler.ports import COOKIES_LOST, Clock, CrawlUrl, Link, Transport
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.reader import PageReader
from crawler.reading.scope import Scope

DEAD_LOCK_S: Final = 120.0  # a file server holds the locks of a dead node for a minute or more
_POLL_S: Final = 0.05
_LOG = logging.getLogger("crawler")


class Losses:
    """What one rank does when others are lost."""

    def __init__(
        self,
        plan: Plan,
        core: Core,
        transport: Transport,
        scope: Scope,
        reader: PageReader,
        declared: DeclaredSitemaps,
        widening: Widening,
        wire: Wire,
        alarm: Alarm,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self._plan = plan
        self._core = core
        self._transport = transport
        self._scope = scope
        self._reader = reader
        self._declared = declared
        self._widening = widening
        self._wire = wire
        self._alarm = alarm
        self._clock = clock
        self._faults = faults
        self._lost: asyncio.Queue[int] = asyncio.Queue()  # clients of this server

    def bear(self, ranks: Collection[int]) -> bool:
        """Go on without lost ranks. Returns whether this rank can do that."""
        members, transport = self._core.members, self._transport
        if members is None or not ranks or not all(map(members.may_lose, ranks)):
            return False
        transport.forgo(ranks)
        for rank in filter(members.serves, ranks):
            self._lost.put_nowait(rank)
        if transport.rank == 0:
            lost = len(transport.lost)
            _LOG.warning("ranks lost: %d; %d go on", lost, transport.size - lost)
        return True

    async def stage(self, give_up: Callable[[], None]) -> None:
        """Have the URLs of lost clients handed to others. If that fails, call `give_up`, and end.

        It fails if the server would be left without clients, or if the process of a lost client
        still holds its log open.
        """
        while (members := self._core.members) is not None:
            rank = await self._lost.get()
            if not await self._take_over(rank, members):
                give_up()
                return

    async def _take_over(self, rank: int, members: Members) -> bool:
        plan = self._plan
        earlier = plan.logs[rank] if plan.logs else ()  # those that the client read in a resume
        before = set[Path]().union(*plan.logs)
        logs = _files_of(rank, session.log_files(plan.directory))
        logs = [path for path in logs if path not in before]  # of this run: one, or none
        first = members.reported(rank)
        entries, rests = list[session.Entry](), dict[str, float]()
        try:
            if not await self._await_end(logs):
                return False
            session.mend({path.parent.parent for path in logs})
            entries = await self._read(logs, first)
            files = _files_of(rank, session.request_files(plan.directory))
            rests = session.read_rests(files, self._clock, killed=True)
        except OSError as error:
            words = "the log of lost rank %d can't be read: %s; pages there may be fetched again"
            _LOG.warning(words, rank, error)
        if not members.may_lose(rank):
            return False
        now = self._clock.now()
        for one in session.joined(plan.directory):
            self._core.joining.join(*one, now)
        self._introduce(entries, now)
        self._widening.adopt([*earlier, *logs])
        pages = [entry for entry in entries if isinstance(entry, session.LoggedPage)]
        correct = session.Correction(self._scope.joined, self._reader.brings_in)
        unreported = map(correct, pages[members.reported(rank) - first :])
        members.lose(rank, map(self._logged, unreported), now, rests)
        _LOG.info("taken over", extra={"about": {"client": rank, "rows": len(pages)}})
        self._wire.deliver(self._core, now)
        self._alarm.ring()
        return True

    async def _await_end(self, logs: Sequence[Path]) -> bool:
        """Wait until the process that writes these logs has ended. Returns whether it has."""
        deadline = self._clock.now() + DEAD_LOCK_S
        while any(map(session.is_open, logs)):
            if self._clock.now() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _read(self, logs: Sequence[Path], first: int) -> list[session.Entry]:
        """The sitemaps in these logs, and the pages from the number `first` on."""
        turn, pages, entries = Turn(self._clock), 0, []
        for entry in chain.from_iterable(map(session.read_log, logs)):
            pages += isinstance(entry, session.LoggedPage)
            if pages > first or isinstance(entry, session.LoggedSitemaps):
                entries.append(entry)
            await turn.rest()
        return entries

    def _introduce(self, entries: Iterable[session.Entry], now: float) -> None:
        """Admit the sitemaps that the client's robots.txt files have named."""
        for entry in entries:
            if isinstance(entry, session.LoggedSitemaps):
                names = entry.authority
                found = []
                for address in entry.urls:
                    self._declared.declare(url.key(address), names)
                    found.append(self._reader.sitemap(address, names))
                self._core.resumption.admit_again(None, found, now)

    def _logged(self, page: session.LoggedPage) -> Logged:
        """A row as `Members.lose` wants it. The cookies of redirects are lost, as in a resume."""
        row, keys, links = page.row, page.keys.tolist(), []
        if page.sitemaps_of is not None:
            for key in keys:
                self._declared.declare(key, page.sitemaps_of)
        more = COOKIES_LOST if page.gives_cookies or page.return_key is not None else 0
        for key, address, flags in zip(keys, page.urls, page.flags, strict=True):
            try:
                links.append(Link(key, address, self._scope.sites.of(address), flags | more))
            except BaseException as error:
                self._faults.note(error, "the link", address)
        found = CrawlUrl(row.key, row.url, row.site, row.hops, page.chain)
        return Logged(found, links, row.status is not None)


def _files_of(rank: int, files: Iterable[Path]) -> list[Path]:
    return [path for path in files if session.rank_of(path) == rank]
