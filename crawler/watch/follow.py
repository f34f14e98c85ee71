"""The commands `status` and `watch`: show a status once, or follow it to the end of the crawl."""

import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from crawler.session import State, Status, read_status
from crawler.watch.screen import Screen
from crawler.watch.table import draw
from crawler.watch.words import line

_POLL_S: Final = 1.0
_LINE_INTERVAL_S: Final = 10.0
_OVER: Final = frozenset((State.ENDED, State.LOST))


def show(directory: Path) -> None:
    """Print the status of a session. Raises UserError if it has none."""
    Console(highlight=False).print(draw(read_status(directory)))


def follow(directory: Path) -> None:
    """Show the status of a session until its crawl has ended, or until Ctrl-C.

    On a terminal it is drawn each second. Elsewhere a line is printed every ten seconds. Raises
    UserError if there is no status.
    """
    status = read_status(directory)
    try:
        if sys.stdout.isatty():
            _draw(directory, status)
        else:
            _print(directory, status)
    except KeyboardInterrupt:
        return  # the crawl goes on


def _draw(directory: Path, status: Status) -> None:
    screen = Screen(sys.stdout, stays=True)
    try:
        while True:
            screen.draw(status)
            if status.state in _OVER:
                return
            time.sleep(_POLL_S)
            status = read_status(directory)
    finally:
        screen.close()


def _print(directory: Path, status: Status) -> None:
    while True:
        sys.stdout.write(line(status) + "\n")
        sys.stdout.flush()
        until = time.monotonic() + _LINE_INTERVAL_S
        while time.monotonic() < until and status.state not in _OVER:
            time.sleep(_POLL_S)
            status = read_status(directory)
        if status.state in _OVER:
            sys.stdout.write(line(status) + "\n")
            return
