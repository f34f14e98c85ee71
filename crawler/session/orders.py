"""Orders to a running crawl. They are files in the session directory, so any node can give them.

`python -m crawler stop`, `pause`, `continue`, `add-seeds`, `add-client` and `retire-client` write
them, and rank 0 looks for them. An order to stop, or about clients, is meant for one run. A pause,
and the seeds that were added, hold for further runs as well.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from crawler.ports import UserError
from crawler.regular import regular
from crawler.session.files import mistakes_told, replacing
from crawler.url import BadUrlError, normalise, of_seed

_STOP = "stop"
_PAUSED = "paused"
_SEEDS = "added-seeds.txt"  # grows only, so a run that begins now misses none
_CLIENTS = "clients"  # a line for each order: `come`, or `leave RANK`


def ask_to_stop(directory: Path) -> None:
    """Write the file that orders the ranks to stop."""
    with replacing(directory / _STOP):
        pass


def is_asked_to_stop(directory: Path) -> bool:
    """Whether a file orders the ranks to stop."""
    return (directory / _STOP).exists()


def pause(directory: Path) -> None:
    """Write the file that orders the ranks to begin no fetch. Raises OSError."""
    with replacing(directory / _PAUSED):
        pass


def go_on(directory: Path) -> bool:
    """Remove that file. Returns whether there was one. Raises OSError."""
    try:
        (directory / _PAUSED).unlink()
    except FileNotFoundError:
        return False
    return True


def is_paused(directory: Path) -> bool:
    """Whether a file orders the ranks to begin no fetch."""
    return (directory / _PAUSED).exists()


def add_seeds(directory: Path, seeds: Iterable[str]) -> None:
    """Write the order that the crawl has further seeds, which are normalised.

    Raises UserError if the file can't be written.
    """
    _append(directory / _SEEDS, "".join(f"{seed}\n" for seed in seeds))


def added_seeds(directory: Path, after: int = 0) -> tuple[list[str], int]:
    """Return the seeds of `add_seeds`, the oldest first, and how many bytes their lines have.

    `after`: leave out so many bytes, which were read before. Raises UserError if the file can't be
    read, or has a line that is no URL.
    """
    path = directory / _SEEDS
    text = b""
    with mistakes_told(str(path)):
        if path.exists():
            with regular(path).open("rb") as file:
                file.seek(after)
                text = file.read()
    text = text[: text.rfind(b"\n") + 1]
    seeds = text.decode("utf-8", "replace").split("\n")[:-1]
    for seed in seeds:
        try:
            normalise(of_seed(seed))
        except BadUrlError:
            raise UserError(f"{path}: {seed!r} is no URL; remove this line") from None
    return seeds, after + len(text)


def order_client(directory: Path, leaves: int | None = None) -> None:
    """Write the order that a spare client comes, or that the client with the rank `leaves` leaves.

    Raises UserError if the file can't be written.
    """
    _append(directory / _CLIENTS, "come\n" if leaves is None else f"leave {leaves}\n")


def client_orders(directory: Path) -> list[int | None]:
    """Return all orders of `order_client` in this run, the oldest first.

    None stands for a spare that is to come, a number for the rank that is to leave. Raises
    UserError if the file can't be read.
    """
    path = directory / _CLIENTS
    lines = _lines(path)
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


def _append(path: Path, lines: str) -> None:
    """Append whole lines, by one write if the system allows. Raises UserError."""
    with mistakes_told(str(path)):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(regular(path), flags, 0o666)
        try:
            rest = lines.encode()
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file, none if the file is missing. Raises UserError."""
    with mistakes_told(str(path)):
        if not path.exists():
            return []
        return regular(path).read_text("utf-8", "replace").split("\n")[:-1]
