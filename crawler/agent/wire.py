"""The messages of an agent, on their way to other ranks and from there."""

import asyncio

from crawler.core.core import Core
from crawler.messages import Message, decode, encode
from crawler.ports import Transport


class Wire:
    """The transport with messages instead of bytes, and a count of what went over it."""

    def __init__(self, transport: Transport) -> None:
        self.over = asyncio.Event()  # the crawl has ended, and all ranks have been told
        self.joining = asyncio.Event()  # sites join the scope
        self._transport = transport
        self.messages = 0
        self.bytes = 0

    def send(self, rank: int, message: Message) -> None:
        """Never waits."""
        data = encode(message, compress=self._transport.remote(rank))
        self.messages += 1
        self.bytes += len(data)
        self._transport.send(rank, data)

    def deliver(self, core: Core, now: float) -> None:
        """Send what the core wants sent now; to be called after whatever happened to it."""
        for rank, message in core.tick(now):
            self.send(rank, message)
        if core.joining.sites:
            self.joining.set()
        if core.ended:
            self.over.set()

    def receive(self) -> list[tuple[int, Message]]:
        """The messages that have come since the last call, with their senders."""
        return [(sender, decode(data)) for sender, data in self._transport.receive()]

    def backlog(self) -> int:
        """Bytes that wait for the slowest receiver."""
        return max(map(self._transport.backlog, range(self._transport.size)))

    async def wait(self, timeout: float) -> None:
        """Until something may have come or gone, or for `timeout` seconds."""
        await self._transport.wait(timeout)
