"""Finds the tags of an XHTML page that hold links, by the rules of XML and namespaces.

https://www.w3.org/TR/xml and https://www.w3.org/TR/xml-names. Names are case-sensitive, any element
may close itself, and an element counts by its namespace, whatever its prefix is. A browser stops at
the first error of a page; this reader continues. No tree is built: time grows with the length of
the page, memory only with the elements that declare namespaces. docs/decisions/reading.md has the
decisions behind this module.
"""

import re
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final

from crawler.reading.media import XHTML_NAMESPACE
from crawler.reading.parse.tokens import ATTRIBUTES, Tag, unescape
from crawler.url import MAX_LENGTH

# If a name is longer, its rest counts as an attribute.
_NAME: Final = r"[^\t\n\f\r />:!?<]{1,4096}+"
_START: Final = re.compile(
    rf"<(?: (?P<skipped>!--|!\[CDATA\[|\?) | (?P<declaration>!)"
    rf"| (?P<closing>/?) (?P<name>(?>(?P<prefix>{_NAME}:)?)(?P<local>{_NAME})) )",
    re.VERBOSE,
)
_REST: Final = re.compile(rf"({ATTRIBUTES})>")
_ENDS: Final = {"!--": "-->", "![CDATA[": "]]>", "?": "?>"}
_WINDOW: Final = 1 << 17  # characters searched in one step
_SEARCHED: Final = 1 << 20  # characters that hold no markup, in one step
_TOKENS: Final = 1 << 11  # tags in one step
_NO_MARKUP: Final = frozenset({"script", "style"})
_IN_NO_MARKUP: Final = re.compile(r"<(?:(!--|!\[CDATA\[)|/)")
_MOST_DECLARATIONS: Final = 1 << 10  # of namespaces in a tag
_DECLARING: Final = 1 << 16  # characters of a tag that are searched for declarations
_MOST_OPEN: Final = 1 << 14  # nested elements that declare namespaces
_SVG_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_XHTML: Final = 1
_SVG: Final = 2
_IN_SVG: Final = frozenset({"a", "image", "use"})  # elements of SVG that lead elsewhere
_KINDS: Final = {XHTML_NAMESPACE: _XHTML, _SVG_NAMESPACE: _SVG}
_DECLARATION: Final = re.compile(
    r"""(?<![^\t\n\f\r /"'])xmlns(?::([^\t\n\f\r />=]++))?[\t\n\r ]*+=[\t\n\r ]*+"""
    r"""(?:"([^"]*+)"|'([^']*+)')"""
)


class _Scopes:
    """Tracks which namespace each prefix means, while elements open and close."""

    def __init__(self, *, default: bool) -> None:
        """`default`: whether elements without a prefix are XHTML if no namespace is declared."""
        self._kinds: dict[str, int] = {"": _XHTML if default else 0}
        # The open elements that declare namespaces: name, and the meanings that they replaced.
        # `_nested` holds for each how many elements of that name are open.
        self._open: list[tuple[str, list[tuple[str, int]]]] = []
        self._nested: list[int] = []

    def enter(self, name: str, prefix: str, attributes: str) -> int:
        """Note a start tag, and return the kind of its namespace. `name` includes the prefix."""
        changes = []
        if "xmlns" in attributes:
            found = _DECLARATION.finditer(attributes, 0, _DECLARING)
            for declaration in islice(found, _MOST_DECLARATIONS):
                declared, double, single = declaration.groups("")
                changes.append((declared, self._kinds.get(declared, 0)))
                self._kinds[declared] = _KINDS.get(unescape(double or single).strip(), 0)
        kind = self._kinds.get(prefix, 0)
        if attributes.endswith("/") or (changes and len(self._open) >= _MOST_OPEN):
            self._undo(changes)
        elif changes:
            self._open.append((name, changes))
            self._nested.append(1)
        elif self._open and self._open[-1][0] == name:
            self._nested[-1] += 1
        return kind

    def leave(self, name: str) -> None:
        """Note an end tag. The namespace declarations of its element end."""
        if self._open and self._open[-1][0] == name:
            self._nested[-1] -= 1
            if not self._nested[-1]:
                self._nested.pop()
                self._undo(self._open.pop()[1])

    def _undo(self, changes: list[tuple[str, int]]) -> None:
        for prefix, before in reversed(changes):
            self._kinds[prefix] = before


def tags(text: str, names: frozenset[str], *, default: bool = True) -> Iterator[Tag | None]:
    """Yield the start tags of XHTML elements with these names, which are local names.

    Yields None between two steps. In the attributes, entities of the document are expanded. Tags in
    comments, CDATA, scripts, styles and templates don't count. With `default`, elements without a
    namespace count, too.
    """
    scopes = _Scopes(default=default)
    entities: Entities | None = None
    at, length, pause = 0, len(text), _WINDOW
    templates = count = 0
    while at < length:
        count += 1
        if at >= pause or count % _TOKENS == 0:
            pause = at + _WINDOW
            yield None
        start = text.find("<", at, at + _WINDOW)
        token = _START.match(text, start) if start >= 0 else None
        if not token:
            at = start + 1 if start >= 0 else at + _WINDOW
            continue
        at = token.end()
        if token["skipped"]:
            at = yield from _end_of_skipped(text, _ENDS[token["skipped"]], at)
            continue
        if token["declaration"]:
            if entities is None and text[at : at + 7] == "DOCTYPE":
                entities, at = _read_doctype(text, at)
            else:
                at = _after(text, ">", at)
            continue
        rest = _REST.match(text, at)
        if not rest:
            return  # the tag has no end, so it includes the rest of the page
        at = rest.end()
        if at >= pause:
            yield None  # after a long tag: its attributes are read in another step
        name, prefix, local = token["name"], token["prefix"], token["local"]
        if token["closing"]:
            scopes.leave(name)
            if local == "template" and templates:
                templates -= 1
            continue
        attributes = rest[1]
        kind = scopes.enter(name, prefix[:-1] if prefix else "", attributes)
        if kind == _XHTML and local in _NO_MARKUP and not attributes.endswith("/"):
            if local in names and not templates:
                yield local, entities.expand(attributes) if entities else attributes, at
            at = yield from _end_of_script(text, name, at)
        elif kind == _XHTML and local == "template" and not attributes.endswith("/"):
            templates += 1
        elif not templates and local in names and (kind == _XHTML or (kind and local in _IN_SVG)):
            yield local, entities.expand(attributes) if entities else attributes, at


def _after(text: str, mark: str, at: int) -> int:
    """Return where the first mark after a place ends, or the length of the text without one."""
    found = text.find(mark, at)
    return len(text) if found < 0 else found + len(mark)


def _end_of_skipped(text: str, mark: str, at: int) -> Generator[None, None, int]:
    """Do the same as `_after` in steps, because the search for a longer mark is slow."""
    while True:
        end = at + _SEARCHED
        found = text.find(mark, at, end + len(mark) - 1)
        if found >= 0:
            return found + len(mark)
        if end >= len(text):
            return len(text)
        at = end
        yield


def _end_of_script(text: str, name: str, at: int) -> Generator[None, None, int]:
    """Return where the end tag of an element that holds no markup starts, in steps."""
    length, count = len(text), 0
    while at < length:
        count += 1
        if count % _TOKENS == 0:
            yield
        mark = _IN_NO_MARKUP.search(text, at, at + _WINDOW)
        if mark is None:
            at = max(at + 1, min(at + _WINDOW, length) - 8)  # a mark may span two windows
            if at + 8 >= length:
                return length
            yield
        elif mark[1]:
            at = yield from _end_of_skipped(text, _ENDS[mark[1]], mark.end())
        elif text.startswith(name, mark.end()):
            return mark.start()
        else:
            at = mark.end()
    return length


# --- Entities of the document ------------------------------------------------------------------

_QUOTED: Final = r""""[^"]*+"|'[^']*+'"""
_COMMENT: Final = r"<!--(?>(?:[^-]++|-(?!->))*)-->"
_DOCTYPE: Final = re.compile(
    rf"""(?>(?:[^\[\]>"'<]++|{_QUOTED})*)
    (?:\[ (?P<subset>(?>(?:[^\]"'<]++|{_QUOTED}|{_COMMENT}|<)*)) \] [\t\n\r ]*+)? >""",
    re.VERBOSE,
)
_DECLARED: Final = re.compile(
    rf"""{_COMMENT}|<!ENTITY[\t\n\r ]++([^\t\n\r %"'>]++)[\t\n\r ]++(?:"([^"]*+)"|'([^']*+)')"""
)
_LONGEST_DOCTYPE: Final = 1 << 16  # characters
_MOST_ENTITIES: Final = 1 << 10
_DEPTH: Final = 8  # levels of entities inside entities
_ROOM: Final = 1 << 22  # characters that entities may add to a document
_REFERENCE: Final = re.compile(r"&([^\s&;#<\"']++);")
_NUMERIC: Final = re.compile(r"&#(?:x[0-9a-fA-F]++|[0-9]++);")


def _read_doctype(text: str, at: int) -> tuple["Entities", int]:
    """Return the entities that a document type declares, and where the document type ends."""
    match = _DOCTYPE.match(text, at, at + _LONGEST_DOCTYPE)
    if not match:
        return Entities({}), _after(text, ">", at)
    values: dict[str, str] = {}
    for name, double, single in _DECLARED.findall(match["subset"] or ""):
        if name and len(values) < _MOST_ENTITIES:
            values.setdefault(name, double or single)
    return Entities(values), match.end()


class Entities:
    """Expands the entities that a document declares, in attribute values.

    Entities that contain each other could grow without end. So an entity that is too long for a URL
    counts as empty, and all of them together add a limited number of characters.
    """

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        self._known: dict[str, str] = {}
        self._room = _ROOM

    def expand(self, attributes: str) -> str:
        """Return the attributes of a tag with the references to these entities expanded."""
        if not self._values or "&" not in attributes:
            return attributes
        return _REFERENCE.sub(self._expansion, attributes)

    def _expansion(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._values or self._room <= 0:
            return match[0]
        value = self._value(name, _DEPTH).replace('"', "&quot;").replace("'", "&#39;")
        self._room -= len(value)
        return value

    def _value(self, name: str, depth: int) -> str:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._resolve(self._values[name], depth) if depth else ""
        return known

    def _resolve(self, value: str, depth: int) -> str:
        value = _NUMERIC.sub(lambda match: unescape(match[0]), value)
        pieces: list[str] = []
        size = at = 0
        for match in _REFERENCE.finditer(value):
            if match[1] in self._values:
                pieces += value[at : match.start()], self._value(match[1], depth - 1)
                size += len(pieces[-2]) + len(pieces[-1])
                at = match.end()
                if size > MAX_LENGTH:
                    return ""
        pieces.append(value[at:])
        return "".join(pieces) if size + len(pieces[-1]) <= MAX_LENGTH else ""
