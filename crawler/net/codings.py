"""Content codings undone, piece by piece: a bomb is noticed before it is unpacked.

The label is less to be trusted than the bytes. A coding that isn't there at all, or isn't known, is
taken for a slip where what it should have coded is text; and zlib data are recognised whichever of
their three names they go by.
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import brotli
import zstandard
from isal import isal_zlib

from crawler.ports import Failure

Undone = tuple[bytes, Failure | None]

_PIECE: Final = 64 << 10
_TURN: Final = 1 << 20  # bytes, in and out, between two pauses: a few milliseconds
_MAX_MEMBERS: Final = 1000  # of a gzip or zstd stream; each costs a new decoder
_MAX_CODINGS: Final = 4
_CODING_ERRORS: Final[Any] = (isal_zlib.error, brotli.error, zstandard.ZstdError)
# https://mimesniff.spec.whatwg.org/#sniffing-a-mislabeled-binary-resource
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_SNIFFED: Final = 1445
_BOMS: Final = (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")


def undo(codings: Sequence[str], payload: bytes, limit: int) -> Undone:
    """The body behind a payload, at most `limit` bytes of it, and what was wrong.

    `codings` in lower case, in the order of their application. With BAD_ENCODING and TOO_LARGE the
    body is as much as could be decoded, or the payload itself where nothing could be.
    """
    steps = undoing(codings, payload, limit)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Undone = end.value
            return result


def undoing(codings: Sequence[str], payload: bytes, limit: int) -> Generator[None, None, Undone]:
    """`undo`, with a pause (a yield) every few milliseconds, so that others may have the CPU."""
    applied = [coding for coding in codings if coding not in {"", "identity"}]
    if len(applied) > _MAX_CODINGS:
        return payload, None if _is_text(payload) else Failure.BAD_ENCODING
    body = payload
    failure: Failure | None = None
    absent = False
    for coding in reversed(applied):
        if not body:
            break
        decode = _DECODERS.get(coding)
        decoded, wrong = b"", None
        if decode:
            decoded, wrong = yield from _undo_one(decode, body, limit)
        if not decode or (wrong is Failure.BAD_ENCODING and (not decoded or _is_text(body))):
            absent = True
            continue
        body, failure = decoded, failure or wrong
    if absent and not _is_text(body):
        failure = failure or Failure.BAD_ENCODING
    return body, failure


def _is_text(data: bytes) -> bool:
    return data.startswith(_BOMS) or not _BINARY.search(data, 0, _SNIFFED)


def _undo_one(
    decode: Callable[[bytes, int], Iterator[bytes]], data: bytes, limit: int
) -> Generator[None, None, Undone]:
    pieces: list[bytes] = []
    turn = _TURN
    # The step that meets an error loses its output, so the way to it is gone again in small steps.
    for step in (_PIECE, 1 if len(data) < 4096 else 64):
        pieces.clear()
        size = 0
        try:
            for piece in decode(data, step):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    return b"".join(pieces)[:limit], Failure.TOO_LARGE
                turn -= step + len(piece)
                if turn < 0:
                    turn = _TURN
                    yield
            return b"".join(pieces), None
        except EOFError:
            break
        except _CODING_ERRORS:
            continue
    return b"".join(pieces), Failure.BAD_ENCODING


# Decoders: of data, in steps of so many bytes, the pieces behind each (which may be empty). They
# raise EOFError if more data should come, and _CODING_ERRORS.


def _inflate(data: bytes, step: int, *, raw: bool) -> Iterator[bytes]:
    at = 0
    for _ in range(_MAX_MEMBERS):
        decoder = isal_zlib.decompressobj(_zlib_format(data[at : at + 2], raw=raw))
        while not decoder.eof:
            if at >= len(data):
                raise EOFError
            piece = decoder.decompress(data[at : at + step], _PIECE)
            at += step
            yield piece
            while piece and not decoder.eof:
                piece = decoder.decompress(decoder.unconsumed_tail, _PIECE)
                yield piece
        at = min(at, len(data)) - len(decoder.unused_data)
        if data[at : at + 2] != _GZIP_MAGIC:  # what isn't another gzip member is padding
            return
    raise EOFError


_GZIP_MAGIC: Final = b"\x1f\x8b"


def _zlib_format(start: bytes, *, raw: bool) -> int:
    """zlib's number for the format that data have by their first bytes; `raw`: may be neither."""
    if start == _GZIP_MAGIC:
        return 31
    if len(start) == 2 and start[0] & 15 == 8 and int.from_bytes(start) % 31 == 0:
        return 15
    return -15 if raw else 31


def _gunzip(data: bytes, step: int) -> Iterator[bytes]:
    return _inflate(data, step, raw=False)


def _undeflate(data: bytes, step: int) -> Iterator[bytes]:
    """With the zlib header that the standard asks for, or without it, as some servers send it."""
    return _inflate(data, step, raw=True)


def _unbrotli(data: bytes, step: int) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    for at in range(0, len(data), step):
        piece = decoder.process(data[at : at + step], output_buffer_limit=_PIECE)
        yield piece
        while piece:
            piece = decoder.process(b"", output_buffer_limit=_PIECE)
            yield piece
    if not decoder.is_finished():
        raise EOFError


def _unzstd(data: bytes, step: int) -> Iterator[bytes]:
    step = min(step, 512)  # unpacks to 16 MB at worst; this API has no limit on output
    decompressor = zstandard.ZstdDecompressor(max_window_size=8 << 20)  # RFC 9659
    at = 0
    for _ in range(_MAX_MEMBERS):
        decoder = decompressor.decompressobj()
        while not decoder.eof:
            if at >= len(data):
                raise EOFError
            yield decoder.decompress(data[at : at + step])
            at += step
        at = min(at, len(data)) - len(decoder.unused_data)
        if at == len(data):
            return
    raise EOFError


_DECODERS: Final = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "x-deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
