"""Reads large robots.txt files one after the other."""

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from crawler.net.http import in_turns

_T = TypeVar("_T")


class ReadingStoppedError(Exception):
    """The crawl stopped before a file was read to its end."""


class SerialReader:
    """Reads files one after the other, until it is closed.

    Fifty files of half a megabyte, read side by side, would all be ready only after half a minute,
    and take a gigabyte of memory meanwhile.
    """

    def __init__(self, is_closed: Callable[[], bool]) -> None:
        self._is_closed = is_closed
        self._lock = asyncio.Lock()

    async def read(self, steps: Generator[None, None, _T]) -> _T:
        """Do the steps of reading a file, and return their result. Raises ReadingStoppedError."""
        async with self._lock:
            return await in_turns(self._until_closed(steps))

    def _until_closed(self, steps: Generator[None, None, _T]) -> Generator[None, None, _T]:
        while not self._is_closed():
            try:
                next(steps)
            except StopIteration as end:
                result: _T = end.value
                return result
            yield
        raise ReadingStoppedError
