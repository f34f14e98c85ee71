"""What outlasts an agent, because its rank goes on with a new one when other ranks are lost.

It is the work of the whole crawl, and how the crawl ended.
"""

import time
from dataclasses import dataclass, field
from math import inf

from crawler.agent.progress import Board
from crawler.report.endings import NOT_FETCHED


@dataclass(frozen=True, slots=True)
class Ending:
    """How a crawl ended, at a rank or altogether."""

    complete: bool  # the frontier ran empty
    stopped: str  # what ended it early: the name of a signal, or max_time; empty if nothing did
    reported: bool = True  # false: there was no room for tables and measures
    internal_errors: int = 0  # of all runs of the session
    fetched: bool = True  # false: the session has no page that was fetched with success

    @property
    def reason(self) -> str:
        """Why the crawl ended, in a word for the session's file."""
        if not self.fetched:
            return NOT_FETCHED
        return "complete" if self.complete else self.stopped or "max_pages"


@dataclass(slots=True)
class Job:
    """What a rank keeps while agents follow each other: after a loss of ranks each agent is new."""

    board: Board
    began: float = field(default_factory=time.monotonic)
    lost: int = 0  # ranks
    left: float = -inf  # when the latest agent had to leave
    stopped: str = ""  # what ends the crawl early: the name of a signal, stop, or max_time
    stopped_at: float = 0.0
