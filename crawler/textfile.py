"""Text files that users write, as the editors of all systems save them. No I/O here."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

_BOMS: Final = (  # the first two of UTF-32 begin like those of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # Python's splitlines has eight more


def decode(data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 or UTF-32 if a byte-order mark says so.

    Bytes that are no UTF-8 become lone surrogates, so that they spoil no other line; the error
    handler `surrogateescape` brings them back. Raises UnicodeDecodeError for broken UTF-16.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding).lstrip("\ufeff")
    return data.decode("utf-8", "surrogateescape").lstrip("\ufeff")


def lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text, without their ends, with numbers from 1."""
    return enumerate(_LINE_END.split(text), start=1)
