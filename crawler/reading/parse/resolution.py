"""Turns the references of a page into the URLs that they mean.

The cost of a page is bounded by its bytes. A long base would turn each short reference into a long
URL. So a URL has at most `url.MAX_LENGTH` characters, and all URLs of a page together have about
`most_characters`. References beyond these bounds are counted. docs/decisions/bounds.md says why.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from crawler.ports import NOFOLLOW
from crawler.reading.parse.encoding import encode_query
from crawler.reading.parse.tokens import TooLong
from crawler.url import MAX_LENGTH, BadUrlError, LongUrlError, authority, normalise

C0_OR_SPACE: Final = "".join(map(chr, range(0x21)))  # what the URL standard strips
OTHER_SCHEME: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
MAX_LINK_BYTES: Final = 32 << 20  # of the URLs of a page's links
_LINK_BYTES_AT_LEAST: Final = 1 << 20  # any page may have so many
_LINK_BYTES_PER_CHARACTER: Final = 16  # and so many more for each character of its text
# A plain reference: (`/` or the way up)(segments that don't start with a dot, nothing to escape).
_PLAIN: Final = re.compile(
    r"(?=.)(/|(?:\.\./)*)((?:[\w~-][\w~.-]*+/)*(?:[\w~-][\w~.-]*+)?)", re.ASCII
)
# The beginning of references for which the path of the base doesn't matter.
_ROOTED: Final = re.compile(r"[/\\]|https?:", re.IGNORECASE)
_ABSOLUTE: Final = ("http://", "https://")
_SHORT: Final = 512  # characters; longer absolute references aren't cached
_known: Final = lru_cache(1 << 14)(normalise)  # neighbouring pages have many links in common
_WAY_UP: Final = 8  # most `../` of a plain reference
_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})  # queries are UTF-8
# Work is counted in characters read and written, plus an amount for each reference.
_WORK_PER_REFERENCE: Final = 64
_WORK_STEP: Final = 1 << 18
_WORK_PER_ENCODED: Final = 8  # for each character of a reference whose query is encoded
_TARGETS: Final = 1 << 13  # targets listed in one step


def most_characters(text: str, max_link_bytes: int = MAX_LINK_BYTES) -> int:
    """Return about how many characters the URLs of a page's links may have together."""
    warranted = _LINK_BYTES_AT_LEAST + _LINK_BYTES_PER_CHARACTER * len(text)
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
        self._fold = fold
        self._room = most
        self._left_out = left_out
        self._targets: dict[str, int] = {}  # distinct, with the flags of their references

    def resolve(
        self, references: Mapping[str, int], base: Base, meant: dict[str, str] | None = None
    ) -> Generator[None, None, None]:
        """Resolve references, and add them to the targets; to `meant` by reference, if given.

        A URL that is too long also uses up room. When no room is left, nothing more is resolved.
        """
        base_url, is_origin_only = base
        folders = {"/": base_url} if is_origin_only else _folders(base_url)
        encoding, fold, targets, room = self._encoding, self._fold, self._targets, self._room
        utf8 = encoding in _UTF8
        # A rooted reference is joined to the origin, which is faster than joining to a long base.
        origin = authority(base_url) + "/" if len(base_url) > _SHORT else base_url
        share = len(base_url) // 8  # room that each reference joined to the base uses up
        work = 0
        rest = iter(references.items())
        for reference, flags in rest:
            if room <= 0:
                self._left_out["max_link_bytes"] += 1 + sum(1 for _ in rest)
                break
            if work > _WORK_STEP:
                work = 0
                yield
            work += _WORK_PER_REFERENCE
            plain = _PLAIN.fullmatch(reference)
            if plain and plain[1] in folders:  # does what `normalise` does, in a third of the time
                target = folders[plain[1]] + plain[2]
                if len(target) > MAX_LENGTH:
                    room -= len(target)
                    work += len(target)
                    self._left_out["max_url_length"] += 1
                    continue
            elif OTHER_SCHEME.match(reference):
                continue
            elif is_origin_only and not _ROOTED.match(reference):
                self._left_out["max_url_length"] += 1
                continue
            else:
                start = base_url
                if origin is not base_url and _ROOTED.match(reference):
                    start = origin
                else:
                    work += len(base_url)
                    room -= share
                work += len(reference)
                try:
                    as_sent = reference if utf8 else encode_query(reference, encoding)
                    if as_sent is not reference:
                        work += _WORK_PER_ENCODED * len(as_sent)
                    if as_sent.startswith(_ABSOLUTE) and len(as_sent) <= _SHORT:
                        target = _known(as_sent)
                    else:
                        target = normalise(as_sent, start)
                except LongUrlError:
                    room -= len(start) + len(reference)
                    self._left_out["max_url_length"] += 1
                    continue
                except BadUrlError:
                    continue
            work += len(target)
            if fold:
                target = fold(target)
            if meant is not None:
                meant[reference] = target
            known = targets.get(target)
            if known is None:
                room -= len(target)
                targets[target] = flags
            else:
                targets[target] = known | flags
        self._room = room

    def targets(self, url: str) -> Generator[None, None, list[tuple[str, int]]]:
        """Return all targets except `url`, with their flags (see `ports`), in steps."""
        targets = self._targets
        targets.pop(url, None)
        found: list[tuple[str, int]] = []
        rest = iter(targets.items())
        while some := [(target, flags ^ NOFOLLOW) for target, flags in islice(rest, _TARGETS)]:
            found += some
            if len(found) < len(targets):
                yield
        return found


def _folders(base: str) -> dict[str, str]:
    """Return the URL that plain references are appended to, for each start: `/`, nothing, `../` ...

    At most `_WAY_UP` folders up, because the folders of a base with 100,000 would take quadratic
    memory.
    """
    folder = base.partition("?")[0]
    root = folder[: folder.index("/", 8) + 1]
    folder = folder[: folder.rindex("/") + 1]
    folders = {"/": root}
    for up in range(_WAY_UP + 1):
        folders["../" * up] = folder
        if folder == root:
            break
        folder = folder[: folder.rindex("/", 0, -1) + 1]
    return folders
