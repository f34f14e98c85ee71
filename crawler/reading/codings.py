"""Undoes content codings piece by piece, so that a compression bomb is cut off while unpacking.

The bytes are trusted more than the label. If a payload isn't coded as its label says, or if the
label is unknown, the payload counts as the body if it looks like text. gzip, zlib and raw deflate
data are told apart by their first bytes, whatever the label. No I/O happens here. The fetcher and
the importer of WARC files use this module.
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, NamedTuple

import brotli
import zstandard
from isal import isal_zlib

from crawler.ports import Failure


class Undone(NamedTuple):
    """The body behind a payload."""

    body: bytes
    failure: Failure | None  # why the body isn't all of what was coded
    readable: bool  # simple readers of WARC files also get this body from the payload


_PIECE: Final = 64 << 10
_TURN: Final = 1 << 20  # bytes read and written between two pauses; a few milliseconds
_MAX_MEMBERS: Final = 1000  # of a gzip or zstd stream; each needs a new decoder
_MAX_CODINGS: Final = 4
_CODING_ERRORS: Final[Any] = (isal_zlib.error, brotli.error, zstandard.ZstdError)
# https://mimesniff.spec.whatwg.org/#sniffing-a-mislabeled-binary-resource
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_SNIFFED: Final = 1445
_BOMS: Final = (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")


_Decoder = Callable[[bytes, int, list[int]], Iterator[bytes]]


def undo(codings: Sequence[str], payload: bytes, limit: int) -> Undone:
    """Return the body behind a payload, at most `limit` bytes of it.

    `codings` are in lower case, in the order in which they were applied. With the failures
    BAD_ENCODING and TOO_LARGE the body is the part that could be decoded, or the payload itself if
    nothing could.

    `readable` says whether the payload can be stored with its label. Three cases are readable: one
    label gzip over one gzip member, one label deflate over zlib data or a raw stream, and labels
    that no program knows. All programs that read HTTP understand these, even if the data end early.
    Other cases aren't readable, because warcio 1.8 reads only the first of several members, and
    doesn't read damaged data, `x-gzip`, lists of codings, brotli (with brotli 1.2) and zstd.
    """
    steps = undoing(codings, payload, limit)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Undone = end.value
            return result


def undoing(codings: Sequence[str], payload: bytes, limit: int) -> Generator[None, None, Undone]:
    """Do the same as `undo`, and yield every few milliseconds, so that other tasks can run."""
    applied = [coding for coding in codings if coding not in {"", "identity"}]
    known = any(coding in _DECODERS for coding in applied)
    if len(applied) > _MAX_CODINGS:
        return Undone(payload, None if _is_text(payload) else Failure.BAD_ENCODING, not known)
    body = payload
    failure: Failure | None = None
    absent = False
    formats: list[int] = []
    for coding in reversed(applied):
        if not body:
            break
        decode = _DECODERS.get(coding)
        decoded, wrong = b"", None
        if decode:
            decoded, wrong = yield from _undo_one(decode, body, limit, formats)
        if not decode or (wrong is Failure.BAD_ENCODING and (not decoded or _is_text(body))):
            absent = True
            continue
        body, failure = decoded, failure or wrong
    if absent and not _is_text(body):
        failure = failure or Failure.BAD_ENCODING
    formats_read = _READABLE.get(" ".join(codings), ())
    if body is payload:
        return Undone(body, failure, not known or (not payload and bool(formats_read)))
    return Undone(body, failure, tuple(formats) in formats_read)


def _is_text(data: bytes) -> bool:
    return data.startswith(_BOMS) or not _BINARY.search(data, 0, _SNIFFED)


def _undo_one(
    decode: _Decoder, data: bytes, limit: int, formats: list[int]
) -> Generator[None, None, tuple[bytes, Failure | None]]:
    """Undo one coding, and yield like `undoing`.

    zlib's number for the format of each member is appended to `formats`.
    """
    pieces: list[bytes] = []
    turn = _TURN
    # A step that meets an error loses its output. So after an error all is decoded once more, in
    # small steps, to get the data right up to the error.
    for step in (_PIECE, 1 if len(data) < 4096 else 64):
        pieces.clear()
        formats.clear()
        size = 0
        try:
            for piece in decode(data, step, formats):
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
    else:
        formats.append(_DAMAGED)
    return b"".join(pieces), Failure.BAD_ENCODING


# Decoders take data, a step in bytes, and a list for formats. They yield a decoded piece, which may
# be empty, for each step. They raise EOFError if the data end early, and _CODING_ERRORS. Those for
# gzip and deflate append the formats that they meet.


def _inflate(data: bytes, step: int, formats: list[int], *, raw: bool) -> Iterator[bytes]:
    at = 0
    for _ in range(_MAX_MEMBERS):
        formats.append(_zlib_format(data[at : at + 2], raw=raw))
        decoder = isal_zlib.decompressobj(formats[-1])
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
        if data[at : at + 2] != _GZIP_MAGIC:  # the rest is no gzip member, so it counts as padding
            return
    raise EOFError


_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's numbers for the formats
_DAMAGED: Final = 0  # the last of the formats if the data can't be decoded to their end
_READABLE: Final = {"gzip": ((_GZIP,),), "deflate": ((_ZLIB,), (_RAW,))}  # by label


def _zlib_format(start: bytes, *, raw: bool) -> int:
    """Return zlib's number for the format that the first two bytes show.

    Data that are neither gzip nor zlib count as a raw stream if `raw`, otherwise as gzip.
    """
    if start == _GZIP_MAGIC:
        return _GZIP
    if len(start) == 2 and start[0] & 15 == 8 and int.from_bytes(start) % 31 == 0:
        return _ZLIB
    return _RAW if raw else _GZIP


def _gunzip(data: bytes, step: int, formats: list[int]) -> Iterator[bytes]:
    return _inflate(data, step, formats, raw=False)


def _undeflate(data: bytes, step: int, formats: list[int]) -> Iterator[bytes]:
    """Decode deflate data, with or without the zlib header that the standard requires."""
    return _inflate(data, step, formats, raw=True)


def _unbrotli(data: bytes, step: int, _formats: list[int]) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    for at in range(0, len(data), step):
        piece = decoder.process(data[at : at + step], output_buffer_limit=_PIECE)
        yield piece
        while piece:
            piece = decoder.process(b"", output_buffer_limit=_PIECE)
            yield piece
    if not decoder.is_finished():
        raise EOFError


def _unzstd(data: bytes, step: int, _formats: list[int]) -> Iterator[bytes]:
    # This API can't limit the output of a step: 512 bytes unpack to 16 MB at worst.
    step = min(step, 512)
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


_DECODERS: Final[dict[str, _Decoder]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "x-deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
