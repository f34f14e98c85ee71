"""Runs independent searches on the cores of this machine.

The inner loops of our engine run without Python's lock, so searches in threads run side by side.
The results don't depend on the number of threads.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def at_once(work: Callable[[_In], _Out], items: Iterable[_In], threads: int = 0) -> list[_Out]:
    """Return the result of `work` for each item, in order. Raises the first error, in order.

    `threads`: at most so many at a time; 0: one for each core.
    """
    items = list(items)
    threads = min(threads or cores(), len(items))
    if threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))
