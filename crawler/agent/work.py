"""The stages from the workbench to the log, as running tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import msgspec

from crawler import config
from crawler.agent.fetching import FetchStage
from crawler.agent.handlers import Handler, handle_stage
from crawler.agent.pipeline import busy_host_stage, dns_stage, most_waiting, parse_stage
from crawler.agent.progress import Tally
from crawler.agent.timing import Alarm
from crawler.agent.web import Web
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.visits import Visit
from crawler.faults import Faults
from crawler.ports import Clock, Fetched
from crawler.reading.reader import PageReader
from crawler.reading.traps import TrapMonitor
from crawler.session import RankStore

_AWAITING_NAMES: Final = 1024  # visits at a time; many, because a dead host name takes long
_PARSE_GRACE_S: Final = 5.0  # when the work is broken off: time to store what was fetched

T = TypeVar("T")


class _Shared(asyncio.Queue[T]):
    """A bounded queue of a stage that many tasks share.

    `start` starts a further task whenever the last idle task gets something, up to `most` tasks.
    Starting all of them at once took 8 ms of each crawl, and most crawls need few.
    """

    def __init__(self, maxsize: int, most: int, start: Callable[[], object]) -> None:
        super().__init__(maxsize)
        self._idle = 0
        self._more = most
        self._start = start

    def start_one(self) -> None:
        """Start a task, if there may be more."""
        if self._more:
            self._more -= 1
            self._start()

    async def get(self) -> T:
        """Return the next item. If no other task waits for one, start a further task."""
        self._idle += 1
        try:
            item = await super().get()
        finally:
            self._idle -= 1
        if not self._idle:
            self.start_one()
        return item


class Work(msgspec.Struct, frozen=True):
    """The stages from the workbench to the log, as running tasks."""

    asking: Sequence[asyncio.Task[None]]  # the stages up to FetchStage; more begin later
    to_handle: asyncio.Queue[Fetched]
    to_parse: asyncio.Queue[Fetched]
    storing: Sequence[asyncio.Task[None]]  # the stages behind it

    async def break_off(self) -> bool:
        """Drop what isn't fetched yet, and store what is fetched.

        Returns whether all of it was stored within `_PARSE_GRACE_S`.
        """
        for task in self.asking:
            task.cancel()
        if self.asking:  # a seed server has none
            await asyncio.wait(self.asking)
        stored = asyncio.ensure_future(self._stored())
        await asyncio.wait([stored], timeout=_PARSE_GRACE_S)
        in_order = stored.done()
        for task in (stored, *self.storing):
            task.cancel()
        await asyncio.wait(self.storing)
        return in_order

    async def _stored(self) -> None:
        """Wait until all that is fetched is stored."""
        await self.to_handle.join()
        await self.to_parse.join()


def start_work(
    tasks: asyncio.TaskGroup,
    settings: config.Config,
    core: Core,
    web: Web,
    handlers: Sequence[Handler],
    reader: PageReader,
    store: RankStore,
    tally: Tally,
    wire: Wire,
    alarm: Alarm,
    clock: Clock,
    faults: Faults,
    traps: TrapMonitor,
    first_request: float,
) -> Work:
    """Start the stages. `first_request`: the earliest time at which a visit may begin."""
    width = settings.fetch.concurrency
    asking: list[asyncio.Task[None]] = []

    def begin(one: Coroutine[Any, Any, None]) -> None:
        asking.append(tasks.create_task(one))

    def resolve() -> None:
        begin(dns_stage(to_resolve, web.pages, core, to_fetch, to_parse, alarm, clock, faults))

    to_resolve = _Shared[Visit](width, _AWAITING_NAMES, resolve)
    to_fetch = _Shared[Visit](width, width, lambda: begin(fetching.run()))
    to_parse: asyncio.Queue[Fetched] = asyncio.Queue(most_waiting(width))
    to_handle: asyncio.Queue[Fetched] = asyncio.Queue(width) if handlers else to_parse

    async def ask() -> None:
        await asyncio.sleep(first_request - clock.now())
        await busy_host_stage(core, to_resolve, to_parse, wire, alarm, clock)

    fetching = FetchStage(
        to_fetch,
        web.robots,
        web.pages,
        web.find_earlier,
        reader,
        store,
        core,
        to_handle,
        alarm,
        clock,
        faults,
    )
    if not core.is_server:
        begin(ask())
        to_resolve.start_one()
        to_fetch.start_one()
    parsing = parse_stage(
        to_parse,
        web.robots,
        reader,
        store,
        core,
        tally,
        wire,
        clock,
        faults,
        traps,
    )
    storing = [parsing, handle_stage(to_handle, handlers, to_parse)] if handlers else [parsing]
    return Work(asking, to_handle, to_parse, [tasks.create_task(one) for one in storing])
