"""What the command lines of the crawler and of the partitioner share."""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Never

SHELLS: Final = ("bash", "zsh", "tcsh")  # for which a completion can be printed
_MISTYPED: Final = re.compile(r"(?:invalid choice: '|unrecognized arguments: )([^' =]+)")
_OPTION: Final = re.compile(r"--[a-z][\w-]*")
_QUOTED: Final = re.compile(r"'([^']+)'")


def program(script: str, module: str) -> str:
    """How the user has called this program: by its console script, or by `python -m`."""
    return script if Path(sys.argv[0]).name == script else f"python -m {module}"


def print_completion(parser: argparse.ArgumentParser, shell: str) -> None:
    """Print the script that a shell needs to complete the commands and options of a parser."""
    import shtab  # noqa: PLC0415 (few commands need it)

    sys.stdout.write(shtab.complete(parser, shell))


class Parser(argparse.ArgumentParser):
    """A parser that guesses what a mistyped word was meant to be.

    A subclass names the exception for wrong usage, which gets the message.
    """

    mistake: type[Exception]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the words of one command.

        A word that the command doesn't know is an error at once, while its options are at hand.
        """
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return parsed, rest

    def error(self, message: str) -> Never:
        """Refuse wrong usage, with a guess."""
        raise self.mistake(f"{message}; {self._guess(message)}see {self.prog} --help")

    def _guess(self, message: str) -> str:
        mistyped = _MISTYPED.search(message)
        if mistyped is None:
            return ""
        word = mistyped[1]
        known: Sequence[str] = _OPTION.findall(self.format_usage())
        if not word.startswith("-"):
            known = _QUOTED.findall(message)[1:]
        return guess(word, known)


def guess(word: str, known: Iterable[str]) -> str:
    """A question after the known word that was probably meant, with a blank; or nothing."""
    likely = get_close_matches(word, known, 1)
    return f"did you mean {likely[0]}? " if likely else ""
