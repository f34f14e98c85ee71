"""Time for the stages of an agent: clock, alarm, turns on the event loop, breaks, rare pauses."""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from crawler.ports import Clock

_TURN_S: Final = 0.01
_BEAT_S: Final = 0.02  # between two looks at an event loop that is busy
_IDLE_BEAT_S: Final = 0.32  # the same, after a while in which it had little to do
_BUSY: Final = 0.1  # of a processor


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
    as a small page. In a long turn, more responses arrive before the other stages run, and a stage
    that works on several in a row does each of them faster.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = 0.0

    async def rest(self) -> None:
        """Let other tasks run, if the turn of this stage is over."""
        if self._clock.now() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._clock.now() + _TURN_S


class LoopWatch:
    """Measures the longest break of the event loop: a time in which no other task could run.

    The program itself must have caused the break. The time for which the thread waited for a
    processor, because other programs used them, doesn't count. A break that is shorter than
    `_BEAT_S` may be missed, and a longer one may be found too short by as much, or by more if the
    thread often waits for a processor. If the thread has little to do, it is looked at less often,
    so that waiting costs nothing.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def stage(self) -> None:
        """Measure until cancelled."""
        beat_s = _BEAT_S
        with _waited_s() as waited:
            while True:
                due, worked, delayed = time.monotonic() + beat_s, time.thread_time(), waited()
                await asyncio.sleep(beat_s)
                late_s, used_s = time.monotonic() - due, time.thread_time() - worked
                if late_s > self.longest_s:
                    own_s = own_delay_s(late_s, used_s - beat_s, waited() - delayed)
                    self.longest_s = max(self.longest_s, own_s)
                is_busy = used_s > _BUSY * beat_s
                beat_s = _BEAT_S if is_busy else min(2 * beat_s, _IDLE_BEAT_S)


def own_delay_s(late_s: float, worked_s: float, waited_s: float) -> float:
    """Return how much of the delay of a beat the thread has caused itself, at least.

    `worked_s`: how long it must have worked after the beat was due, if it worked all the time
    before. `waited_s`: for how long it may have waited for a processor. Either gives a lower bound.
    """
    return min(late_s, max(worked_s, late_s - waited_s))


@contextlib.contextmanager
def _waited_s() -> Iterator[Callable[[], float]]:
    """Give a function that returns for how long this thread has waited for a processor so far.

    Without Linux's schedstat, the function returns 0.
    """
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(file, 100, 0).split()[1]) / 1e9
    finally:
        os.close(file)


def collect_rarely() -> None:
    """Let the garbage collector run rarely, and look at few objects each time.

    It finds next to nothing, because the objects of a page are freed by reference counts. It stops
    the loop for about 0.1 us for each object that it looks at. New sites and waiting URLs bring
    many objects that stay. So each is looked at twice while it is young, with 40,000 others at
    most, and then hardly ever again.
    """
    gc.freeze()
    gc.set_threshold(10_000, 2, 3000)
