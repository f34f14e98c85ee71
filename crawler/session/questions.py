"""Questions of the user to a running crawl. They are files, so any node can ask.

The command `ask` writes SESSION/questions/ID.question, and waits for SESSION/questions/ID.answer.
Rank 0 looks for questions, removes each, and writes its answer (`agent.questions`). Whoever asks
removes the answer.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from crawler.messages import Answer, Question
from crawler.regular import regular
from crawler.session.files import mistakes_told, replacing

_FOLDER: Final = "questions"
_QUESTION: Final = ".question"
_ANSWER: Final = ".answer"
_POLL_S: Final = 0.1
_MOST_BYTES: Final = 1 << 20  # of a question


class Answers(msgspec.Struct, frozen=True):
    """What the ranks have answered, by rank. Some may have given no answer in time."""

    ranks: int
    by_rank: dict[int, Answer]


def ask_ranks(directory: Path, question: Question, patience_s: float) -> Answers | None:
    """Ask the ranks of a running crawl. Returns None if no answer has come after `patience_s`.

    Raises UserError if the question can't be written or the answer can't be read.
    """
    folder = directory / _FOLDER
    with mistakes_told(str(folder)), _files(folder) as (asks, tells):
        with replacing(asks, durable=False) as file:
            file.write(msgspec.json.encode(question))
        until = time.monotonic() + patience_s
        while not tells.exists():
            if time.monotonic() > until:
                return None
            time.sleep(_POLL_S)
        return msgspec.json.decode(regular(tells).read_bytes(), type=Answers)


@contextmanager
def _files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Give the paths of a new question and of its answer. Both are removed in the end."""
    folder.mkdir(exist_ok=True)
    name = os.urandom(8).hex()
    paths = folder / f"{name}{_QUESTION}", folder / f"{name}{_ANSWER}"
    try:
        yield paths
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def open_questions(directory: Path) -> list[tuple[str, Question]]:
    """Take the questions that wait, each with its name for `answer`. What is no question goes, too.

    Raises OSError.
    """
    found = []
    for path in sorted((directory / _FOLDER).glob(f"*{_QUESTION}")):
        try:
            file = regular(path)
            if file.stat().st_size <= _MOST_BYTES:
                found.append((path.stem, msgspec.json.decode(file.read_bytes(), type=Question)))
        except (FileNotFoundError, msgspec.MsgspecError):
            pass  # whoever asked has gone, or has written something else
        path.unlink(missing_ok=True)
    return found


def answer(directory: Path, name: str, answers: Answers) -> None:
    """Write the answer to a question of `open_questions`, if somebody still waits for one.

    Raises OSError or NoRoomError.
    """
    path = directory / _FOLDER / f"{name}{_ANSWER}"
    with suppress(FileNotFoundError), replacing(path, durable=False) as file:
        file.write(msgspec.json.encode(answers))


def forget_questions(directory: Path) -> None:
    """Remove questions and answers that an earlier run has left. Raises OSError."""
    for path in (directory / _FOLDER).glob("*"):
        path.unlink(missing_ok=True)
