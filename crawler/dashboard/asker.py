"""Asks about a URL or a site for the page, by the command `ask` in a process of its own.

The command reads the logs of the session. Rank 0 goes on with its crawl meanwhile.
"""

import os
import subprocess
import sys
from pathlib import Path

from crawler.ports import UserError


class Asker:
    """Asks one question at a time."""

    def __init__(self, directory: Path) -> None:
        """`directory`: of the session."""
        self._directory = directory.resolve()
        self._child: subprocess.Popen[str] | None = None
        self._is_over = False

    def ask(self, about: str) -> str:
        """Return what the command prints, as JSON. To be called in a thread.

        Raises UserError with the complaint of the command, or if `close` is called meanwhile.
        """
        words = ["ask", "--json", "--", str(self._directory), about]
        places = [str(Path(place).resolve()) for place in sys.path]
        with subprocess.Popen(  # noqa: S603  # this program
            [sys.executable, "-P", "-m", "crawler", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as self._child:
            if self._is_over:
                self._child.kill()
            said, complaint = self._child.communicate()
            code = self._child.returncode
        if not said:
            raise UserError(complaint.removeprefix("error: ").strip() or f"ended with code {code}")
        return said

    def close(self) -> None:
        """Ask nothing more, and end the process of a question that isn't answered."""
        self._is_over = True
        if self._child is not None:
            self._child.kill()
