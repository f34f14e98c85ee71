"""Time for the stages of an agent: its clock, what wakes it, and turns on the event loop."""

import asyncio
import time

from crawler.ports import Clock

_TURN_S = 0.005


class SystemClock:
    """`ports.Clock` of this machine."""

    now = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class Alarm:
    """Wakes the busy-host stage: when something changed, or at a given time."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake who waits, or the next one who does."""
        self._event.set()

    async def wait(self, timeout: float | None) -> None:
        """Until it rings, or for `timeout` seconds."""
        timer = None
        if timeout is not None:
            timer = asyncio.get_running_loop().call_later(timeout, self._event.set)
        await self._event.wait()
        if timer is not None:
            timer.cancel()
        self._event.clear()


class Turn:
    """Time on the event loop for one stage. A round of the loop costs as much as a small page."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = 0.0

    async def rest(self) -> None:
        """Let the others have the loop, if the turn is over."""
        if self._clock.now() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._clock.now() + _TURN_S
