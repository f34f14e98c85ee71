"""The doorbell of a rank: a datagram socket on its event loop, by which other ranks wake it.

The datagrams are empty, and nobody trusts them. A lost datagram only delays a message. After a
forged one, the rank looks for messages once and finds none.
"""

import asyncio
import contextlib
import fcntl
import socket
import struct
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Interface

LOOPBACK = "127.0.0.1"
_BURST = 32  # datagrams read in one turn of the event loop
_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B  # Linux only; elsewhere all ranks share a host


class Doorbell:
    """Calls `wake` whenever another rank rings. Made in a running event loop."""

    def __init__(self, host: str, wake: Callable[[], None]) -> None:
        """`host`: the address to listen at. An empty one means all addresses of this host."""
        self._wake = wake
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind((host, 0))
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._rung)

    def ring(self, other: tuple[str, int]) -> None:
        """Ring at the address and port of another doorbell."""
        # No route, or a full buffer: the receiver will find the message at its next look.
        with contextlib.suppress(OSError):
            self._socket.sendto(b"", other)

    def close(self) -> None:
        """Stop listening. A second call does nothing."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _rung(self) -> None:
        """Read the datagrams, and wake the rank.

        If more than _BURST datagrams wait, the loop calls this again in its next turn.
        """
        with contextlib.suppress(OSError):
            for _ in range(_BURST):
                self._socket.recv(1)
        self._wake()


def networks(host_name: str) -> list[IPv4Interface]:
    """The addresses of this host with their networks, without loopback.

    The address that `host_name` resolves to comes first.
    """
    interfaces = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with contextlib.suppress(OSError):  # this interface has no address
                address, mask = (
                    socket.inet_ntoa(fcntl.ioctl(any_socket, code, request)[20:24])
                    for code in (_SIOCGIFADDR, _SIOCGIFNETMASK)
                )
                interfaces.append(IPv4Interface(f"{address}/{mask}"))
    name_address = ""
    with contextlib.suppress(OSError):
        name_address = socket.gethostbyname(host_name)
    interfaces.sort(key=lambda interface: str(interface.ip) != name_address)
    return [interface for interface in interfaces if not interface.is_loopback]


def meeting_address(mine: Sequence[IPv4Interface], theirs: Sequence[IPv4Interface]) -> str:
    """The address at which to ring at another host.

    This is the other host's address in a network that both hosts are in, or else its first address.
    An address that both hosts have is left out, because it belongs to a bridge inside each host.
    A wrong choice only delays messages.
    """
    own = {interface.ip for interface in mine}
    others = [interface.ip for interface in theirs if interface.ip not in own]
    near = [ip for ip in others if any(ip in interface.network for interface in mine)]
    return str((near or others or [IPv4Address(LOOPBACK)])[0])
