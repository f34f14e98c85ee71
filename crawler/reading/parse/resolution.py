"""Turns the references of a page into the URLs that they mean.

The cost of a page is bounded by its bytes. A long base would turn each short reference into a long
URL. So a URL has at most `url.MAX_LENGTH` characters, and all URLs of a page together have about
`most_characters`. References beyond these bounds are counted. docs/decisions/bounds.md says why.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from crawler.ports import NOFOLLOW
from crawler.reading.parse.encoding import encode_query
from crawler.reading.parse.tokens import TooLong
from crawler.url import (
    MAX_LENGTH,
    BadUrlError,
    LongUrlError,
    authority,
    foreign_host,
    normalise,
)

C0_OR_SPACE: Final = "".join(map(chr, range(0x21)))  # what the URL standard strips
OTHER_SCHEME: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
MAX_LINK_BYTES: Final = 32 << 20  # of the URLs of a page's links
_LINK_BYTES_AT_LEAST: Final = 1 << 20  # any page may have so many
_LINK_BYTES_PER_LENGTH: Final = 16  # and so many more for each character or byte of its text
# A plain reference: `/` or the way up, then a path and a query with nothing to escape. No `/.` may
# follow the way up, because a segment that starts with a dot may mean a folder.
_PLAIN: Final = re.compile(
    r"""(?=.) (/|(?:\.\./)*+)
    (?:[a-zA-Z0-9_~-][a-zA-Z0-9_~./-]*+ (?:\?[a-zA-Z0-9_~.:@!$&()*+,;=/?-]++)?+)?+""",
    re.VERBOSE,
)
# The beginning of references for which the path of the base doesn't matter.
_ROOTED: Final = re.compile(r"[/\\]|https?:", re.IGNORECASE)
_ABSOLUTE: Final = ("http://", "https://")
_SHORT: Final = 512  # characters; longer bases and references aren't remembered
_MOST_REMEMBERED: Final = 1 << 15  # references of all folders, about 300 bytes each
_WEIGHT_OF_FOLDER: Final = 16  # so many references take as much memory as a folder
_WAY_UP: Final = 8  # most `../` of a plain reference
_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})  # queries are UTF-8
# Work is counted in characters read and written, plus an amount for each reference.
_WORK_PER_REFERENCE: Final = 64
_WORK_STEP: Final = 1 << 18
_WORK_PER_FOREIGN: Final = 32  # for each character of a host that isn't written in ASCII
_WORK_PER_ENCODED: Final = 8  # for each character of a reference whose query is encoded


def most_characters(text: str | bytes, max_link_bytes: int = MAX_LINK_BYTES) -> int:
    """Return about how many characters the URLs of a page's links may have together."""
    warranted = _LINK_BYTES_AT_LEAST + _LINK_BYTES_PER_LENGTH * len(text)
    return min(warranted, max_link_bytes)


class Base(NamedTuple):
    """The base of relative references.

    Only the origin of a base URL is kept if the URL is too long, because URLs relative to its path
    would be too long, too.
    """

    url: str
    is_origin_only: bool = False


def base_of(href: str, url: str) -> Base:
    """Return the base of a page, given the href of its `base` element and the URL of the page.

    An href that gives no http or https URL doesn't count.
    """
    start = href.start if isinstance(href, TooLong) else href[:_SHORT]
    try:
        if not isinstance(href, TooLong):
            with suppress(LongUrlError):
                return Base(normalise(href.strip(C0_OR_SPACE), url))
        return Base(authority(normalise(start, url)) + "/", is_origin_only=True)
    except BadUrlError:
        return Base(url)


class _Folder(NamedTuple):
    """The base of the references on the pages of a folder."""

    starts: Mapping[str, str]  # what plain references are appended to, by their beginning
    known: dict[str, str]  # URLs by references, of those that mean the same on all these pages


class _Folders:
    """The folders of the latest bases. Pages of a folder have most of their references in common.

    When the young folders have half of _MOST_REMEMBERED references, they become the old ones, and
    those that were old are forgotten. An old folder that is found again is young again.
    """

    def __init__(self) -> None:
        self._young: dict[str, _Folder] = {}
        self._old: dict[str, _Folder] = {}
        self._size = 0  # of the young ones, in references

    def __len__(self) -> int:
        """The number of references."""
        folders = (*self._young.values(), *self._old.values())
        return sum(len(folder.known) for folder in folders)

    def find(self, base: str) -> _Folder:
        """Return the folder of a base."""
        path = base.partition("?")[0]
        name = path[: path.rindex("/") + 1]
        if len(name) > _SHORT:
            return _Folder(_starts(name), {})
        folder = self._young.get(name)
        if folder is None:
            folder = self._old.pop(name, None) or _Folder(_starts(name), {})
            self._young[name] = folder
            self._grow(_WEIGHT_OF_FOLDER + len(folder.known))
        return folder

    def remember(self, folder: _Folder, reference: str, target: str) -> None:
        """Remember the URL that a reference means on all pages of a folder."""
        if len(reference) > _SHORT:
            return
        folder.known[reference] = target
        self._grow(1)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _MOST_REMEMBERED // 2:
            self._old, self._young, self._size = self._young, {}, 0


_folders: Final = _Folders()


class Resolution:
    """Turns references into URLs, within the bounds, in steps."""

    def __init__(
        self,
        encoding: str,
        fold: Callable[[str], str] | None,
        most: int,
        left_out: Counter[str],
    ) -> None:
        """`most`: the characters of all URLs together. `left_out` counts what exceeds a bound."""
        self._encoding = encoding
        self._utf8 = encoding in _UTF8
        self._fold = fold
        self._room = most
        self._work = 0  # since the last step
        self._left_out = left_out
        self.targets: dict[str, int] = {}  # in document order, with their flags (see `ports`)

    def resolve(
        self, references: Mapping[str, int], base: Base, meant: dict[str, str] | None = None
    ) -> Generator[None, None, None]:
        """Resolve references, and add them to the targets; to `meant` by reference, if given.

        `references`: with their flags, in which NOFOLLOW is inverted.
        A URL that is too long also uses up room. When no room is left, nothing more is resolved.
        """
        folder = _Folder({"/": base.url}, {}) if base.is_origin_only else _folders.find(base.url)
        known = folder.known if self._utf8 else {}
        fold, targets = self._fold, self.targets
        rest = iter(references.items())
        for reference, flags in rest:
            if self._room <= 0:
                self._left_out["max_link_bytes"] += 1 + sum(1 for _ in rest)
                break
            if self._work > _WORK_STEP:
                self._work = 0
                yield
            target = known.get(reference)
            if target is None:
                self._work += _WORK_PER_REFERENCE
                target = self._resolve(reference, base, folder)
                if target is None:
                    continue
            if fold:
                self._work += _WORK_PER_REFERENCE
                target = fold(target)
            if meant is not None:
                meant[reference] = target
            if target in targets:
                targets[target] = ((targets[target] ^ NOFOLLOW) | flags) ^ NOFOLLOW
            else:
                targets[target] = flags ^ NOFOLLOW
                length = len(target)
                self._room -= length
                self._work += length

    def _resolve(self, reference: str, base: Base, folder: _Folder) -> str | None:
        """Return the URL that a reference means; None if there is none, or if it is too long."""
        plain = _PLAIN.fullmatch(reference)
        way = plain[1] if plain else ""
        if plain and way in folder.starts and reference.find("/.", len(way)) < 0:
            # Does what `normalise` does, in a fifth of the time.
            target = folder.starts[way] + reference[len(way) :]
            if len(target) > MAX_LENGTH:
                self._leave_out(len(target))
                return None
            _folders.remember(folder, reference, target)
            return target
        if OTHER_SCHEME.match(reference):
            return None
        if base.is_origin_only and not _ROOTED.match(reference):
            self._left_out["max_url_length"] += 1
            return None
        if not reference:
            return base.url
        start = base.url
        is_absolute = reference.startswith(_ABSOLUTE)
        if len(start) > _SHORT and _ROOTED.match(reference):
            start = authority(start) + "/"  # joining is faster than with a long base
        elif not is_absolute:
            self._work += len(start)
            self._room -= len(start) // 8  # each reference joined to the base uses up room
        self._work += len(reference)
        if not reference.isascii() or "%" in reference:
            self._work += _WORK_PER_FOREIGN * len(foreign_host(reference))
        try:
            as_sent = reference if self._utf8 else encode_query(reference, self._encoding)
            if as_sent is not reference:
                self._work += _WORK_PER_ENCODED * len(as_sent)
            target = normalise(as_sent, start)
        except LongUrlError:
            self._leave_out(len(start) + len(reference))
            return None
        except BadUrlError:
            return None
        if is_absolute and self._utf8:
            _folders.remember(folder, reference, target)
        return target

    def _leave_out(self, length: int) -> None:
        """Count a URL that is too long. Making it has cost as much as a URL of this length."""
        self._room -= length
        self._work += length
        self._left_out["max_url_length"] += 1


def _starts(folder: str) -> dict[str, str]:
    """Return the URL that plain references are appended to, for each start: `/`, nothing, `../` ...

    At most `_WAY_UP` folders up, because those of a base with 100,000 would take quadratic memory.
    """
    root = folder[: folder.index("/", 8) + 1]
    starts = {"/": root}
    for up in range(_WAY_UP + 1):
        starts["../" * up] = folder
        if folder == root:
            break
        folder = folder[: folder.rindex("/", 0, -1) + 1]
    return starts
