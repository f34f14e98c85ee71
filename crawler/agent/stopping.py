"""Ends a run of a crawl before its frontier is empty.

A signal, `session.max_time`, the command `stop`, the loss of a rank, or a checkpoint ends it.
"""

import asyncio
import logging
import signal
from pathlib import Path

from crawler import config, session
from crawler.agent.job import CHECKPOINT, Job
from crawler.agent.wire import Wire
from crawler.agent.work import Work
from crawler.core.core import Core
from crawler.ports import EXIT_STOPPED, Clock, Group

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_REPEATED_SIGNAL_S = 1.0  # launchers and terminals may deliver a signal twice within this time
_STOP_POLL_S = 1.0  # between two looks for an order to stop
_LOG = logging.getLogger("crawler")


class Stopper:
    """Stops the crawl on all ranks when this rank is told to stop."""

    def __init__(
        self,
        job: Job,
        limits: config.Session,
        directory: Path,
        core: Core,
        wire: Wire,
        group: Group,
        clock: Clock,
    ) -> None:
        self._job = job
        self._limits = limits
        self._directory = directory
        self._core = core
        self._wire = wire
        self._group = group
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._is_checkpoint = False  # whether this rank has stopped the run for a checkpoint

    def listen(self) -> None:
        """Handle signals from now until `close`, and watch the time limit until `disarm`."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        if self._limits.max_time:
            left = self._job.began + self._limits.max_time - self._clock.now()
            self._timer = loop.call_later(max(0.0, left), self.stop, "max_time")

    def disarm(self) -> None:
        """Stop watching the time limit."""
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Stop handling signals."""
        for number in _STOP_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    @property
    def reason(self) -> str:
        """What stopped the run at this rank; empty if nothing did."""
        return self._job.stopped or (CHECKPOINT if self._is_checkpoint else "")

    def stop(self, reason: str) -> None:
        """Begin to stop the crawl on all ranks. What is under way may still finish."""
        self._note(reason)
        self._stop_run(reason)

    def _note(self, reason: str) -> None:
        if not self._job.stopped:
            self._job.stopped, self._job.stopped_at = reason, self._clock.now()

    def _stop_run(self, reason: str) -> None:
        _LOG.info("stopping", extra={"about": {"reason": reason}})
        self._core.halt.stop(self._clock.now())
        self._wire.deliver()

    def stop_again(self) -> None:
        """Obey an order to stop that came before this agent had begun."""
        if self._job.stopped:
            self.stop(self._job.stopped)

    async def wait(self, *, looks: bool) -> None:
        """Return once the crawl is to stop. With `looks`, also obey an order of `crawler stop`."""
        while not self._core.halt.stopping:
            if looks and session.is_asked_to_stop(self._directory):
                self.stop("stop")
            await asyncio.sleep(_STOP_POLL_S)

    async def checkpoints(self) -> None:
        """Stop the run each `session.checkpoint`, so that all ranks leave snapshots and go on.

        The time of a replay doesn't count, as no snapshot can be left before its end. A crawl that
        is paused has nothing to leave.
        """
        while self._core.unfinished.replay:
            await asyncio.sleep(_STOP_POLL_S)
        await asyncio.sleep(self._limits.checkpoint)
        while self._core.halt.paused:
            await asyncio.sleep(_STOP_POLL_S)
        if not self._core.halt.stopping:
            self._is_checkpoint = True
            self._stop_run(CHECKPOINT)

    async def stage(self, work: Work) -> None:
        """After a stop, wait for `session.stop_grace`, then drop what is still under way."""
        await self.wait(looks=self._group.rank == 0)
        await asyncio.sleep(self._limits.stop_grace)
        in_order = await work.break_off()
        self._core.abandon(in_order=in_order)
        self._wire.deliver()

    def _signalled(self, number: signal.Signals) -> None:
        """Stop the crawl in good order at the first signal, and at once at a second one.

        SIGUSR1 never stops it at once, because schedulers may send SIGUSR1 twice. A signal between
        two runs stops the next one.
        """
        if self._core.ended:
            self._note(number.name)
            return
        late = self._clock.now() - self._job.stopped_at > _REPEATED_SIGNAL_S
        if self._job.stopped and late and number != signal.SIGUSR1:
            _LOG.info("stopped at once", extra={"about": {"reason": number.name}})
            self._job.board.close()
            words = "stopped at once; nothing is lost: resume the session\n"
            self._group.abort(EXIT_STOPPED, words if self._group.rank == 0 else "")
        self.stop(number.name)
