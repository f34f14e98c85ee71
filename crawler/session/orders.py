"""Orders to a running crawl. They are files in the session directory, so any node can give them.

`python -m crawler stop`, `add-client` and `retire-client` write them, and rank 0 looks for them.
"""

import os
from pathlib import Path

from crawler.ports import UserError
from crawler.regular import regular
from crawler.session.files import mistakes_told, replacing

_STOP = "stop"
_CLIENTS = "clients"  # a line for each order: `come`, or `leave RANK`


def ask_to_stop(directory: Path) -> None:
    """Write the file that orders the ranks to stop."""
    with replacing(directory / _STOP):
        pass


def is_asked_to_stop(directory: Path) -> bool:
    """Whether a file orders the ranks to stop."""
    return (directory / _STOP).exists()


def order_client(directory: Path, leaves: int | None = None) -> None:
    """Write the order that a spare client comes, or that the client with the rank `leaves` leaves.

    Raises UserError if the file can't be written.
    """
    path = directory / _CLIENTS
    line = "come\n" if leaves is None else f"leave {leaves}\n"
    with mistakes_told(str(path)):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(regular(path), flags, 0o666)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


def client_orders(directory: Path) -> list[int | None]:
    """Return all orders of `order_client` in this run, the oldest first.

    None stands for a spare that is to come, a number for the rank that is to leave. Raises
    UserError if the file can't be read.
    """
    path = directory / _CLIENTS
    with mistakes_told(str(path)):
        if not path.exists():
            return []
        lines = regular(path).read_text("utf-8", "replace").split("\n")[:-1]
    orders: list[int | None] = []
    for number, line in enumerate(lines, 1):
        verb, _, rank = line.partition(" ")
        if line != "come" and not (verb == "leave" and rank.isdecimal()):
            raise UserError(f"{path}: line {number}: expected 'come' or 'leave RANK'; remove it")
        orders.append(int(rank) if rank else None)
    return orders


def forget_orders(directory: Path) -> None:
    """Remove the orders that were meant for an earlier run."""
    for name in (_STOP, _CLIENTS):
        (directory / name).unlink(missing_ok=True)
