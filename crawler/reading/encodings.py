"""The encodings of the Encoding Standard (https://encoding.spec.whatwg.org), found by their labels.

Only this module handles labels that servers send. Such a label is never looked up in Python's own
table of codecs. That table has names that aren't encodings of text (`hex`, `zip`) or take
quadratic time (`punycode`), and lacks names of the standard (`x-user-defined`).

Encodings have the names of the standard, in lower case.
"""

import codecs
from collections.abc import Generator
from typing import Final

import webencodings

UTF_16: Final = frozenset({"utf-16le", "utf-16be"})
_REPLACEMENT: Final = "replacement"
_SLICE: Final = 64 << 10  # bytes decoded in one step; takes 20 ms if every byte is an error
# Encodings whose codec in Python has another name, or covers less than the standard.
_CODECS: Final = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "iso-2022-jp": "iso2022_jp_ext",
    "shift_jis": "cp932",
}


def find_encoding(label: str) -> str | None:
    """Return the name of the encoding that a label means; None if the standard lacks the label."""
    encoding = webencodings.lookup(label)
    return None if encoding is None else str(encoding.name)


def decoding(body: bytes, name: str) -> Generator[None, None, str]:
    """Decode bytes in a named encoding, and return the text; yields between steps.

    Bytes that the encoding lacks become U+FFFD. A byte-order mark is removed. With the encoding
    `replacement` the text is one U+FFFD, as the standard says.
    """
    if name == _REPLACEMENT:
        return "\ufffd" if body else ""
    decoder = _codec(name).incrementaldecoder("replace")
    pieces = []
    for at in range(0, len(body), _SLICE):
        pieces.append(decoder.decode(body[at : at + _SLICE]))
        yield
    pieces.append(decoder.decode(b"", final=True))
    return "".join(pieces).removeprefix("\ufeff")


def encode(text: str, name: str, errors: str) -> bytes:
    """Encode a text in a named encoding. `errors` is that of `str.encode`.

    For UTF-16 and `replacement` the result is UTF-8, as the standard says.
    """
    if name in UTF_16 or name == _REPLACEMENT:
        name = "utf-8"
    return _codec(name).encode(text, errors)[0]


def _codec(name: str) -> codecs.CodecInfo:
    if name in _CODECS:
        return codecs.lookup(_CODECS[name])
    encoding: codecs.CodecInfo = webencodings.lookup(name).codec_info
    return encoding
