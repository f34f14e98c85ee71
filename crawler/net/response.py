"""Reads HTTP/1 responses as browsers read them: bytes in, events out, no I/O.

The reader is lenient by design, because for an archive a page with a flawed head is still a page.
It accepts what RFC 9112 forbids if curl and the browsers accept it, and gives it the same meaning
(docs/decisions/lenient-http.md). A reader reads one response to a GET, and skips informational
(1xx) responses before it. Its states:

    HEAD --> LENGTH | CHUNKED | UNTIL_CLOSE | DONE
             CHUNKED --> TRAILERS             each of them leads to DONE in the end
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from crawler.ports import Failure, FetchError

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_STATUS: Final = re.compile(
    rb"[ \t]*(?:(?i:HTTP)(?:/(\d{1,2})(?:\.(\d{1,2}))?)?|ICY)[ \t]+([1-9]\d\d)(?!\d)([^\n]*)"
)
# "name: value" without a blank or control character in the name; other lines are skipped.
_FIELD: Final = re.compile(rb"^([!-9;-~\x80-\xff]+):[ \t]*(.*)", re.MULTILINE)
_FOLD: Final = re.compile(rb"\n[ \t]+")
_LIST_NAMES: Final = frozenset(
    (b"connection", b"content-encoding", b"content-length", b"transfer-encoding")
)
_LIST_NAME_SIZES: Final = frozenset(map(len, _LIST_NAMES))  # cheaper to compare than names
_FRAMING_CODINGS: Final = frozenset((b"chunked", b"identity"))
_NUMBER: Final = re.compile(rb"\d+")
_MAX_DIGITS: Final = 18  # of a Content-Length
_MAX_LIST: Final = 4096  # bytes of a header that is a list
_MAX_INFORMATIONAL: Final = 100

# Anything after the number counts as an extension.
_CHUNK: Final = re.compile(rb"[ \t]*([0-9a-fA-F]{1,16})(?![0-9a-fA-F])[^\n]*\n")
_CHUNK_BEGINS: Final = frozenset(b" \t0123456789abcdefABCDEF")
_MAX_CHUNK_LINE: Final = 16 << 10
_MAX_FRAMING: Final = 1 << 20  # by so many bytes the chunk lines may exceed the body itself
_MAX_TRAILERS: Final = 64 << 10
_TURN: Final = 4096  # chunks that are read at once, in a few milliseconds


class Head(NamedTuple):
    """Status line and headers. The headers are as sent, but folded lines are joined."""

    version: str  # "1.1", or "1.0" for every version that can't keep a connection
    status: int
    reason: str
    headers: list[tuple[bytes, bytes]]
    transfer_codings: list[str]  # in the order of application, without chunked
    content_codings: list[str]
    flawed: bool  # the end of the body is in doubt, or the head has NUL bytes; curl refuses both


class End(Enum):
    """How a response ends."""

    WHOLE = auto()
    CUT = auto()  # the connection was closed too early
    BROKEN = auto()  # the rest has no valid framing


Event = Head | bytes | End


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNKED = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()
    DONE = auto()


class ResponseReader:
    """Reads one response. The events are its Head, pieces of its body, and its End."""

    reusable = False  # after the End: whether the connection may serve another request
    behind = False  # some bytes aren't read yet: call feed(b"") after other tasks have run

    def __init__(self, max_head_bytes: int, max_headers: int) -> None:
        """`max_head_bytes` limits everything before the body, `max_headers` the header lines."""
        self._max_head_bytes = max_head_bytes
        self._max_headers = max_headers
        self._state = _State.HEAD
        self._kept = bytearray()  # bytes that can't be read before more bytes arrive
        self._passed = 0  # bytes before the head: blank lines, informational responses
        self._informational = 0
        self._keep_alive = False
        self._left = 0  # missing bytes of the body (LENGTH) or of the chunk (CHUNKED)
        self._behind_chunk = False  # CHUNKED: the line end after the chunk is missing
        self._body = self._framing = 0  # CHUNKED: bytes of the body and of chunk lines so far

    def feed(self, data: bytes) -> list[Event]:
        """Read bytes and return their events. Raises FetchError if this is no HTTP response."""
        if not data and not self.behind:
            return []
        if self._state is _State.HEAD:
            return self._read_head(data)
        return self._read_body(data)

    def close(self) -> list[Event]:
        """Return the last events, after the connection was closed. Raises FetchError."""
        events: list[Event] = []
        while self.behind:
            events += self.feed(b"")
        state, self._state = self._state, _State.DONE
        self.reusable = False
        if state is _State.UNTIL_CLOSE:
            return [End.WHOLE]
        if state is _State.DONE or (state is _State.HEAD and not self._kept):
            return events
        if state is not _State.HEAD:
            return [*events, End.CUT]
        text = bytes(self._kept)
        lines = text[: text.rfind(b"\n") + 1]
        head = self._parse_head(lines or text)
        if head is None:
            return []
        # After a whole line, the head may just as well be complete.
        whole = lines == text and self._state in {_State.UNTIL_CLOSE, _State.DONE}
        self._state = _State.DONE
        return [head, End.WHOLE if whole else End.CUT]

    def _read_head(self, data: bytes) -> list[Event]:
        while True:
            text: bytes | bytearray
            if self._kept:
                start = max(0, len(self._kept) - 2)
                self._kept += data
                text = self._kept
            else:
                start = 0
                text = data.lstrip(b"\r\n")
                self._passed += len(data) - len(text)
            blank = _BLANK_LINE.search(text, start)
            size = blank.end() if blank else len(text)
            if not blank:
                _check_beginning(text)
            if self._passed + size > self._max_head_bytes:
                detail = "the head is longer than fetch.max_header_bytes"
                raise FetchError(Failure.TOO_LARGE, detail)
            if not blank:
                if text is not self._kept:
                    self._kept += text
                return []
            head = self._parse_head(bytes(text[: blank.start() + 1]))
            data = bytes(text[size:])
            self._kept.clear()
            self._passed += size
            if head is None:
                self._informational += 1
                if self._informational > _MAX_INFORMATIONAL:
                    detail = f"more than {_MAX_INFORMATIONAL} informational responses"
                    raise FetchError(Failure.BAD_HTTP, detail)
                continue
            if self._state is _State.DONE:
                self.reusable = self._keep_alive and not data
                return [head, End.WHOLE]
            return [head, *self._read_body(data)] if data else [head]

    def _parse_head(self, text: bytes) -> Head | None:
        """Parse a head without its blank line, and set the state.

        Returns None if the response is informational.
        """
        match = _STATUS.match(text)
        if not match:
            raise _not_http(text)
        status = int(match[3])
        if status < 200 and status != 101:
            return None
        if text.count(b"\n") - 1 > self._max_headers:
            detail = "the head has more lines than fetch.max_headers"
            raise FetchError(Failure.TOO_LARGE, detail)
        version = "1.1" if match[1] and match[1] >= b"1" and match[2] != b"0" else "1.0"
        lines = text[match.end() :].replace(b"\r\n", b"\n")
        if b"\n " in lines or b"\n\t" in lines:
            lines = _FOLD.sub(b" ", lines)
        headers = _FIELD.findall(lines)
        reason = match[4].strip().decode("latin-1")
        if not reason.isprintable():
            reason = "".join(letter if letter.isprintable() else " " for letter in reason)
        lists: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            if len(name) in _LIST_NAME_SIZES and (lower := name.lower()) in _LIST_NAMES:
                lists.setdefault(lower, []).append(value)
        length, flawed = _length(lists.get(b"content-length"))
        connection = _members(lists.get(b"connection"))
        transfer_codings = [each.split()[0] for each in _members(lists.get(b"transfer-encoding"))]
        self._keep_alive = (
            (version == "1.1" or b"keep-alive" in connection)
            and b"close" not in connection
            and not flawed
            and not (transfer_codings and length is not None)
        )
        if status in {204, 304}:
            self._state = _State.DONE
        elif status == 101:  # a switch to a protocol that we never ask for
            self._state = _State.UNTIL_CLOSE
        elif transfer_codings:  # then a Content-Length doesn't count
            chunked = b"chunked" in transfer_codings
            self._state = _State.CHUNKED if chunked else _State.UNTIL_CLOSE
        elif length is None:
            self._state = _State.UNTIL_CLOSE
        else:
            self._state = _State.LENGTH if length else _State.DONE
            self._left = length
        return Head(
            version,
            status,
            reason,
            headers,
            [each.decode("latin-1") for each in transfer_codings if each not in _FRAMING_CODINGS],
            [each.decode("latin-1") for each in _members(lists.get(b"content-encoding"))],
            flawed or b"\0" in text,
        )

    def _read_body(self, data: bytes) -> list[Event]:
        if self._state is _State.LENGTH:
            self._left -= len(data)
            if self._left > 0:
                return [data]
            if self._left == 0:
                return [data, self._end()]
            return [data[: self._left], self._end(surplus=True)]
        if self._state is _State.UNTIL_CLOSE:
            return [data]
        if self._state is _State.DONE:
            self.reusable = False  # these bytes answer no request
            return []
        return self._read_chunks(data)

    def _end(self, *, surplus: bool = False) -> End:
        self._state = _State.DONE
        self.reusable = self._keep_alive and not surplus
        return End.WHOLE

    def _read_chunks(self, data: bytes) -> list[Event]:
        if self._kept:
            data = bytes(self._kept + data)
            self._kept.clear()
        pieces: list[bytes] = []
        end: End | None = None
        at, left, behind_chunk = 0, self._left, self._behind_chunk
        while at < len(data) and end is None:
            if left:
                piece = data[at : at + left]
                pieces.append(piece)
                at += len(piece)
                left -= len(piece)
                behind_chunk = not left
            elif behind_chunk:
                behind_chunk = data[at] == 0x0D
                if data[at] not in b"\r\n":
                    end = End.BROKEN
                at += 1
            elif self._state is _State.TRAILERS:
                end = self._read_trailers(data[at:])
                at = len(data)
            elif len(pieces) >= _TURN:
                break
            elif match := _CHUNK.match(data, at, at + _MAX_CHUNK_LINE):
                self._framing += match.end() - at
                at = match.end()
                left = int(match[1], 16)
                if not left:
                    self._state = _State.TRAILERS
                    self._kept += b"\n"  # so that the blank line is found if it is the first line
            else:
                rest = data[at : at + _MAX_CHUNK_LINE]
                if rest[0] in _CHUNK_BEGINS and len(rest) < _MAX_CHUNK_LINE and b"\n" not in rest:
                    self._kept += rest
                else:
                    end = End.BROKEN
                at = len(data)
        self._left, self._behind_chunk = left, behind_chunk
        self._kept += data[at:]
        self.behind = at < len(data) and end is None
        body = b"".join(pieces)
        self._body += len(body)
        if self._framing > _MAX_FRAMING + self._body:
            end = End.BROKEN
        events: list[Event] = [body] if body else []
        if end is not None:
            events.append(end)
            self._state = _State.DONE
            self.behind = False
        return events

    def _read_trailers(self, data: bytes) -> End | None:
        """Skip the trailers; return the End when their blank line has arrived."""
        self._kept += data
        blank = _BLANK_LINE.search(self._kept)
        if blank:
            return self._end(surplus=blank.end() < len(self._kept))
        return self._end(surplus=True) if len(self._kept) > _MAX_TRAILERS else None


def _members(values: list[bytes] | None) -> list[bytes]:
    """Return the members of a header that is a list, in lower case; `values` are its lines."""
    if values is None:
        return []
    text = b",".join(values)[:_MAX_LIST].lower()
    return [member for each in text.split(b",") if (member := each.strip())]


def _length(values: list[bytes] | None) -> tuple[int | None, bool]:
    """Return the Content-Length, and whether it is in doubt.

    The same length may be given several times. If the lengths differ, the smallest is returned.
    """
    if values is None:
        return None, False
    if len(values) == 1 and values[0].isdigit() and len(values[0]) <= _MAX_DIGITS:
        return int(values[0]), False
    flawed = False
    lengths: set[int] = set()
    for value in _members(values):
        number = _NUMBER.match(value)
        if number and len(number[0]) <= _MAX_DIGITS:
            lengths.add(int(number[0]))
        flawed = flawed or not number or number.end() < len(value)
    return min(lengths, default=None), flawed or len(lengths) > 1


def _check_beginning(text: bytes | bytearray) -> None:
    """Raise FetchError as soon as the first bytes can't begin a head."""
    if b"\n" in text:
        hopeless = not _STATUS.match(text)
    else:
        word = bytes(text[:64]).lstrip(b" \t")[:4].upper()
        hopeless = word not in {b"HTTP"[: len(word)], b"ICY "[: len(word)]}
    if hopeless:
        raise _not_http(text)


def _not_http(text: bytes | bytearray) -> FetchError:
    return FetchError(Failure.BAD_HTTP, f"{bytes(text[:40])!r} is no HTTP status line")
