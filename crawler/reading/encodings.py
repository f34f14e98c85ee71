"""The encodings of the Encoding Standard (https://encoding.spec.whatwg.org) by their labels.

The web's labels enter here and nowhere else. Python's own table of codecs is never asked for a
label that a server sent: it knows names that aren't encodings of text (`hex`, `zip`), names that
take quadratic time (`punycode`), and it lacks names of the standard (`x-user-defined`).

Names of encodings are the standard's, in lower case.
"""

import codecs
from collections.abc import Generator
from typing import Final

import webencodings

UTF_16: Final = frozenset({"utf-16le", "utf-16be"})
_REPLACEMENT: Final = "replacement"
_SLICE: Final = 64 << 10  # bytes decoded in one step: 20 ms if every one is an error
# Encodings whose codec in Python has another name, or says less than the standard.
_CODECS: Final = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "iso-2022-jp": "iso2022_jp_ext",
    "shift_jis": "cp932",
}


def find_encoding(label: str) -> str | None:
    """The name of the encoding that a label means; None for a label outside the standard."""
    encoding = webencodings.lookup(label)
    return None if encoding is None else str(encoding.name)


def decoding(body: bytes, name: str) -> Generator[None, None, str]:
    """The text of bytes in a named encoding; a generator that yields between its steps.

    Bytes that the encoding lacks become U+FFFD. A byte-order mark is no part of the text. The
    encoding `replacement` makes one U+FFFD of any bytes, as the standard says.
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
    """The bytes of a text in a named encoding; `errors` as for `str.encode`.

    Nobody writes in UTF-16 and `replacement`: their output is UTF-8.
    """
    if name in UTF_16 or name == _REPLACEMENT:
        name = "utf-8"
    return _codec(name).encode(text, errors)[0]


def _codec(name: str) -> codecs.CodecInfo:
    if name in _CODECS:
        return codecs.lookup(_CODECS[name])
    encoding: codecs.CodecInfo = webencodings.lookup(name).codec_info
    return encoding
