"""Finds the tags of an HTML page that hold links, with the tokeniser of the HTML standard.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization. Links don't need a tree. Libraries
that build one take a time quadratic in the depth of nesting and in the attributes of a tag: 1 MB of
`<div>` takes minutes. Here time grows with the length of the page, memory doesn't grow, and the
caller can do other work between two steps. docs/decisions/one-tokeniser-for-html.md has
the measurements.

scanner.pyx is the compiled form of `tags` and `attributes_of` together. A change here needs the
same change there.
"""

import re
import sys
from collections.abc import Generator, Iterator, Mapping
from functools import cache, lru_cache
from html.entities import html5
from typing import Final, Self

SPACE: Final = r"[\t\n\f\r ]"
_BREAK: Final = r"[\t\n\f\r />]"  # after a name


def _possessive(group: str, times: str) -> str:
    """Return a pattern for the repeated group that never backtracks.

    Python before 3.11.5 matches possessive groups wrongly. An atomic group means the same, and is a
    sixth slower.
    """
    if sys.version_info >= (3, 11, 5):
        return f"{group}{times}+"
    return f"(?>{group}{times})"


# All repetitions are possessive (++, *+, ?+). So no text is read twice, and a construct without its
# end doesn't match at all.
_QUOTED_OR_BARE: Final = r"""(?:"[^"]*+"|'[^']*+'|(?!["'])[^\t\n\f\r >]*+)"""
ATTRIBUTE: Final = (
    rf"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:{SPACE}*+={SPACE}*+{_QUOTED_OR_BARE}|(?!{SPACE}*+=))"
)
# So many attributes take 50 ms. A tag with more attributes ends the reading of the page.
MOST_ATTRIBUTES: Final = 300_000
ATTRIBUTES: Final = (
    _possessive(rf"(?:[\t\n\f\r /]*+{ATTRIBUTE})", f"{{0,{MOST_ATTRIBUTES}}}") + r"[\t\n\f\r /]*+"
)

RAW_TEXT: Final = frozenset(
    {"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"}
)
NESTED: Final = frozenset({"math", "svg", "template"})
_WINDOW: Final = 1 << 17  # characters read in one step, unless a construct is longer
_TOKENS: Final = 1 << 11  # tags and comments in one step
MOST_NOFRAMES: Final = 1 << 10  # noframes elements before the frameset
_LONGEST_VALUE: Final = 1 << 18  # characters of an attribute; only data: URLs are longer
MOST_NAMED: Final = 1 << 10  # attributes of a tag that have the names in ATTRIBUTE_NAMES
_MOST_REFERENCES: Final = 1 << 14  # character references in a value
_LONGEST_MARK: Final = 16  # characters of the end of a comment or raw text


def _any_case(name: str) -> str:
    """Return a pattern for a name in upper or lower case; much faster than the flag IGNORECASE."""
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in name)


@lru_cache(64)
def _reader(names: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern that skips to the next start tag with one of the names.

    It also stops at comments, at elements without markup, and at both tags of template, math and
    svg.
    """
    wanted = "|".join(map(_any_case, sorted(names | RAW_TEXT | NESTED | {"frameset"})))
    ends = "|".join(map(_any_case, sorted(NESTED)))
    attribute = _possessive(r"""(?:[ ][a-z-]++="[^"]*+")""", "?")
    uninteresting = rf"""(?: [^<]*+ <(?:
            # End tags, then start tags, of no interest; a quick form, then the full one.
            /(?!(?:{ends}){_BREAK}) [a-zA-Z]
                (?: [a-zA-Z0-9]*+ > | [^\t\n\f\r />]*+ {ATTRIBUTES} > )
          | (?!(?:{wanted}){_BREAK}) [a-zA-Z]
                (?: [a-zA-Z0-9]*+ {attribute} > | [^\t\n\f\r />]*+ {ATTRIBUTES} > )
          | (?: !(?!--) | \? | /(?=[^a-zA-Z]) ) [^>]*+ >
          | (?=[^a-zA-Z/!?])
        ))"""
    return re.compile(
        rf"""
        {_possessive(uninteresting, "*")}
        [^<]*+
        (?: <(?: (!)-- | (/?)({wanted}) (?={_BREAK}) ({ATTRIBUTES}) > ) )?
        """,
        re.VERBOSE,
    )


_COMMENT_END: Final = re.compile("--!?>")
_RAW_TEXT_END: Final = {
    name: re.compile(rf"</{_any_case(name)}(?={_BREAK})")
    for name in RAW_TEXT - {"plaintext", "script"}
}
# Marks in a script that change where it may end: at its start, after <!--, after a <script> there.
_SCRIPT_END: Final = rf"</{_any_case('script')}(?={_BREAK})"
_SCRIPT_MARKS: Final = re.compile(rf"<!--|{_SCRIPT_END}")
_SCRIPT_ESCAPED_MARKS: Final = re.compile(rf"-->|</?{_any_case('script')}(?={_BREAK})")
_SCRIPT_NESTED_MARKS: Final = re.compile(rf"-->|{_SCRIPT_END}")
_ABRUPT_END: Final = re.compile("-?>")  # <!--> and <!---> are whole comments


Tag = tuple[str, str, int]  # name, text of the attributes, and where the start tag ends


def tags(text: str, names: frozenset[str]) -> Iterator[Tag | None]:
    """Yield the start tags with these names; the names are in lower case.

    Yields None between two steps, each of a few milliseconds. Tags in comments, scripts, templates
    and the like don't count, nor does the title of a picture. Tags in noscript and in declarative
    shadow roots count. Tags in noframes count if the page has a frameset.
    """
    read = _reader(names).match
    at, end, pause, length = 0, _WINDOW, _WINDOW, len(text)
    templates = foreign = count = 0
    has_frameset = False
    unread: list[tuple[int, int]] = []  # start and end of each noframes before the frameset
    while at < length:
        token = read(text, at, end)
        assert token  # the pattern also matches the empty string
        at = token.end()
        count += 1
        if at >= pause or count % _TOKENS == 0:
            pause = at + _WINDOW
            yield None  # also before the attributes of a long tag are read
        comment, closing, name, attributes = token.groups()
        if name:
            name = name.lower()
            if name == "frameset" and not has_frameset:
                has_frameset = True
                for first, last in unread:
                    for tag in tags(text[first:last], names):
                        yield tag and (*tag[:2], first + tag[2])
            if name in names and not templates and not (foreign and name == "title"):
                yield name, attributes, at
            elif name in NESTED:
                change = -1 if closing else 1
                if name == "template":
                    # The end tag of a shadow root changes nothing, as no template is open.
                    if closing or templates or not is_shadow_root(attributes):
                        templates = max(0, templates + change)
                elif closing or not attributes.endswith("/"):
                    foreign = max(0, foreign + change)
            if name in RAW_TEXT and not (foreign and attributes.endswith("/")):
                if name != "noframes":
                    at = yield from _end_of_raw_text(text, name, at)
                elif not has_frameset:
                    first, at = at, (yield from _end_of_raw_text(text, name, at))
                    if len(unread) < MOST_NOFRAMES:
                        unread.append((first, at))
        elif comment:
            match = _ABRUPT_END.match(text, at) or (yield from _searching(_COMMENT_END, text, at))
            at = match.end() if match else length
        elif end >= length:
            return  # the rest, if any, is a construct without its end
        else:
            end = at + (_WINDOW if end - at < _WINDOW else 2 * (end - at))
            yield None
        if at >= end:
            end = at + _WINDOW


SHADOW_ROOTS: Final = frozenset({"open", "closed"})


def is_shadow_root(attributes: str) -> bool:
    """Whether a `template` with these attributes is a declarative shadow root, so it is visible."""
    mode = attributes_of(attributes).get("shadowrootmode", "") if attributes else ""
    return mode.lower() in SHADOW_ROOTS


def _searching(
    pattern: re.Pattern[str], text: str, at: int
) -> Generator[None, None, re.Match[str] | None]:
    """Return the first match after a place, in steps. It has at most _LONGEST_MARK characters."""
    while True:
        end = at + _WINDOW
        match = pattern.search(text, at, end + _LONGEST_MARK)
        if match or end >= len(text):
            return match
        at = end
        yield


def _end_of_raw_text(text: str, name: str, at: int) -> Generator[None, None, int]:
    """Return where the end tag of an element whose content is no markup starts, in steps."""
    if name == "plaintext":
        return len(text)
    if name == "script":
        return (yield from _end_of_script(text, at))
    match = yield from _searching(_RAW_TEXT_END[name], text, at)
    return match.start() if match else len(text)


def _end_of_script(text: str, at: int) -> Generator[None, None, int]:
    """Return where the end tag of a script starts, in steps.

    A comment in a script may hold a whole script: <script><!-- <script></script> --></script> is
    one element.
    """
    marks = _SCRIPT_MARKS
    count = 0
    while mark := (yield from _searching(marks, text, at)):
        at = mark.end()
        count += 1
        if count % _TOKENS == 0:
            yield
        if mark[0] == "<!--":
            if not _ABRUPT_END.match(text, at):
                marks = _SCRIPT_ESCAPED_MARKS
        elif mark[0] == "-->":
            marks = _SCRIPT_MARKS
        elif mark[0][1] != "/":
            marks = _SCRIPT_NESTED_MARKS
        elif marks is _SCRIPT_NESTED_MARKS:
            marks = _SCRIPT_ESCAPED_MARKS
        else:
            return mark.start()
    return len(text)


ATTRIBUTE_NAMES: Final = (
    "background", "content", "data", "href", "http-equiv", "imagesrcset", "name", "poster", "rel",
    "shadowrootmode", "src", "srcdoc", "srcset", "style", "type", "xlink:href",
)  # fmt: skip
_NAMED: Final = rf"(?:{'|'.join(map(_any_case, ATTRIBUTE_NAMES))})(?=[\t\n\f\r />=]|\Z)"
_OTHERS: Final = _possessive(rf"(?: [\t\n\f\r /]*+ (?!{_NAMED}) {ATTRIBUTE} )", "*")


@cache
def _named_attribute() -> re.Pattern[str]:
    """Return the pattern of an attribute that links need.

    It is compiled when it is needed, because the compiled scanner does without it.
    """
    return re.compile(
        rf"""
        {_OTHERS}
        [\t\n\f\r /]*+ ({_NAMED})
        (?: {SPACE}*+ = {SPACE}*+ (?: "([^"]*+)" | '([^']*+)' | ([^\t\n\f\r >]*+) ) )?
        """,
        re.VERBOSE,
    )


def attributes_of(text: str) -> Mapping[str, str]:
    """Return the attributes of a tag that links need, by lower-case name.

    If a name occurs several times, its first value counts. A value that is too long for a URL
    becomes a TooLong, or `data:` if it is such a URL. The value of a srcdoc is an Escaped.
    """
    return _known(text) if len(text) <= _SHORT else _attributes_of(text)


def _attributes_of(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    read = _named_attribute().match
    match = read(text)
    for _ in range(MOST_NAMED):
        if not match:
            break
        name, double, single, bare = match.groups()
        name = name.lower()
        if name not in found:
            found[name] = value_of(name, double or single or bare or "")
        match = read(text, match.end())
    return found


def value_of(name: str, written: str) -> str:
    """Return what `attributes_of` returns for an attribute, given what is written in its tag."""
    if name == "srcdoc":
        return Escaped(written)
    if len(written) <= _LONGEST_VALUE:
        return unescape(written)
    return "data:" if written[:5].lower() == "data:" else TooLong(written)


class Escaped(str):
    """A value whose character references aren't undone yet; `unescaping` undoes them."""

    __slots__ = ()


class TooLong(str):
    """An empty string in place of a value too long for a URL. `start`: the value's beginning."""

    __slots__ = ("start",)

    def __new__(cls, value: str) -> Self:
        """Make the empty string, and keep the beginning of the value."""
        instance = super().__new__(cls)
        instance.start = value[:_SHORT]
        return instance

    start: str


_SHORT: Final = 512  # characters
_known: Final = lru_cache(1 << 14)(_attributes_of)  # neighbouring pages have most tags in common


_REFERENCE: Final = re.compile(
    r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?+|([a-zA-Z][a-zA-Z0-9]*+)(;|=)?)"
)


def unescape(value: str) -> str:
    """Return the value of an attribute with its character references undone, by the standard.

    A value with more than _MOST_REFERENCES references is returned unchanged.
    """
    if "&" in value and value.count("&") <= _MOST_REFERENCES:
        value = _REFERENCE.sub(_character, value)
    return value.replace("\0", "\ufffd") if "\0" in value else value


_ESCAPED_STEP: Final = 1 << 15  # characters


def unescaping(value: str) -> Generator[None, None, str]:
    """Do the same as `unescape` in steps, without a limit on the number of references."""
    pieces = []
    at = 0
    while at < len(value):
        end = value.find("&", at + _ESCAPED_STEP)  # a step ends before a reference, never in one
        end = end if end >= 0 else len(value)
        pieces.append(_REFERENCE.sub(_character, value[at:end]).replace("\0", "\ufffd"))
        at = end
        yield
    return "".join(pieces)


def _character(match: re.Match[str]) -> str:
    hexadecimal, decimal, name, after = match.groups()
    if name:
        if after == ";" and (text := html5.get(name + ";")):
            return text
        # Without its semicolon, as in ?a&copy=1, a reference counts only if no name continues it.
        text = html5.get(name) if after != "=" else None
        return match[0] if text is None else text + (after or "")
    digits = (hexadecimal or decimal).lstrip("0") or "0"
    code = int(digits, 16 if hexadecimal else 10) if len(digits) < 8 else 0
    if 0x80 <= code < 0xA0:
        return bytes([code]).decode("cp1252", "replace")
    return "\ufffd" if code in range(0xD800, 0xE000) or not 0 < code < 0x110000 else chr(code)
