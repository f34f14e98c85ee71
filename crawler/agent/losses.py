"""Goes on without clients of a seed server that are lost, in the same run (docs/dynamic.md).

Each rank hears of a loss by its transport. If every rank can do without the lost one
(`core.members`), all go on, and no message between them is lost. The server of the lost client
reads the client's log twice: the rows, and then the links of the rows that the client hasn't
reported. So it hands the client's URLs to others.
"""

import asyncio
import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from crawler import session, url
from crawler.agent.earlier import admit_for_lost
from crawler.agent.planning import Plan
from crawler.agent.timing import Turn
from crawler.agent.widening import Widening
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.members import Logged, Members
from crawler.faults import Faults
from crawler.ports import COOKIES_LOST, Clock, CrawlUrl, Link, Transport
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import Judge

DEAD_LOCK_S: Final = 120.0  # a file server holds the locks of a dead node for a minute or more
_POLL_S: Final = 0.05
_LOG = logging.getLogger("crawler")


class _Legacy(msgspec.Struct):
    """What stands in the log of a lost client, without links."""

    keys: defaultdict[str, "array[int]"] = msgspec.field(
        default_factory=lambda: defaultdict(lambda: array("Q"))
    )  # of all rows, by site
    pages: int = 0  # rows with a response
    again: set[int] = set()  # `LoggedPage.request_key` of second requests
    sitemaps: list[session.LoggedSitemaps] = []


class Losses:
    """What one rank does when others are lost."""

    def __init__(
        self,
        plan: Plan,
        core: Core,
        transport: Transport,
        judge: Judge,
        declared: DeclaredSitemaps,
        widening: Widening,
        wire: Wire,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self._plan = plan
        self._core = core
        self._transport = transport
        self._scope = judge.scope
        self._judge = judge
        self._declared = declared
        self._widening = widening
        self._wire = wire
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
        legacy, rests = _Legacy(), dict[str, float]()
        try:
            if not await self._await_end(logs):
                return False
            session.mend({path.parent.parent for path in logs})
            session.restore_lines(logs)
            legacy = await self._look_through(logs)
            files = _files_of(rank, session.request_files(plan.directory))
            rests = session.read_rests(files, self._clock, killed=True)
        except OSError as error:
            self._warn(rank, error)
        if not members.may_lose(rank):
            return False
        now = self._clock.now()
        for one in session.joined(plan.directory):
            self._core.joining.join(*one, now)
        self._introduce(legacy, now)
        self._widening.adopt([*earlier, *logs])
        members.lose(rank, legacy.keys, legacy.pages, now, rests)
        try:
            await self._recover(rank, members, logs, legacy)
            await self._inherit(earlier, members.earlier_links(rank), legacy)
        except OSError as error:
            self._warn(rank, error)
        members.hand_on(rank, self._clock.now())
        _LOG.info("taken over", extra={"about": {"client": rank, "pages": legacy.pages}})
        self._wire.deliver()
        return True

    def _warn(self, rank: int, error: OSError) -> None:
        words = "the log of lost rank %d can't be read: %s; pages there may be fetched again"
        _LOG.warning(words, rank, error)

    async def _await_end(self, logs: Sequence[Path]) -> bool:
        """Wait until the process that writes these logs has ended. Returns whether it has."""
        deadline = self._clock.now() + DEAD_LOCK_S
        while any(map(session.is_open, logs)):
            if self._clock.now() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _look_through(self, logs: Sequence[Path]) -> _Legacy:
        """Read the logs of a lost client once, without their links."""
        turn, legacy = Turn(self._clock), _Legacy()
        for entry in chain.from_iterable(map(session.read_log, logs)):
            if isinstance(entry, session.LoggedPage):
                legacy.keys[entry.row.site].append(entry.row.key)
                legacy.pages += entry.row.status is not None
                if entry.is_again:
                    legacy.again.add(entry.request_key)
            elif isinstance(entry, session.LoggedSitemaps):
                legacy.sitemaps.append(entry)
            await turn.rest()
        return legacy

    def _introduce(self, legacy: _Legacy, now: float) -> None:
        """Admit the sitemaps that the client's robots.txt files have named."""
        for named in legacy.sitemaps:
            found = []
            for address in named.urls:
                self._declared.declare(url.own_key(address), named.authority)
                found.append(self._judge.sitemap(address, named.authority))
            self._core.resumption.admit_again(None, found, now)

    async def _recover(
        self, rank: int, members: Members, logs: Sequence[Path], legacy: _Legacy
    ) -> None:
        """Admit the links of the rows that the client hasn't reported."""
        correct = session.Correction(self._scope.joined, self._judge.brings_in)
        turn, entries = Turn(self._clock), chain.from_iterable(map(session.read_log, logs))
        pages = (entry for entry in entries if isinstance(entry, session.LoggedPage))
        for number, page in enumerate(pages):
            if number >= members.reported(rank):
                row = self._logged(correct(page), legacy.again)
                members.recover(rank, row, self._clock.now())
                self._wire.deliver()
            await turn.rest()
            await self._wire.await_room()

    async def _inherit(
        self, earlier: Sequence[Path], packed: bytes | None, legacy: _Legacy
    ) -> None:
        """Admit the links of earlier runs that the client has had to admit in a resume.

        `packed`: the keys of their targets.
        """
        if packed is None:
            return
        links = np.frombuffer(packed, np.uint64)
        links = links[~np.isin(links, np.fromiter(legacy.again, np.uint64))]
        plan = self._plan
        for _ in admit_for_lost(
            self._core,
            earlier,
            links,
            plan.settings,
            self._judge,
            self._faults,
            self._clock,
            judges_again=plan.judges_again,
            correct=session.Correction(self._scope.joined, self._judge.brings_in),
        ):
            self._wire.deliver()
            await asyncio.sleep(0)
            await self._wire.await_room()

    def _logged(self, page: session.LoggedPage, again: Container[int]) -> Logged:
        """A row as `Members.recover` wants it. The cookies of redirects are lost, as in a resume.

        `again`: the keys of the later requests for URLs to which redirects lead back.
        """
        row, keys, links = page.row, page.keys.tolist(), []
        found = CrawlUrl(row.key, row.url, row.site, row.hops, page.chain)
        if page.return_key in again or page.is_loop:
            return Logged(found, (), row.status is not None)
        if page.sitemaps_of is not None:
            for key in keys:
                self._declared.declare(key, page.sitemaps_of)
        more = COOKIES_LOST if page.gives_cookies or page.return_key is not None else 0
        for key, address, flags in zip(keys, page.urls, page.flags, strict=True):
            try:
                links.append(Link(key, address, self._scope.sites.of(address), flags | more))
            except BaseException as error:
                self._faults.note(error, "the link", address)
        return Logged(found, links, row.status is not None)


def _files_of(rank: int, files: Iterable[Path]) -> list[Path]:
    return [path for path in files if session.rank_of(path) == rank]
