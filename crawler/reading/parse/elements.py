"""Finds the start tags that hold links.

HTML is read by the compiled scanner (scanner.pyx) where it was built, else by `tokens`, which finds
the same elements in several times as long. docs/decisions/one-tokeniser-for-html.md says why.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from importlib import import_module
from typing import Final

from crawler.ports import NOFOLLOW
from crawler.reading.parse import xhtml
from crawler.reading.parse.tokens import attributes_of, tags

Element = tuple[str, Mapping[str, str]]  # name and attributes, in lower case
# Iterates over the elements in a text, given also their names. See `elements` for the others.
_Scanner = Callable[[bytes, frozenset[str], dict[str, int] | None, int], Iterator[Element | None]]

Scanner: _Scanner | None = None
with suppress(ModuleNotFoundError):  # there was no compiler
    # Import-linter knows only modules with a .py file.
    Scanner = import_module("crawler.reading.parse.scanner").Scanner

READER: Final = "compiled scanner" if Scanner else "regular expressions"


class Form(Enum):
    """The form in which a text is read."""

    HTML = auto()
    XHTML = auto()  # elements without a namespace count as XHTML, too
    XML = auto()


def reads_bytes(form: Form) -> bool:
    """Whether `elements` reads bytes in UTF-8, if they are given, and doesn't need their text."""
    return form is Form.HTML and Scanner is not None


def elements(
    text: str,
    names: frozenset[str],
    utf8: bytes | None = None,
    *,
    form: Form = Form.HTML,
    known: dict[str, int] | None = None,
) -> Iterator[Element | None]:
    """Iterate over the elements with these names, in document order.

    None comes between two steps, each of a few milliseconds. `utf8`: the bytes of the text, if it
    came as UTF-8; see `reads_bytes`. In XHTML and other XML only XHTML elements count.

    `known`: references with flags, in which NOFOLLOW is inverted. An `a` or `area` that would
    change nothing in them may be left out. The caller may add to them meanwhile.
    """
    if form is Form.HTML:
        if Scanner:
            return Scanner(text.encode() if utf8 is None else utf8, names, known, NOFOLLOW)
        found = tags(text, names)
    else:
        found = xhtml.tags(text, names, default=form is Form.XHTML)
    return (tag and (tag[0], attributes_of(tag[1])) for tag in found)
