"""HTTP/1 responses read as browsers read them: bytes in, events out, no I/O.

Lenient by design, because to an archive a page with a flawed head is still a page: what RFC 9112
forbids is understood as curl and the browsers do (docs/decisions/lenient-http.md). A reader takes
one response to a GET; informational (1xx) ones before it are passed over.

    HEAD --> LENGTH | CHUNKED | UNTIL_CLOSE | DONE
             CHUNKED --> TRAILERS             and in the end all to DONE
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from crawler.ports import Failure, FetchError

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_STATUS: Final = re.compile(
    rb"[ \t]*(?:(?i:HTTP)(?:/(\d{1,2})(?:\.(\d{1,2}))?)?|ICY)[ \t]+([1-9]\d\d)(?!\d)([^\n]*)"
)
# "name: value" without a blank or control character in the name; other lines are passed over.
_FIELD: Final = re.compile(rb"^([!-9;-~\x80-\xff]+):[ \t]*(.*)", re.MULTILINE)
_FOLD: Final = re.compile(rb"\n[ \t]+")
_LIST_NAMES: Final = frozenset(
    (b"connection", b"content-encoding", b"content-length", b"transfer-encoding")
)
_LIST_NAME_SIZES: Final = frozenset(map(len, _LIST_NAMES))  # cheaper to look at than letters
_FRAMING_CODINGS: Final = frozenset((b"chunked", b"identity"))
_NUMBER: Final = re.compile(rb"\d+")
_MAX_DIGITS: Final = 18  # of a length; nobody lives to see more
_MAX_LIST: Final = 4096  # bytes of a header that is a list; nobody means more
_MAX_INFORMATIONAL: Final = 100

# Whatever follows the number is taken for an extension.
_CHUNK: Final = re.compile(rb"[ \t]*([0-9a-fA-F]{1,16})(?![0-9a-fA-F])[^\n]*\n")
_CHUNK_BEGINS: Final = frozenset(b" \t0123456789abcdefABCDEF")
_MAX_CHUNK_LINE: Final = 16 << 10
_MAX_FRAMING: Final = 1 << 20  # bytes of chunk lines in a body, beyond its own size
_MAX_TRAILERS: Final = 64 << 10
_TURN: Final = 4096  # chunks that are read in one go: a few milliseconds


class Head(NamedTuple):
    """Status line and headers; the latter as sent, but unfolded and without those of 1xx."""

    version: str  # "1.1", or "1.0" for all that can't keep a connection
    status: int
    reason: str
    headers: list[tuple[bytes, bytes]]
    transfer_codings: list[str]  # in the order of application, without chunked
    content_codings: list[str]
    flawed: bool  # where the body ends is in doubt, or there are NUL bytes: curl refuses it


class End(Enum):
    """How a response ends."""

    WHOLE = auto()
    CUT = auto()  # the connection was closed too early
    BROKEN = auto()  # its framing makes no sense from here on


Event = Head | bytes | End


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNKED = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()
    DONE = auto()


class ResponseReader:
    """Reads one response: its Head, pieces of its body, its End."""

    reusable = False  # after the End: whether the connection may serve another request
    behind = False  # not all is read: feed nothing (b""), after others have had the CPU

    def __init__(self, max_head_bytes: int, max_headers: int) -> None:
        """`max_head_bytes` limits everything before the body."""
        self._max_head_bytes = max_head_bytes
        self._max_headers = max_headers
        self._state = _State.HEAD
        self._kept = bytearray()  # what can't be understood before more comes
        self._passed = 0  # bytes before the head: blank lines, informational responses
        self._informational = 0
        self._keep_alive = False
        self._left = 0  # bytes to come: of the body (LENGTH) or of the chunk (CHUNKED)
        self._behind_chunk = False  # CHUNKED: the end of its line is to come
        self._body = self._framing = 0  # CHUNKED: bytes so far

    def feed(self, data: bytes) -> list[Event]:
        """What these bytes bring. Raises FetchError if they don't begin an HTTP response."""
        if not data and not self.behind:
            return []
        if self._state is _State.HEAD:
            return self._read_head(data)
        return self._read_body(data)

    def close(self) -> list[Event]:
        """What it means that the connection was closed. Raises FetchError like `feed`."""
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
        # Between two lines this may just as well be the end of the head.
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
                raise FetchError(Failure.TOO_LARGE, "head longer than fetch.max_header_bytes")
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
                    raise FetchError(Failure.BAD_HTTP, "informational responses without end")
                continue
            if self._state is _State.DONE:
                self.reusable = self._keep_alive and not data
                return [head, End.WHOLE]
            return [head, *self._read_body(data)] if data else [head]

    def _parse_head(self, text: bytes) -> Head | None:
        """A head without its blank line; None if it is informational. Sets the state."""
        match = _STATUS.match(text)
        if not match:
            raise _not_http(text)
        status = int(match[3])
        if status < 200 and status != 101:
            return None
        if text.count(b"\n") - 1 > self._max_headers:
            raise FetchError(Failure.TOO_LARGE, "more header lines than fetch.max_headers")
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
        elif status == 101:  # to what we never asked for
            self._state = _State.UNTIL_CLOSE
        elif transfer_codings:  # a length beside them doesn't count
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
            self.reusable = False  # nobody asked for these bytes
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
                    self._kept += b"\n"  # so that the blank line may be the first
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
        """Trailers are passed over; the body is whole already."""
        self._kept += data
        blank = _BLANK_LINE.search(self._kept)
        if blank:
            return self._end(surplus=blank.end() < len(self._kept))
        return self._end(surplus=True) if len(self._kept) > _MAX_TRAILERS else None


def _members(values: list[bytes] | None) -> list[bytes]:
    """The members of a header that is a list, in lower case, from its lines."""
    if values is None:
        return []
    text = b",".join(values)[:_MAX_LIST].lower()
    return [member for each in text.split(b",") if (member := each.strip())]


def _length(values: list[bytes] | None) -> tuple[int | None, bool]:
    """The Content-Length, and whether that is in doubt: it may be said again, but not otherwise."""
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
    """Don't wait for the end of a head that isn't one."""
    if b"\n" in text:
        hopeless = not _STATUS.match(text)
    else:
        word = bytes(text[:64]).lstrip(b" \t")[:4].upper()
        hopeless = word not in {b"HTTP"[: len(word)], b"ICY "[: len(word)]}
    if hopeless:
        raise _not_http(text)


def _not_http(text: bytes | bytearray) -> FetchError:
    return FetchError(Failure.BAD_HTTP, f"no HTTP status line: {bytes(text[:40])!r}")
