"""Sends messages of an agent to other ranks, and receives theirs.

After each event in the core, whoever brought it calls `deliver`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

from crawler.agent.timing import Alarm
from crawler.core.core import Core
from crawler.messages import Message, decode, encode
from crawler.ports import Clock, Transport

_BACKLOG_POLL_S: Final = 0.005


class Wire:
    """The transport of a rank, for messages instead of bytes. It counts what is sent."""

    def __init__(
        self, transport: Transport, core: Core, alarm: Alarm, clock: Clock, most_bytes: int
    ) -> None:
        """`alarm` wakes the busy-host stage. `most_bytes`: `exchange.max_backlog_bytes`."""
        self.over = asyncio.Event()  # set once the crawl has ended, and all ranks know
        self.joining = asyncio.Event()  # set while sites join the scope
        self._transport = transport
        self._core = core
        self._alarm = alarm
        self._clock = clock
        self._most_bytes = most_bytes
        self.messages_to = Counter[int]()  # by receiver
        self.bytes = 0

    def send(self, rank: int, message: Message) -> None:
        """Send a message, without waiting until it has left."""
        data = encode(message, compress=self._transport.remote(rank))
        self.messages_to[rank] += 1
        self.bytes += len(data)
        self._transport.send(rank, data)

    def deliver(self) -> None:
        """Send what the core wants to send now, and let the busy-host stage look for visits.

        Must be called after each event in the core.
        """
        self.send_due(self._clock.now())
        self._alarm.ring()

    def send_due(self, now: float) -> None:
        """Send what the core wants to send now, without waking the busy-host stage."""
        core = self._core
        for rank, message in core.tick(now):
            self.send(rank, message)
        if core.joining.sites:
            self.joining.set()
        if core.ended:
            self.over.set()

    def receive(self) -> list[tuple[int, Message]]:
        """Return the messages that have come since the last call, with their senders."""
        return [(sender, decode(data)) for sender, data in self._transport.receive()]

    def backlog(self) -> int:
        """Return the number of bytes that wait to be sent to the slowest receiver."""
        return max(self._backlogs())

    async def await_room(self) -> None:
        """Wait while too much waits for a receiver that is slower than this rank.

        A stop ends this, because little more will be sent.
        """
        while self.backlog() > self._most_bytes and not self._core.halt.stopping:
            await asyncio.sleep(_BACKLOG_POLL_S)

    def nbytes(self) -> int:
        """Return the number of bytes that wait to be sent to all receivers."""
        return sum(self._backlogs())

    def _backlogs(self) -> Iterable[int]:
        return map(self._transport.backlog, range(self._transport.size))

    async def wait(self, timeout: float) -> None:
        """Wait until a message may have come or left, for at most `timeout` seconds."""
        await self._transport.wait(timeout)
