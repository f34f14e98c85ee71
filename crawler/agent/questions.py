"""Answers questions of the user about a URL or a site, while a crawl runs.

The questions are files in the session directory (`session.questions`). Only rank 0 looks for them.
It asks all ranks, because which of them knows a URL depends on the mode and the assignment. Their
messages don't count for the end of the crawl. If nobody asks, nothing of this costs more than a
look at a directory each second.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Final

import msgspec

from crawler import session
from crawler.agent.robots_gate import RobotsGate
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.messages import Answer, ForPeople, Question
from crawler.ports import Clock, NoRoomError
from crawler.session import Answers

_POLL_S: Final = 1.0
_PATIENCE_S: Final = 3.0  # for the ranks, of which one may be busy or lost
_LOG = logging.getLogger("crawler")


class Questions:
    """One rank's part in answering. Rank 0 handles one question after the other.

    `robots`: what this rank knows of robots.txt files, once it can fetch.
    """

    def __init__(
        self, directory: Path, core: Core, wire: Wire, rank: int, ranks: int, clock: Clock
    ) -> None:
        self.robots: RobotsGate | None = None
        self._directory = directory
        self._core = core
        self._wire = wire
        self._rank = rank
        self._ranks = ranks
        self._clock = clock
        self._number = 0  # of the latest question
        self._answers: dict[int, Answer] = {}  # to that question, by rank
        self._all_here = asyncio.Event()

    async def stage(self) -> None:
        """At rank 0: look for questions every second."""
        while True:
            try:
                for name, question in session.open_questions(self._directory):
                    answers = Answers(self._ranks, await self._ask(question))
                    await asyncio.to_thread(session.answer, self._directory, name, answers)
            except (OSError, NoRoomError) as error:  # whoever asked hears that no answer came
                _LOG.info("a question isn't answered", extra={"about": {"why": str(error)}})
            await asyncio.sleep(_POLL_S)

    async def _ask(self, question: Question) -> dict[int, Answer]:
        """Ask all ranks. Returns the answers that have come in time, by rank."""
        self._number += 1
        self._answers = {}
        self._all_here.clear()
        numbered = msgspec.structs.replace(question, number=self._number)
        for rank in range(self._ranks):
            self._tell(rank, numbered)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_here.wait(), _PATIENCE_S)
        return self._answers

    def take(self, sender: int, said: ForPeople) -> None:
        """Take a question of rank 0, or at rank 0 an answer to the latest question."""
        if isinstance(said, Question):
            self._tell(0, self._answer(said))
        elif isinstance(said, Answer) and said.number == self._number:
            self._answers[sender] = said
            if len(self._answers) == self._ranks:
                self._all_here.set()

    def _answer(self, question: Question) -> Answer:
        answer = self._core.facts.answer(question, self._clock.now())
        robots = self.robots.facts(question.site, question.url) if self.robots else []
        return msgspec.structs.replace(answer, robots=robots) if robots else answer

    def _tell(self, rank: int, said: Question | Answer) -> None:
        if rank == self._rank:
            self.take(rank, said)
        else:
            self._wire.send(*self._core.address(rank, said))
