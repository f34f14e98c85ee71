"""Time for the stages of an agent: clock, alarm, turns on the event loop, and rare pauses."""

import asyncio
import gc
import time

from crawler.ports import Clock

_TURN_S = 0.005


class SystemClock:
    """`ports.Clock` of this machine."""

    now = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class Alarm:
    """Wakes the busy-host stage when something has changed, or at a given time."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """End the present `wait`, or the next one if nobody waits."""
        self._event.set()

    async def wait(self, timeout: float | None) -> None:
        """Wait until `ring` is called, for at most `timeout` seconds."""
        timer = None
        if timeout is not None:
            timer = asyncio.get_running_loop().call_later(timeout, self._event.set)
        await self._event.wait()
        if timer is not None:
            timer.cancel()
        self._event.clear()


class Turn:
    """Limits how long one stage keeps the event loop.

    A stage doesn't pause after each small piece of work, because a round of the loop costs as much
    as a small page.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = 0.0

    async def rest(self) -> None:
        """Let other tasks run, if the turn of this stage is over."""
        if self._clock.now() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._clock.now() + _TURN_S


def collect_rarely() -> None:
    """Let the garbage collector run rarely.

    A collection stops the loop for a time that grows with the waiting URLs. It finds next to
    nothing, because the objects of a page are freed by reference counts.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
