"""What a rank keeps over a whole crawl, and how the crawl ended.

When other ranks are lost, when URLs get other keys, and after a checkpoint, the rank goes on with a
new agent and the same `Job`.
"""

import time
from math import inf
from typing import Final

import msgspec

from crawler import session
from crawler.agent.board import Board
from crawler.report.endings import NOT_FETCHED

# Reasons for which a run ends and the crawl goes on, in a further run of the same processes.
SHARED_KEYS: Final = "shared keys"  # URLs get other keys
CHECKPOINT: Final = "checkpoint"  # the ranks leave snapshots
_GOES_ON: Final = frozenset({SHARED_KEYS, CHECKPOINT})


class Ending(msgspec.Struct, frozen=True):
    """How a crawl ended, at one rank or on all ranks together."""

    complete: bool  # the frontier ran empty
    stopped: str  # what ended it early: a signal, stop, max_time ...; empty if nothing did
    reported: bool = True  # false: there was no room for tables and measures
    internal_errors: int = 0  # errors of reading code in all runs of the session
    fetched: bool = True  # false: the session has no page that was fetched with success
    seeded: bool = True  # false: each seed of the session has failed

    @property
    def goes_on(self) -> bool:
        """Whether a further run follows in the same processes."""
        return self.stopped in _GOES_ON

    @property
    def reason(self) -> str:
        """Return why the crawl ended, in the word that session.toml has for it."""
        if not self.fetched:
            return NOT_FETCHED
        return "complete" if self.complete else self.stopped or "max_pages"


class Job(msgspec.Struct):
    """What a rank keeps when it replaces its agent."""

    board: Board
    begins_anew: bool = False  # whether the next agent begins a further run of the session
    began: float = msgspec.field(default_factory=time.monotonic)
    lost: int = 0  # how many ranks are lost
    left: float = -inf  # when the last agent was abandoned
    stopped: str = ""  # what ends the crawl early: the name of a signal, stop, or max_time
    stopped_at: float = 0.0
    # Of logs that are closed.
    hashes: session.LogHashes = msgspec.field(default_factory=session.LogHashes)
