"""The process in which a page handler runs: `python -m crawler.handling`.

Each rank that fetches starts one such process for each handler. So a handler that is slow, never
ends or crashes holds up no more than its own pages. Messages go over standard input and output, as
frames: u32 length, then a MessagePack array. The first message is a `Start`, which a `Ready`
answers; then each `Task` is answered by an `Answer`. What a handler prints goes to standard error.
The process ends when its standard input closes, also in the midst of a page.
"""

import os
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from crawler.extensions import HANDLER, Plugin, load, words_of
from crawler.plugins import Page
from crawler.ports import UserError
from crawler.reading.parse import decode

START_S: Final = 120.0  # a handler may load a large model
FRAME: Final = struct.Struct("<I")
OURS: Final = ("url", "fetched_at")  # columns that each row gets from us
_MOST_BYTES: Final = 16 << 20  # of the rows of a page, as JSON


class Start(msgspec.Struct, array_like=True, frozen=True):
    """Which handler the process is to load, with its options."""

    name: str
    options: dict[str, Any]


class Ready(msgspec.Struct, array_like=True, frozen=True):
    """The handler is loaded, or can't be used."""

    mistake: str = ""  # of the user, in one line


class Task(msgspec.Struct, array_like=True, frozen=True):
    """A page to handle."""

    url: str
    time: float  # seconds since the epoch
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    content_type: str | None


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """What became of a page: the rows as lines of JSON, or an error."""

    rows: bytes = b""
    error: str = ""  # in one line
    trace: str = ""


M = TypeVar("M", Ready, Answer)
_encode = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode


def framed(message: Start | Ready | Task | Answer) -> bytes:
    """Return the bytes of a message."""
    body = _encode(message)
    return FRAME.pack(len(body)) + body


def command() -> tuple[list[str], dict[str, str]]:
    """Return the command of the process, and its environment: it finds the same modules."""
    path = os.pathsep.join(one or str(os.getcwd()) for one in sys.path)  # noqa: PTH109
    return [sys.executable, "-P", "-m", "crawler.handling"], {**os.environ, "PYTHONPATH": path}


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raise UserError if a handler can't be used. It is loaded in a process, which ends then."""
    words, environment = command()
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            words,
            input=framed(Start(name, dict(options))),
            env=environment,
            stdout=subprocess.PIPE,
            timeout=START_S,
            start_new_session=True,
            check=False,
        )
        ready = msgspec.msgpack.decode(done.stdout[FRAME.size :], type=Ready)
    except subprocess.TimeoutExpired:
        raise UserError(f"{HANDLER.key} = {name!r}: not loaded after {START_S:g} s") from None
    except msgspec.DecodeError:
        ending = f"ended with code {done.returncode} while it was loaded"
        raise UserError(f"{HANDLER.key} = {name!r}: the process {ending}") from None
    if ready.mistake:
        raise UserError(ready.mistake)


def serve() -> None:
    """Run the process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a handler prints must not come between the answers
    start = msgspec.msgpack.decode(_read(sys.stdin.buffer) or b"", type=Start)
    try:
        handler = load(HANDLER, start.name, start.options)
    except UserError as error:
        _send(answers, Ready(str(error)))
        return
    _send(answers, Ready())
    inbox = SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, inbox), daemon=True).start()
    while True:
        _send(answers, _handle(handler, msgspec.msgpack.decode(inbox.get(), type=Task)))


def _read(stream: BinaryIO) -> bytes | None:
    """Return the content of a frame, or None at the end of the stream."""
    head = stream.read(FRAME.size)
    return stream.read(*FRAME.unpack(head)) if len(head) == FRAME.size else None


def _receive(stream: BinaryIO, inbox: "SimpleQueue[bytes]") -> None:
    """Take in the frames, and end the process when the crawler is gone."""
    while (body := _read(stream)) is not None:
        inbox.put(body)
    os._exit(0)


def _send(stream: BinaryIO, message: Ready | Answer) -> None:
    stream.write(framed(message))
    stream.flush()


def _handle(handler: Plugin[Iterable[Any]], task: Task) -> Answer:
    text, _ = decode(task.body, task.content_type)
    time = datetime.fromtimestamp(task.time, UTC)
    page = Page(task.url, time, task.status, tuple(task.headers), text)
    try:
        return Answer(b"".join(_lines(handler.answer(page))))
    except BaseException as error:
        return Answer(error=words_of(error), trace="".join(traceback.format_exception(error)))


def _lines(rows: Iterable[Any]) -> Iterable[bytes]:
    size = 0
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"gave {row!r}, not a row: a mapping of names to values")
        for name in OURS:
            if name in row:
                raise ValueError(f"gave a row with {name!r}, which each row has already")
        line = _json(dict(row)) + b"\n"
        size += len(line)
        if size > _MOST_BYTES:
            raise ValueError(f"gave rows of more than {_MOST_BYTES >> 20} MiB for one page")
        yield line


if __name__ == "__main__":
    serve()
