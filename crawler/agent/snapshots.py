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

_LOG = logging.getLogger("crawler")
_PIECES: Final = msgspec.msgpack.Decoder(Piece)


class RankSnapshot:
    """Reads a rank's snapshot of the last run, and writes one of this run."""

    def __init__(self, plan: Plan, rank: int, core: Core) -> None:
        self._plan = plan
        self._rank = rank
        self._core = core
        self._logs = plan.logs[rank] if plan.logs else ()
        self._hashes: session.LogHashes | None = None  # of the logs of earlier runs

    async def read(self) -> CoreSnapshot | None:
        """Return what this rank knew at the last stop.

        Returns None if no snapshot fits, or if the crawl stops meanwhile.
        """
        self._hashes = session.LogHashes(self._logs)
        for _ in self._hashes.read():
            await asyncio.sleep(0)
            if self._core.stopping:
                break
        if self._plan.covered is None or self._core.stopping:
            return None
        blocks = self._plan.snapshots.read(self._rank, self._hashes)
        if blocks is None:
            _LOG.warning("a log or a snapshot has been damaged: all logs are read again")
            return None
        about = msgspec.msgpack.decode(next(blocks), type=About)
        return CoreSnapshot(about, map(_PIECES.decode, blocks))

    def write(self, state: CoreSnapshot, log_path: Path) -> bool:
        """Write a snapshot. Returns whether it is written. `log_path` is the log of this run."""
        blocks = map(msgspec.msgpack.encode, chain((state.about,), state.pieces))
        logs = [log_path, *self._logs]
        return self._plan.snapshots.leave(self._rank, logs, blocks, self._hashes)
