"""Decodes the text files that users write, as editors on all systems save them. Does no I/O."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

_BOMS: Final = (  # UTF-32 comes first, because its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # str.splitlines also splits at eight other characters


def decode(data: bytes) -> str:
    """Decode text in UTF-8, or in UTF-16 or UTF-32 if the text begins with such a byte-order mark.

    Bytes that aren't valid UTF-8 become lone surrogates, so that the other lines can be read. The
    error handler `surrogateescape` turns them back into bytes. Raises UnicodeDecodeError for broken
    UTF-16 or UTF-32.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding).lstrip("\ufeff")
    return data.decode("utf-8", "surrogateescape").lstrip("\ufeff")


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Give each line of a text with its number, from 1. The line ends are removed."""
    return enumerate(_LINE_END.split(text), start=1)
