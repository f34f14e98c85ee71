"""Content codings undone, piece by piece: a bomb is noticed before it is unpacked."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import brotli
import zstandard
from isal import isal_zlib

from crawler.ports import Failure

_PIECE: Final = 64 << 10
_MAX_MEMBERS: Final = 1000  # of a gzip or zstd stream; each costs a new decoder
_MAX_CODINGS: Final = 4
_CODING_ERRORS: Final[Any] = (isal_zlib.error, brotli.error, zstandard.ZstdError)


def undo(codings: Sequence[str], payload: bytes, limit: int) -> tuple[bytes, Failure | None]:
    """The body behind a payload, at most `limit` bytes of it, and what was wrong.

    Where nothing could be decoded the payload itself is taken for the body.
    """
    applied = [coding for coding in codings if coding not in {"", "identity"}]
    if len(applied) > _MAX_CODINGS or not _DECODERS.keys() >= set(applied):
        return payload, Failure.BAD_ENCODING
    body = payload
    failure: Failure | None = None
    for coding in reversed(applied):
        if not body:
            break
        body, wrong = _undo_one(_DECODERS[coding], body, limit)
        failure = failure or wrong
        if wrong and not body:
            return payload, failure
    return body, failure


def _undo_one(
    decode: Callable[[bytes, int], Iterator[bytes]], data: bytes, limit: int
) -> tuple[bytes, Failure | None]:
    pieces: list[bytes] = []
    # The step that meets an error loses its output, so the way to it is gone again in small steps.
    for step in (_PIECE, 64):
        pieces.clear()
        size = 0
        try:
            for piece in decode(data, step):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    return b"".join(pieces)[:limit], Failure.TOO_LARGE
            return b"".join(pieces), None
        except EOFError:
            break
        except _CODING_ERRORS:
            continue
    return b"".join(pieces), Failure.BAD_ENCODING


def _inflate(data: bytes, step: int, wbits: int) -> Iterator[bytes]:
    at = 0
    for _ in range(_MAX_MEMBERS):
        decoder = isal_zlib.decompressobj(wbits)
        while not decoder.eof:
            if at >= len(data):
                raise EOFError
            piece = decoder.decompress(data[at : at + step], _PIECE)
            at += step
            while piece:
                yield piece
                if decoder.eof:
                    break
                piece = decoder.decompress(decoder.unconsumed_tail, _PIECE)
        at = min(at, len(data)) - len(decoder.unused_data)
        if data[at : at + 2] != b"\x1f\x8b":  # what isn't another gzip member is padding
            return
    raise EOFError


def _gunzip(data: bytes, step: int) -> Iterator[bytes]:
    return _inflate(data, step, 31)


def _undeflate(data: bytes, step: int) -> Iterator[bytes]:
    """With the zlib header that the standard asks for, or without it, as some servers send it."""
    has_header = data[0] & 15 == 8 and int.from_bytes(data[:2]) % 31 == 0
    return _inflate(data, step, 15 if has_header else -15)


def _unbrotli(data: bytes, step: int) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    for at in range(0, len(data), step):
        piece = decoder.process(data[at : at + step], output_buffer_limit=_PIECE)
        while piece:
            yield piece
            piece = decoder.process(b"", output_buffer_limit=_PIECE)
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
    "br": _unbrotli,
    "zstd": _unzstd,
}
