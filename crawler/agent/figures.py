"""What a rank counts: notes to rank 0 while the crawl runs, and the rank's counters at the end."""

import asyncio
import os
import resource
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from crawler.agent.board import Board
from crawler.agent.log import RankLog
from crawler.agent.progress import Tally
from crawler.agent.timing import LoopWatch
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.extensions import Errors, count_errors
from crawler.faults import Faults
from crawler.messages import Note
from crawler.ports import Clock, Transport
from crawler.reading.scope import Scope
from crawler.reading.traps import TrapMonitor
from crawler.report.counters import Counters, DynamicCounts
from crawler.session import RankStore, State

_NOTE_INTERVAL_S: Final = 1.0
_SAMPLES: Final = 500  # points of a curve that a rank keeps, at most
_STATM: Final = Path("/proc/self/statm")


class Figures:
    """Collects what the parts of an agent count."""

    def __init__(
        self,
        core: Core,
        scope: Scope,
        tally: Tally,
        store: RankStore,
        wire: Wire,
        transport: Transport,
        clock: Clock,
        faults: Faults,
        traps: TrapMonitor,
    ) -> None:
        self._core = core
        self._scope = scope
        self._tally = tally
        self._store = store
        self._wire = wire
        self._transport = transport
        self._clock = clock
        self._faults = faults
        self._traps = traps
        self.handlers: Sequence[Errors] = ()
        self.loop = LoopWatch()
        self._progress: list[tuple[float, int]] = []
        self._queue: list[tuple[float, int]] = []
        self._clients: dict[str, list[tuple[float, ...]]] = {}  # samples of each, see DynamicCounts

    async def note_stage(self, board: Board, log: RankLog) -> None:
        """Every second, send a note to rank 0 with counts and warnings. Rank 0 tells the user.

        The rank also writes the lines of its crawl.log that wait.
        """
        while True:
            due = self._clock.now() + _NOTE_INTERVAL_S
            await asyncio.sleep(_NOTE_INTERVAL_S)
            self._store.write_lines()
            note = self.note(log.take_warnings(), lag_s=max(0.0, self._clock.now() - due))
            self._progress.append(self._sample())
            self._queue.append(self._length())
            if len(self._progress) > _SAMPLES:
                del self._progress[::2], self._queue[::2]
            self._sample_clients()
            if self._transport.rank == 0:
                board.update(0, note)
                board.show(self._state())
                continue
            neighbour, message = self._core.address(0, note)
            if not self._transport.backlog(neighbour):  # it has received the last note
                self._wire.send(neighbour, message)

    def note(self, warnings: list[str], lag_s: float = 0.0) -> Note:
        """Return a note on what this rank has counted so far. See Note."""
        core, tally = self._core, self._tally
        sites = core.count_sites(self._clock.now())
        return Note(
            pages=tally.pages,
            bytes=tally.bytes,
            waiting=core.unfetched,
            errors=tally.errors,
            warnings=warnings,
            good=tally.good,
            requests=tally.requests,
            statuses=list(tally.statuses),
            by_failure=dict(tally.by_failure),
            early=self._store.early,
            sites_ready=sites.ready,
            sites_resting=sites.resting,
            hosts_failing=sites.failing,
            fetching=core.unfinished.visits,
            connections=core.connections,
            cpu_s=time.process_time(),
            lag_s=lag_s,
            longest_break_s=self.loop.longest_s,
            memory=_memory(),
            backlog=self._wire.backlog(),
            urls_to=dict(core.traffic.urls_to),
            requisites=tally.requisites,
            no_room=self._store.lacks_room,
            troubles=tally.take_troubles(),
            messages=self._wire.messages_to.total(),
            sites=tally.sites.shown(),
            plugin_errors=self._plugin_errors(),
        )

    def _plugin_errors(self) -> dict[str, int]:
        plugins = *self._scope.filters, *self._core.plugins
        return count_errors([*(one.errors for one in plugins), *self.handlers])

    def _state(self) -> State:
        if self._core.halt.stopping:
            return State.STOPPING
        return State.PAUSED if self._core.halt.paused else State.CRAWLING

    def counters(self, seconds: float, limited: Mapping[str, int], *, remembers: bool) -> Counters:
        """Return the counters of this rank in a run that took `seconds`.

        `limited`: the seconds in which each `session.Bound` limited the crawl, as rank 0 knows.
        `remembers`: whether the rank remembers all URLs that it has sent. If not, it can't count
        different URLs.
        """
        traffic = self._core.traffic
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Counters(
            rank=self._transport.rank,
            seconds=seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * 1024,
            progress=[*self._progress, self._sample()],
            waiting=self._core.unfetched,
            requests=self._tally.requests,
            retries=self._core.retries,
            internal_errors=self._faults.count,
            by_trap=dict(self._scope.trapped + self._traps.fired),
            plugin_errors=self._plugin_errors(),
            inter_part_links=traffic.inter_part_links,
            dropped_links=traffic.dropped_links,
            inter_part_pages=traffic.inter_part_pages,
            inter_part_urls=traffic.inter_part_urls,
            urls_to={str(to): count for to, count in traffic.urls_to.items()},
            host=socket.gethostname(),
            queue=[*self._queue, self._length()],
            messages_page_part=traffic.messages_page_part,
            site_part=traffic.site_part,
            transmissions_target_part=traffic.transmissions_target_part if remembers else None,
            inter_part_requisites=self._core.requisites_sent,
            claims=traffic.claims,
            mpi_messages=self._wire.messages_to.total(),
            mpi_messages_to={str(to): count for to, count in self._wire.messages_to.items()},
            mpi_bytes=self._wire.bytes,
            dynamic=self._dynamic(),
            limited=limited,
            memory=self._core.budget.used(),
            longest_break_s=self.loop.longest_s,
        )

    def _dynamic(self) -> DynamicCounts | None:
        core = self._core
        if core.ownership.tree is None:
            return None
        self._sample_clients()
        role, traffic = core.role, core.traffic
        up, down = traffic.urls_up, traffic.urls_down
        return DynamicCounts(role.handed, role.returned, up, down, self._clients)

    def _sample_clients(self) -> None:
        for client, *facts in self._core.clients():
            samples = self._clients.setdefault(str(client), [])
            samples.append((self._clock.time(), *facts))
            if len(samples) > _SAMPLES:
                del samples[::2]

    def _sample(self) -> tuple[float, int]:
        return self._clock.time(), self._core.traffic.inter_part_urls

    def _length(self) -> tuple[float, int]:
        return self._clock.time(), self._core.unfetched


def _memory() -> int:
    """Return the bytes of this process that are in RAM."""
    return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
