"""Finds the start tags that hold links.

HTML is read by the compiled scanner (scanner.pyx) where it was built, else by `tokens`, which finds
the same elements in several times as long. docs/decisions/one-tokeniser-for-html.md says why.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from importlib import import_module
from typing import Final, Protocol

from crawler.ports import NOFOLLOW
from crawler.reading.parse.tokens import Tag, attributes_of, tags

Element = tuple[str, Mapping[str, str]]  # name and attributes, in lower case


class Room:
    """How many more references of a page are taken."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        self.left = most


class _Scan(Iterator[Element | None], Protocol):
    """Iterates over the elements in a text."""

    def head(self) -> tuple[str, str] | None: ...


class _MakeScan(Protocol):
    """Makes a scan of a text, given the names of elements. See `elements` for the others."""

    def __call__(
        self,
        text: bytes,
        names: frozenset[str],
        references: dict[str, int] | None = None,
        room: Room | None = None,
        follow: int = 0,
        metas: frozenset[str] = frozenset(),
    ) -> _Scan: ...


Scanner: _MakeScan | None = None
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
    references: dict[str, int] | None = None,
    room: Room | None = None,
    metas: frozenset[str] = frozenset(),
) -> Iterator[Element | None]:
    """Iterate over the elements with these names, in document order.

    None comes between two steps, each of a few milliseconds. `utf8`: the bytes of the text, if it
    came as UTF-8; see `reads_bytes`. In XHTML and other XML only XHTML elements count.

    `references`: what the page links to, with flags in which NOFOLLOW is inverted; `room` says how
    many more of them are taken. If they are given, some plain links may be added to them in place
    of their elements, and `a`, `area`, `link` and `meta` that lead nowhere may be left out. A
    `meta` whose name is among `metas` isn't left out. The caller may add to the references
    meanwhile.
    """
    if form is Form.HTML:
        if Scanner:
            utf8 = text.encode() if utf8 is None else utf8
            return Scanner(utf8, names, references, room, NOFOLLOW, metas)
        found = tags(text, names)
    else:
        found = xhtml_tags(text, names, form)
    return (tag and (tag[0], attributes_of(tag[1])) for tag in found)


def xhtml_tags(text: str, names: frozenset[str], form: Form) -> Iterator[Tag | None]:
    """Iterate over the start tags with these names in a page of XHTML or other XML."""
    from crawler.reading.parse import xhtml  # noqa: PLC0415  few crawls meet such a page

    return xhtml.tags(text, names, default=form is Form.XHTML)


def head_of(read: Iterator[Element | None]) -> tuple[str, str] | None:
    """Return the text of the attributes of `html` and the text of the title, as they are written.

    `read`: what `elements` returned, read to its end. Returns None for a page that doesn't begin as
    most pages do, or if no scanner has read it.
    """
    found: tuple[str, str] | None = read.head() if hasattr(read, "head") else None
    return found
