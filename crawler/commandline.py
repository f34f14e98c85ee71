"""What the command lines of the crawler and of the partitioner share."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, Never

SHELLS: Final = ("bash", "zsh", "tcsh")  # for which a completion can be printed
_MISTYPED: Final = re.compile(r"(?:invalid choice: '|unrecognized arguments: )([^' =]+)")
_OPTION: Final = re.compile(r"--[a-z][\w-]*")
_QUOTED: Final = re.compile(r"'([^']+)'")

# The environment variables in which launchers put the number of a rank, and how many there are.
_RANK_VARIABLES: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
_SIZE_VARIABLES: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def is_launched() -> bool:
    """Return whether an mpirun, or another launcher of ranks, has started this process."""
    return any(name in os.environ for name in _RANK_VARIABLES)


def has_other_ranks() -> bool:
    """Return whether a launcher has started this process as one of several ranks."""
    return is_launched() and any(os.environ.get(name, "1") != "1" for name in _SIZE_VARIABLES)


def is_first() -> bool:
    """Return whether this process is rank 0, or was started without a launcher."""
    return all(os.environ.get(name, "0") == "0" for name in _RANK_VARIABLES)


def printable(text: str) -> str:
    """Return text from the web without characters that could control a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


@contextmanager
def only_first_tells() -> Iterator[None]:
    """Let only the first rank print. A wrong command line is wrong on all ranks."""
    if is_first():
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


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
    from difflib import get_close_matches  # noqa: PLC0415  only mistakes need it

    likely = get_close_matches(word, known, 1)
    return f"did you mean {likely[0]}? " if likely else ""
