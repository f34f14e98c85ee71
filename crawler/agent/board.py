"""Rank 0's view of all ranks: it makes the status of the crawl from their notes, and shows it."""

import asyncio
import contextlib
import sys
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from crawler import config, session
from crawler.agent.timing import SystemClock
from crawler.commandline import printable
from crawler.messages import Note, SitePages, Trouble
from crawler.ports import Clock, UserError
from crawler.session import Bound, RankStatus, SiteStatus, State, Status
from crawler.watch.words import line

if TYPE_CHECKING:  # only a terminal needs rich
    from crawler.watch.screen import Screen

_LINE_INTERVAL_S: Final = 10.0  # between two lines of progress
_WINDOW_S: Final = 60.0  # in which the present pace is measured
_BOUNDS: Final = 10  # seconds over which the bound of the whole crawl is taken
_TROUBLES: Final = 5
_SITES: Final = 5  # of each kind that are shown
_MOMENT_S: Final = 1.0  # a shorter time gives no pace
_FULL_CPU: Final = 0.9  # of a core
_LATE_S: Final = 0.25  # an event loop that is so late has too much to do


class Voice(Enum):
    """How much the crawl tells the user on standard error."""

    QUIET = "quiet"  # warnings only
    NORMAL = "normal"  # and the progress
    VERBOSE = "verbose"  # and URLs that give no page


class _Heard(NamedTuple):
    """The latest note of a rank."""

    note: Note
    time: float  # when it came
    cpu: float  # share of a core since the note before


class _Counts(NamedTuple):
    """What the notes count at one moment."""

    time: float
    pages: Mapping[int, int] = {}  # by rank
    failed: int = 0
    messages: int = 0


class Board:
    """Takes notes of all ranks, and shows what they say (`session.Status`).

    On a terminal, a table is drawn each second. Elsewhere (under mpirun, in the output of a job), a
    line is printed every ten seconds. A thread writes status.json and draws, because a disk may be
    slow.
    """

    def __init__(
        self,
        directory: Path,
        settings: config.Config,
        ranks: int,
        voice: Voice = Voice.NORMAL,
        clock: Clock | None = None,
    ) -> None:
        self.ranks = ranks
        self._directory = directory
        self._limits = settings.session
        self._most_bytes = settings.exchange.max_backlog_bytes
        self._voice = voice
        self._draws = voice is not Voice.QUIET and sys.stderr.isatty()
        self._prints = voice is not Voice.QUIET and not self._draws
        self._clock = clock or SystemClock()
        self._earlier = 0  # pages fetched before this run
        self._heard: dict[int, _Heard] = {}
        self._said: Counter[str] = Counter()
        self._bounds: deque[Bound] = deque(maxlen=_BOUNDS)
        self._limited_s = Counter[str]()  # seconds in which each bound limited the whole crawl
        self._troubles: deque[Trouble] = deque(maxlen=_TROUBLES)
        self._screen: Screen | None = None
        self._writing: asyncio.Future[None] | None = None
        self._began = self._shown = self._clock.now()
        self._started = self._clock.time()
        self._paces = deque([_Counts(self._began)])  # each second of the last minute
        self.latest = self.status(State.STARTING)

    def begin_after(self, pages: int, *, lost: bool) -> None:
        """Note how many pages the session has had so far.

        `lost`: whether the last agents are gone, and new ones begin a further run. The notes of the
        last run don't count any more, because its pages are among `pages`.
        """
        self._earlier = pages
        if lost:
            self._heard.clear()
        self._paces.clear()
        self._paces.append(_Counts(self._clock.now()))

    def update(self, rank: int, note: Note) -> None:
        """Note how far a rank is, and show its warnings."""
        now, before = self._clock.now(), self._heard.get(rank)
        cpu = 0.0
        if before is not None and now > before.time:
            cpu = (note.cpu_s - before.note.cpu_s) / (now - before.time)
        self._heard[rank] = _Heard(note, now, cpu)
        self._troubles.extend(note.troubles)
        self._said.update(note.warnings)
        self.say(note.warnings)
        if self._voice is Voice.VERBOSE:
            self.say(": ".join(filter(None, (x.error, x.url, x.why))) for x in note.troubles)

    def update_last(self, rank: int, note: Note) -> None:
        """Take the last note of a rank. It has all late warnings: the notes before it may be lost.

        The warnings that no note has brought are shown.
        """
        for warning, count in Counter(note.warnings).items():
            self.say([warning] * (count - self._said[warning]))
        note.warnings = []
        self.update(rank, note)

    def show(self, state: State) -> None:
        """Write status.json, and show the progress. To be called about every second."""
        now = self._clock.now()
        self._paces.append(self._counts(now))
        while now - self._paces[0].time > _WINDOW_S:
            self._paces.popleft()
        self.latest = status = self.status(state)
        bound = _of_all(status.rows)
        self._bounds.append(bound)
        if state is State.CRAWLING:
            self._limited_s[bound.value] += 1
        if self._prints and now - self._shown >= _LINE_INTERVAL_S:
            self._shown = now
            self.say([line(status)])
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._publish, status))

    def take_limits(self) -> dict[str, int]:
        """Return for how many seconds each bound has limited the crawl since the last call."""
        taken, self._limited_s = self._limited_s, Counter()
        return dict(taken)

    def begin(self) -> None:
        """Replace the status.json of an earlier run. To be called once, at rank 0."""
        self._write(self.latest)

    async def tell(self, state: State, reason: str = "") -> None:
        """Write and draw a state that begins now. `reason`: why the crawl has ended."""
        if self._writing is not None:
            await self._writing
        self.latest = self.status(state, reason)
        self._publish(self.latest)

    def close(self) -> None:
        """Draw nothing more, and leave the terminal to others."""
        self._draws = False
        screen, self._screen = self._screen, None
        if screen is not None:
            screen.close()

    def say(self, lines: Iterable[str]) -> None:
        """Show lines to the user, above the table."""
        for text in lines:
            if self._screen is not None:
                self._screen.say(text)
            else:
                sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()

    # --- the status ---------------------------------------------------------------------------

    def status(self, state: State, reason: str = "") -> Status:
        """Return the status of the crawl, as the latest notes tell it."""
        now = self._clock.now()
        notes = [one.note for one in self._heard.values()]
        pages = self._earlier + sum(note.pages for note in notes)
        waiting = sum(note.waiting for note in notes)
        rows = [self._row(rank, now) for rank in sorted(self._heard)]
        pace = sum(row.pages_per_second for row in rows)
        left_s, until = self._left(now, pages, waiting, pace)
        by_failure = Counter[str]()
        for note in notes:
            by_failure.update(note.by_failure)
        counts, before = self._counts(now), self._paces[0]
        seconds = max(now - before.time, _MOMENT_S)
        sites = _sites(self._heard)
        counted = [note.statuses for note in notes if note.statuses]
        statuses = [sum(counts) for counts in zip(*counted, strict=True)]
        return Status(
            session=str(self._directory),
            state=state,
            reason=reason,
            time=self._clock.time(),
            started=self._started,
            seconds=now - self._began,
            ranks=self.ranks,
            pages=pages,
            max_pages=self._limits.max_pages,
            pages_per_second=pace,
            failed_per_second=(counts.failed - before.failed) / seconds,
            messages_per_second=(counts.messages - before.messages) / seconds,
            left_s=left_s,
            left_until=until,
            requests=sum(note.requests for note in notes),
            good=sum(note.good for note in notes),
            failed=by_failure.total(),
            by_failure=dict(by_failure),
            statuses={f"{kind}xx": count for kind, count in enumerate(statuses, 1) if count},
            bytes=sum(note.bytes for note in notes),
            waiting=waiting,
            messages=counts.messages,
            requisites=sum(note.requisites for note in notes),
            early=sum(note.early for note in notes),
            plugin_errors=dict(sum((Counter(note.plugin_errors) for note in notes), Counter())),
            bound=_most_common(self._bounds),
            rows=rows,
            largest_sites=nlargest(_SITES, sites, key=lambda one: one.pages),
            slowest_sites=nlargest(_SITES, sites, key=lambda one: one.seconds),
            troubles=list(self._troubles),
        )

    def _counts(self, now: float) -> _Counts:
        notes = [one.note for one in self._heard.values()]
        return _Counts(
            now,
            {rank: one.note.pages for rank, one in self._heard.items()},
            sum(sum(note.by_failure.values()) for note in notes),
            sum(note.messages for note in notes),
        )

    def _row(self, rank: int, now: float) -> RankStatus:
        heard = self._heard[rank]
        note = heard.note
        before = self._paces[0]
        seconds = now - before.time
        return RankStatus(
            rank=rank,
            pages=note.pages,
            pages_per_second=(note.pages - before.pages.get(rank, 0)) / seconds
            if seconds > 0
            else 0.0,
            errors=note.errors,
            bytes=note.bytes,
            waiting=note.waiting,
            sites_ready=note.sites_ready,
            sites_resting=note.sites_resting,
            hosts_failing=note.hosts_failing,
            fetching=note.fetching,
            connections=note.connections,
            cpu=heard.cpu,
            lag_s=note.lag_s,
            longest_break_s=note.longest_break_s,
            memory=note.memory,
            backlog=note.backlog,
            urls_to=note.urls_to,
            bound=bound_of(note, heard.cpu, self._most_bytes),
            silent_s=now - heard.time,
        )

    def _left(self, now: float, pages: int, waiting: int, pace: float) -> tuple[float | None, str]:
        """Return how many seconds are left, and what ends the crawl then."""
        ends: list[tuple[float, str]] = []
        if self._limits.max_time:
            ends.append((max(0.0, self._began + self._limits.max_time - now), "max_time"))
        if pace > 0:
            ends.append((waiting / pace, "no URLs"))
            if self._limits.max_pages:
                ends.append((max(0, self._limits.max_pages - pages) / pace, "max_pages"))
        return min(ends) if ends else (None, "")

    def _write(self, status: Status) -> None:
        # A rank that needs room on a full disk says so itself.
        with contextlib.suppress(OSError, UserError):
            session.write_status(self._directory, status)

    def _publish(self, status: Status) -> None:
        """Write status.json, and draw."""
        self._write(status)
        if not self._draws:
            return
        if self._screen is None:
            from crawler.watch.screen import Screen  # noqa: PLC0415  rich takes a while to import

            self._screen = Screen(sys.stderr, stays=False)
        self._screen.draw(status)


def _sites(heard: Mapping[int, _Heard]) -> list[SiteStatus]:
    """Return the sites that the latest notes name. Those of several ranks are put together."""
    at: dict[str, list[tuple[int, SitePages]]] = {}
    for rank, one in heard.items():
        for its in one.note.sites:
            at.setdefault(its.site, []).append((rank, its))
    return [
        SiteStatus(
            site,
            pages := sum(one.pages for _, one in some),
            sum(one.bytes for _, one in some),
            sum(one.seconds for _, one in some) / max(pages, 1),
            sorted(rank for rank, _ in some),
        )
        for site, some in at.items()
    ]


def bound_of(note: Note, cpu: float, most_bytes: int) -> Bound:
    """Return what keeps a rank from fetching more.

    `cpu`: the share of a core that the rank uses. `most_bytes`: `exchange.max_backlog_bytes`.
    """
    if note.no_room:
        return Bound.DISK
    if note.backlog > most_bytes:
        return Bound.OUTBOX
    if not note.connections:
        return Bound.NO_CRAWLER
    if cpu >= _FULL_CPU or note.lag_s >= _LATE_S:
        return Bound.CPU
    if note.fetching >= note.connections:
        return Bound.CONCURRENCY
    if note.sites_resting or note.hosts_failing:
        return Bound.DELAYS
    if note.fetching:
        return Bound.ANSWERS
    return Bound.QUOTA if note.sites_ready else Bound.NOTHING


def _of_all(rows: Iterable[RankStatus]) -> Bound:
    """Return the bound of most ranks that fetch."""
    return _most_common(row.bound for row in rows if row.bound is not Bound.NO_CRAWLER)


def _most_common(bounds: Iterable[Bound]) -> Bound:
    common = Counter(bounds).most_common(1)
    return common[0][0] if common else Bound.NOTHING
