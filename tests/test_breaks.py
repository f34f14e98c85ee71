"""The longest break of the event loop, and what of a delay the program has caused itself."""

import asyncio
import gc
import time

import pytest

from crawler.agent.timing import LoopWatch, collect_rarely, own_delay_s


@pytest.mark.parametrize(
    ("late", "worked", "waited", "own"),
    [
        (0.3, 0.3, 0.0, 0.3),  # it worked for all of the time
        (0.3, 0.0, 0.0, 0.3),  # it was blocked, for example by a disk
        (0.3, -0.01, 0.31, 0.0),  # other programs had the processors
        (0.3, 0.1, 0.2, 0.1),  # both
        (0.3, 0.2, 0.2, 0.2),  # it waited before the beat was due
        (0.001, 0.5, 0.0, 0.001),  # never more than the delay
    ],
)
def test_what_of_a_delay_the_thread_has_caused(
    late: float, worked: float, waited: float, own: float
) -> None:
    assert max(0.0, own_delay_s(late, worked, waited)) == pytest.approx(own)


def test_a_break_is_found() -> None:
    async def hold() -> float:
        watch = LoopWatch()
        task = asyncio.create_task(watch.stage())
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251  that is the break
        await asyncio.sleep(0.1)
        task.cancel()
        return watch.longest_s

    assert asyncio.run(hold()) > 0.2


def test_a_garbage_collection_looks_at_few_objects_however_many_stay() -> None:
    looked_at = []

    def look(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            generations = range(about["generation"] + 1)
            looked_at.append(sum(len(gc.get_objects(one)) for one in generations))

    before = gc.get_threshold()
    collect_rarely()
    gc.callbacks.append(look)
    try:
        kept = [[number] for number in range(1_200_000)]
    finally:
        gc.callbacks.remove(look)
        gc.set_threshold(*before)
        gc.unfreeze()
    assert len(kept) == 1_200_000
    assert len(looked_at) > 10
    assert max(looked_at) < 45_000
