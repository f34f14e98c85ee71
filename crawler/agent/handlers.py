"""Gives pages to the page handlers, which are plug-ins (docs/extend.md).

Each handler runs in a process of its own beside the rank (`crawler.handling`), which starts with
the first page. If it ends or takes too long, a new one starts with the next page.
"""

import asyncio
import contextlib
import logging
from asyncio import Queue
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

import msgspec

from crawler import config, session
from crawler.extensions import HANDLER, Errors
from crawler.handling import FRAME, START_S, Answer, Ready, Start, Task, check, command, framed
from crawler.ports import Fetched
from crawler.reading.media import HTML_TYPES, charset_source, types_of

_LOG = logging.getLogger("crawler")
_PAGE_S: Final = 10.0  # the most time for a page
_IN_A_ROW: Final = 20  # errors after which a handler is switched off on this rank

A = TypeVar("A", Ready, Answer)


class _BrokenOffError(Exception):
    """The process has given no answer."""


class Handler:
    """A handler, with the process in which it runs."""

    def __init__(self, name: str, settings: config.Config) -> None:
        self.errors = Errors(HANDLER, name)
        self._start = Start(name, dict(settings.options_of(name)))
        self._process: Process | None = None
        self._failed = 0  # pages in a row

    async def rows(self, task: Task) -> bytes:
        """Return the rows of a page, as lines of JSON. There are none if the handler fails."""
        if self._failed == _IN_A_ROW:
            return b""
        try:
            answer = await self._ask(task)
        except _BrokenOffError as error:
            await self.close()
            answer = Answer(error=str(error))
        if not answer.error:
            self._failed = 0
            return answer.rows
        self._failed += 1
        self.errors.note(task.url, answer.error, answer.trace)
        if self._failed == _IN_A_ROW:
            text = "plug-in %s is switched off on this rank, after %d errors in a row"
            _LOG.warning(text, self.errors.name, _IN_A_ROW)
        return b""

    async def _ask(self, task: Task) -> Answer:
        if self._process is None:
            words, environment = command()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *words, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
                )
            except OSError as error:
                raise _BrokenOffError(f"its process can't be started: {error}") from None
            ready = await self._exchange(self._process, self._start, Ready, START_S)
            if ready.mistake:
                raise _BrokenOffError(ready.mistake)
        return await self._exchange(self._process, task, Answer, _PAGE_S)

    async def _exchange(
        self, process: Process, message: Start | Task, kind: type[A], most_s: float
    ) -> A:
        """Send a message, and return its answer. Raises _BrokenOffError."""
        assert process.stdin
        assert process.stdout
        try:
            async with asyncio.timeout(most_s):
                process.stdin.write(framed(message))
                await process.stdin.drain()
                head = await process.stdout.readexactly(FRAME.size)
                body = await process.stdout.readexactly(*FRAME.unpack(head))
        except TimeoutError:
            raise _BrokenOffError(f"no answer after {most_s:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await process.wait()
            how = f"signal {-code}" if code < 0 else f"code {code}"
            raise _BrokenOffError(f"its process ended with {how}") from None
        return msgspec.msgpack.decode(body, type=kind)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def check_handlers(settings: config.Config) -> None:
    """Raise UserError if a handler can't be used."""
    for name in settings.extract.handlers:
        session.check_handler_name(name)
        check(name, settings.options_of(name))


@contextlib.asynccontextmanager
async def open_handlers(settings: config.Config) -> AsyncIterator[Sequence[Handler]]:
    """Give the handlers that the configuration names. Their processes end with the context."""
    handlers = [Handler(name, settings) for name in settings.extract.handlers]
    try:
        yield handlers
    finally:
        for handler in handlers:
            await handler.close()


async def handle_stage(
    to_handle: Queue[Fetched], handlers: Sequence[Handler], to_parse: Queue[Fetched]
) -> None:
    """Let all handlers see each HTML page, at the same time, and pass it on with their rows."""
    while True:
        fetched = await to_handle.get()
        task = _task_of(fetched)
        if task is not None:
            made = await asyncio.gather(*(handler.rows(task) for handler in handlers))
            named = zip(handlers, made, strict=True)
            fetched.rows = {handler.errors.name: rows for handler, rows in named if rows}
        await to_parse.put(fetched)
        to_handle.task_done()


def _task_of(fetched: Fetched) -> Task | None:
    """Return the page for the handlers, or None if it is no HTML page."""
    response = fetched.response
    if response is None or not response.has_page or not response.body:
        return None
    if fetched.found.is_requisite:
        return None
    if types_of(response)[0] not in HTML_TYPES:
        return None
    headers = [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers
    ]
    return Task(
        response.url,
        response.started,
        response.status,
        headers,
        response.body,
        charset_source(response.content_type),
    )
