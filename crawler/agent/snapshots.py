"""The snapshot of a rank: what it knew at a stop, so that a resume is faster."""

import asyncio
import logging
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from crawler import session
from crawler.agent.planning import Plan
from crawler.core.core import Core
from crawler.core.snapshot import About, CoreSnapshot, Piece
from crawler.ports import Group

_LOG = logging.getLogger("crawler")
_PIECES: Final = msgspec.msgpack.Decoder(Piece)


class RankSnapshot:
    """Reads a rank's snapshot of the last run, and writes one of this run."""

    def __init__(self, plan: Plan, rank: int, core: Core, hashes: session.LogHashes) -> None:
        self._plan = plan
        self._rank = rank
        self._core = core
        self._logs = plan.logs[rank] if plan.logs else ()
        self._hashes = hashes

    async def read(self) -> CoreSnapshot | None:
        """Return what this rank knew at the last stop.

        Returns None if no snapshot fits, or if the crawl stops meanwhile.
        """
        for _ in self._hashes.read(self._logs):
            await asyncio.sleep(0)
            if self._core.halt.stopping:
                break
        if self._plan.covered is None or self._core.halt.stopping:
            return None
        blocks = self._plan.snapshots.read(self._rank, self._hashes)
        if blocks is None:
            _LOG.warning("a log or a snapshot has been damaged: all logs are read again")
            return None
        about = msgspec.msgpack.decode(next(blocks), type=About)
        return CoreSnapshot(about, map(_PIECES.decode, blocks))

    async def leave(self, state: CoreSnapshot | None, log_path: Path, group: Group) -> bool:
        """Write a snapshot, if all ranks can. All ranks must call this. Returns whether they have.

        `state`: what this rank knows; None if it doesn't know all. `log_path`: the log of this run.
        If a rank can't, the snapshots of the last stop stay, on all ranks.
        """
        if not await _all(group, state is not None):
            return False
        assert state is not None
        blocks = map(msgspec.msgpack.encode, chain((state.about,), state.pieces))
        logs, snapshots = [log_path, *self._logs], self._plan.snapshots
        written = snapshots.leave(self._rank, self._plan.run, logs, blocks, self._hashes)
        if not await _all(group, written):
            return False
        snapshots.replace(self._rank)
        return True


async def _all(group: Group, said: bool) -> bool:
    return all(await group.alltoall([said] * group.size))
