"""Resumes a session: reads the logs of earlier runs, so that the cores go on where they ended.

The ranks work together. Their number, and what each of them owns, may differ from the earlier runs:

1. Each rank reads some of the log files: pages, and the keys of their links (`session.LogShard`).
2. The ranks ask the registrars about the sites that no table knows.
3. The ranks tell the owners which pages were fetched. No rank makes a visit before that, so no page
   is fetched again.
4. The ranks find out which links are still to be fetched. The rank `key mod ranks` compares all
   fetched keys with that remainder to all link keys with it. This needs neither an owner nor a URL:
   8 bytes are sent for each link. The answer says whether the link's target is fetched, and which
   of the ranks that have the link admits it.
5. Clients of seed servers that follow links themselves tell their server the keys of their fetched
   pages and of their remaining links. So it can go on if a client is lost.
6. Each rank reads the URLs of its remaining links, and its core admits them as links of their
   pages (`earlier`). The crawl may begin meanwhile.

After a stop in good order, snapshots hold the result of all steps. They are valid if the ranks and
what they own have stayed the same. Then the ranks read the snapshots instead (`session.snapshots`).
Of the logs they read only those that a later run has left, which was killed.
"""

import asyncio
import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import chain
from math import inf
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from crawler import config, session, url
from crawler.agent.earlier import EarlierLinks
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.snapshot import CoreSnapshot
from crawler.faults import Faults
from crawler.modes import mode_of
from crawler.ports import PAGE, Clock, Failure, Group, PageRow
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import Judge, unfollowed
from crawler.reading.traps import TrapMonitor

_LOG = logging.getLogger("crawler")
_STEP = 500  # links handled in one step, which takes a few milliseconds


class _Past(msgspec.Struct):
    """The fetched pages that one rank owns, as far as one share of the logs holds them."""

    traps: TrapMonitor
    faults: Faults
    retries: bool  # whether failed URLs are fetched again
    keys: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    given_up: set[str] = set()

    def add(self, row: PageRow, *, admitted: bool) -> None:
        """`admitted`: whether a snapshot knows that the URL was admitted."""
        self.keys.append(row.key)
        try:
            self.traps.replay(row, admitted=admitted)
            if row.error == Failure.SITE_GIVEN_UP and not self.retries:
                self.given_up.add(url.authority(row.url))
        except BaseException as error:
            self.faults.note(error, "the row", row.url)

    def told(self) -> tuple["array[int]", list[tuple[bytes, bytes]], set[str]]:
        """Return what the owner needs: keys, the tables of the counts, and authorities given up."""
        return self.keys, self.traps.tables(), self.given_up


async def hold_back(
    directory: Path, core: Core, group: Group, clock: Clock, *, since: float
) -> None:
    """Let sites rest as earlier runs promised. Each rank reads some of the request logs.

    `since`: until when requests may have been made that the request logs lack; -inf if none were.
    """
    core.resumption.rest_from(since)
    files = session.request_files(directory)[group.rank :: group.size]
    mine = session.read_rests(files, clock, killed=since > -inf)
    for rests in await group.alltoall([mine] * group.size):
        core.resumption.hold_back(rests, clock.now())


class Replay:
    """One rank's part in a resume. Call `adopt` and `read_logs` before the crawl, `admit` in it."""

    _given_up = False  # whether a stop came while the logs were read

    def __init__(
        self,
        paths: Sequence[Path],
        settings: config.Config,
        core: Core,
        group: Group,
        remember: Callable[[PageRow], None],
        declared: DeclaredSitemaps,
        faults: Faults,
        *,
        judges_again: bool,
        retried: Sequence[str] = (),
        correct: Callable[[session.LoggedPage], session.LoggedPage] | None = None,
    ) -> None:
        """`paths` are the log files that this rank reads. `remember` gets every row.

        `declared` and `faults` are those of this rank. Declared sitemaps in the logs, and errors in
        reading them, are added. `judges_again`: whether each link must be judged again, because
        earlier runs had another scope. `retried`: failures whose URLs are fetched again, at hosts
        that were given up, too. `correct`: see session.LogShard.
        """
        self._core = core
        self._group = group
        self._remember = remember
        self._declared = declared
        self._faults = faults
        self._judges_again = judges_again
        self._retried = frozenset(retried)
        mode = mode_of(settings)
        self._shared = mode.shares_logs
        self._tells_owners = not mode.overlaps  # then no page may be fetched twice
        overrides = settings.overrides()
        self._pasts: defaultdict[int, _Past] = defaultdict(
            lambda: _Past(TrapMonitor(settings.traps, overrides), faults, bool(retried))
        )
        self._unlisted: dict[str, int] = {}  # sites that no table knows, with their parts so far
        self._unlisted_pages: list[int] = []
        self._read = 0
        self.pages = 0  # pages with a response in this rank's share of the logs
        self._state: CoreSnapshot | None = None
        self._restoring: Iterator[None] = iter(())
        core.resumption.begin()
        skipped = unfollowed(settings, judges_again=judges_again)
        self._share = session.LogShard(
            paths, self._note_page, skipped=skipped, retried=retried, correct=correct
        )
        self._later = frozenset[int]()  # request keys of pages that are later than the snapshot
        self._pending: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._fetched: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)  # keys of fetched targets
        core.budget.add("replay", self.nbytes)

    def nbytes(self) -> int:
        """The bytes of memory that this rank's share of the logs takes."""
        return self._share.nbytes() + self._pending.nbytes + self._fetched.nbytes

    async def adopt(
        self, state: CoreSnapshot | None, covered: Container[Path] = frozenset()
    ) -> bool:
        """Use the state of the last stop instead of the logs, if all ranks have their state.

        `covered`: the logs whose pages are in the state. The others are read. Returns whether all
        have. Must be called first. A store that answers late can't say which URLs were admitted, so
        it needs all logs, if any is to be read.
        """
        if state is not None and self._core.door.late is not None and not self._share.are(covered):
            state = None
        agreed = all(await self._group.alltoall([state is not None] * self._group.size))
        self._state = state if agreed else None
        if agreed:
            self._share.leave_out(covered)
        return agreed

    async def read_logs(self) -> int:
        """Do steps 1 to 5. Returns the number of pages in the session.

        A stop ends the reading. Then only the pages read so far are counted.
        """
        if self._state is not None:
            self._restore(self._state)
        if await self._read_logs():
            await self._settle_sites()
            pages = await self._tell_owners()
            await self._find_pending()
            await self._tell_servers()
        else:
            return self._give_up()
        self._core.resumption.count_pages(pages)
        return pages

    async def admit(self, judge: Judge, wire: Wire, clock: Clock) -> None:
        """Do step 6, while the crawl runs."""
        core, wholly = self._core, not self._given_up
        earlier = EarlierLinks(core, self._share, self._faults, judges_again=self._judges_again)
        fetched = self._fetched if self._state is None else None
        admitting = earlier.admit(self._pending, fetched, judge, clock)
        for _ in () if self._given_up else chain(self._restoring, admitting):
            if core.halt.stopping:
                wholly = False
                break
            wire.deliver()
            await asyncio.sleep(0)
            await wire.await_room()
        self._share.close()
        self._pending, self._fetched = self._pending[:0].copy(), self._fetched[:0].copy()
        core.resumption.end(wholly=wholly)
        wire.deliver()

    def _restore(self, state: CoreSnapshot) -> None:
        """Begin to restore what this rank knew at the last stop."""
        self.pages = state.about.pages
        self._restoring = self._core.resumption.restore(
            state, lambda found: session.request_key(found.key, found.chain) in self._later
        )
        next(self._restoring)

    async def _read_logs(self) -> bool:
        """Do step 1. Returns whether all ranks have read their shares to the end."""
        for _ in self._share.read():
            await asyncio.sleep(0)
            if self._core.halt.stopping:
                break
        if any(await self._group.alltoall([self._core.halt.stopping] * self._group.size)):
            return False
        for torn in self._share.torn:
            _LOG.warning(
                "%s: %d bytes from byte %d on can't be read, because of a kill or of damage (see"
                " verify); pages that stood there are fetched again",
                *(torn.path, torn.lost_bytes, torn.offset),
            )
        return True

    def _give_up(self) -> int:
        """Admit nothing, because the crawl stops before the logs are read. A resume does all."""
        self._given_up = True
        self._core.halt.begin_stopped()
        return self.pages

    def _note_page(self, row: PageRow) -> bool:
        """Note a page. Returns whether its links are followed."""
        try:
            self._remember(row)
        except BaseException as error:
            self._faults.note(error, "the row", row.url)
        self.pages += row.status is not None and row.role == PAGE
        settled_owner = self._core.ownership.settled_owner
        owner = settled_owner(row) if self._tells_owners else self._group.rank
        if owner is None:
            self._unlisted[row.site] = row.part
        if session.has_failed(row, self._retried):
            pass  # as if it had never been asked for
        elif owner is None:
            self._unlisted_pages.append(self._read)
        else:
            self._pasts[owner].add(row, admitted=self._is_admitted(row))
        self._read += 1
        return self._core.door.follows(row.hops)

    def _is_admitted(self, row: PageRow) -> bool:
        """Whether the snapshot, if there is one, knows that the URL of a page was admitted."""
        return self._state is not None and row.key in self._core.door.known

    async def _settle_sites(self) -> None:
        """Do step 2: settle the owners of these sites, then note the pages of the sites."""
        core, ownership = self._core, self._core.ownership
        claims: list[dict[str, int]] = [{} for _ in range(self._group.size)]
        for site, part in self._unlisted.items():
            claims[ownership.registrar(site)][site] = part
        claimed = await self._group.alltoall(claims)
        settle = core.door.claims.settle
        answers = [settle(sites, claimant) for claimant, sites in enumerate(claimed)]
        if ownership.tree is not None:  # a client must know all sites that it may have to return
            for site, part in [one for settled in answers for one in settled.items()]:
                answers[ownership.rank_of_part[part]][site] = part
        for settled in await self._group.alltoall(answers):
            for site, part in settled.items():
                ownership.learn(site, part)
        for number, page in enumerate(self._unlisted_pages):
            row = self._share.row(page)
            owner = ownership.owner(row)
            assert owner is not None, row
            self._pasts[owner].add(row, admitted=self._is_admitted(row))
            if number % _STEP == 0:
                await asyncio.sleep(0)

    async def _tell_owners(self) -> int:
        """Do step 3: tell the owners. Returns the number of pages in all shares."""
        given_up, sitemaps = self._remember_handed(), self._share.declared.as_dict()
        mine = [
            (None if past is None else past.told(), self.pages, sitemaps, given_up)
            for past in map(self._pasts.get, range(self._group.size))
        ]
        pages = 0
        for past, responses, declared, gone in await self._group.alltoall(mine):
            pages += responses
            self._declared.update(declared)
            self._core.resumption.give_up(gone)
            if past is not None:
                self._core.resumption.note_fetched(*past)
        self._pasts.clear()
        if self._state is not None:
            self._later = frozenset(self._share.page_keys.tolist())
        return pages

    def _remember_handed(self) -> set[str]:
        """At a client of a seed server: note what the pages of its logs tell the rules on traps.

        The client gets most of their sites again. Returns what any client must know: the
        authorities that were given up.
        """
        core = self._core
        if not core.hands_out:
            return set()
        if not core.is_server:
            for past in self._pasts.values():
                core.resumption.note_fetched((), past.traps.tables(), ())
        return set().union(*(past.given_up for past in self._pasts.values()))

    async def _find_pending(self) -> None:
        """Do step 4: find the links that this rank is to admit."""
        core, links = self._core, self._share.link_keys
        fetched, given = await self._divide()
        if core.counts_links:
            given = ~fetched  # the ordering counts each link to an unfetched page
        left = links[~(fetched | given)]
        core.resumption.note_links(links[fetched].tolist(), left.tolist())
        self._pending = given & ~fetched
        self._fetched = links[fetched]

    async def _tell_servers(self) -> None:
        """Do step 5."""
        core, tree = self._core, self._core.ownership.tree
        if tree is None or tree.hands_out:
            return
        told: list[tuple[bytes, bytes] | None] = [None] * self._group.size
        if not core.is_server:
            links = self._share.link_keys[self._pending]
            told[tree.above(core.rank)] = core.role.earlier_keys(), links.tobytes()
        for client, keys in enumerate(await self._group.alltoall(told)):
            if keys is not None:
                core.role.note_earlier(client, *keys)

    async def _divide(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return two flags for each link that this rank has read.

        The first says whether the target is fetched. The second says whether this rank is to admit
        the link if the target isn't fetched.
        """
        pages, links = self._share.page_keys, self._share.link_keys
        if not self._shared:
            return session.among(links, np.sort(pages)), np.ones(len(links), np.bool_)
        answerer = (links % np.uint64(self._group.size)).astype(np.intp)
        page_answerer = (pages % np.uint64(self._group.size)).astype(np.intp)
        asked = await self._group.alltoall(
            [(pages[page_answerer == r], links[answerer == r]) for r in range(self._group.size)]
        )
        fetched = np.sort(np.concatenate([keys for keys, _ in asked]))
        given = session.deal([keys for _, keys in asked])
        answers = await self._group.alltoall(
            [
                (session.among(keys, fetched), its)
                for (_, keys), its in zip(asked, given, strict=True)
            ]
        )
        are_fetched, are_given = np.zeros((2, len(links)), np.bool_)
        for rank, (known, mine) in enumerate(answers):
            are_fetched[answerer == rank] = known
            are_given[answerer == rank] = mine
        return are_fetched, are_given
