"""Waiting for room on a full disk."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from crawler.ports import NoRoomError

T = TypeVar("T")

_LOG = logging.getLogger("crawler")
_ROOM_POLL_S = 1.0


async def with_room(store: Callable[[], T]) -> T:
    """Call `store` until there is room on the disk, and return its result.

    Meanwhile the rank stands still, because the queues before this stage fill up.
    """
    waits = False
    while True:
        try:
            stored = store()
        except NoRoomError as error:
            if not waits:
                _LOG.warning("no room: %s; the crawl goes on here when there is some", error)
            waits = True
            await asyncio.sleep(_ROOM_POLL_S)
        else:
            if waits:
                _LOG.warning("there is room again")
            return stored
