"""The part of a terminal in which a status is drawn again and again."""

from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from crawler.commandline import printable
from crawler.session import Status
from crawler.watch.table import draw


class Screen:
    """Draws on a terminal. Each drawing replaces the last one; lines scroll by above it."""

    def __init__(self, file: TextIO, *, stays: bool) -> None:
        """`stays`: whether the last drawing is left on the terminal."""
        self._console = Console(file=file, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=not stays,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def draw(self, status: Status) -> None:
        """Replace the drawing."""
        self._live.update(draw(status), refresh=True)

    def say(self, line: str) -> None:
        """Print a line above the drawing."""
        self._console.print(Text(printable(line)), soft_wrap=True)

    def close(self) -> None:
        """Draw nothing more."""
        self._live.stop()
