"""HTML to the tags that hold links, by the tokeniser of the HTML standard, without a tree.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization. Links don't need the tree, and
libraries build it in a time quadratic in the depth of nesting and in the attributes of a tag: of
1 MB of `<div>` in minutes. Here time grows with length, memory doesn't, and a caller can do other
work between two steps. docs/decisions/two-readers-of-html.md has the measurements.
"""

import re
import sys
from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from html.entities import html5
from typing import Final, Self

SPACE: Final = r"[\t\n\f\r ]"
_BREAK: Final = r"[\t\n\f\r />]"  # after a name


def _possessive(group: str, times: str) -> str:
    """The group, repeated, and never read another way.

    Before 3.11.5 Python matches possessive groups wrongly. An atomic group says the same and takes
    the reader a sixth longer.
    """
    if sys.version_info >= (3, 11, 5):
        return f"{group}{times}+"
    return f"(?>{group}{times})"


# Everything is possessive (++, *+, ?+): nothing is ever read twice, and a construct that doesn't
# end within the text fails as a whole.
_QUOTED_OR_BARE: Final = r"""(?:"[^"]*+"|'[^']*+'|(?!["'])[^\t\n\f\r >]*+)"""
ATTRIBUTE: Final = (
    rf"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:{SPACE}*+={SPACE}*+{_QUOTED_OR_BARE}|(?!{SPACE}*+=))"
)
# 300,000 attributes take 50 ms. A tag with more is none, nor is what follows.
ATTRIBUTES: Final = _possessive(rf"(?:[\t\n\f\r /]*+{ATTRIBUTE})", "{0,300000}") + r"[\t\n\f\r /]*+"

_RAW_TEXT: Final = frozenset(
    {"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"}
)
_NESTED: Final = frozenset({"math", "svg", "template"})
_WINDOW: Final = 1 << 17  # characters read in one step, if no construct is longer
_TOKENS: Final = 1 << 11  # tags and comments in one step
_MOST_NOFRAMES: Final = 1 << 10  # before the frameset
_LONGEST_VALUE: Final = 1 << 18  # characters of an attribute; data: URLs are longer, links aren't
_MOST_NAMED: Final = 1 << 10  # attributes of a tag with the names that links need
_MOST_REFERENCES: Final = 1 << 14  # to characters, in one value
_LONGEST_MARK: Final = 16  # characters that end a comment or raw text, and what must follow them


def _any_case(name: str) -> str:
    """A name in either case; much faster than the flag IGNORECASE."""
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in name)


@lru_cache(64)
def _reader(names: frozenset[str]) -> re.Pattern[str]:
    """Skips to the next start tag (or end of template, math or svg) with one of the names."""
    wanted = "|".join(map(_any_case, sorted(names | _RAW_TEXT | _NESTED | {"frameset"})))
    ends = "|".join(map(_any_case, sorted(_NESTED)))
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


_COMMENT_END: Final = re.compile("--(?:>|!(?<!<!--!)>)")
_RAW_TEXT_END: Final = {
    name: re.compile(rf"</{_any_case(name)}(?={_BREAK})")
    for name in _RAW_TEXT - {"plaintext", "script"}
}
# What matters in a script: at its start, after <!--, and after a <script> behind that.
_SCRIPT_END: Final = rf"</{_any_case('script')}(?={_BREAK})"
_SCRIPT_MARKS: Final = re.compile(rf"<!--|{_SCRIPT_END}")
_SCRIPT_ESCAPED_MARKS: Final = re.compile(rf"-->|</?{_any_case('script')}(?={_BREAK})")
_SCRIPT_NESTED_MARKS: Final = re.compile(rf"-->|{_SCRIPT_END}")
_ABRUPT_END: Final = re.compile("-*+>")  # <!--> is a whole comment


def tags(text: str, names: frozenset[str]) -> Iterator[tuple[str, str] | None]:
    """The start tags with these names (lower case): name, and attributes as they stand there.

    Yields None between two steps of the work, each of a few milliseconds. Text in comments,
    scripts, templates and the like holds no tags. noscript and declarative shadow roots hold tags;
    so does noframes in a page with a frameset.
    """
    read = _reader(names).match
    at, end, pause, length = 0, _WINDOW, _WINDOW, len(text)
    templates = foreign = count = 0
    has_frameset = False
    unread: list[tuple[int, int]] = []  # where noframes stand that come before the frameset
    while at < length:
        token = read(text, at, end)
        assert token  # it matches nothing at least
        at = token.end()
        count += 1
        if at >= pause or count % _TOKENS == 0:
            pause = at + _WINDOW
            yield None  # also before the attributes of a tag of megabytes are looked at
        comment, closing, name, attributes = token.groups()
        if name:
            name = name.lower()
            if name == "frameset" and not has_frameset:
                has_frameset = True
                for first, last in unread:
                    yield from tags(text[first:last], names)
            if name in names and not templates:
                yield name, attributes
            elif name in _NESTED:
                change = -1 if closing else 1
                if name == "template":
                    # The end of a shadow root changes nothing: no template is open around it.
                    if closing or templates or not is_shadow_root(attributes):
                        templates = max(0, templates + change)
                elif closing or not attributes.endswith("/"):
                    foreign = max(0, foreign + change)
            if name in _RAW_TEXT and not (foreign and attributes.endswith("/")):
                if name != "noframes":
                    at = yield from _end_of_raw_text(text, name, at)
                elif not has_frameset:
                    first, at = at, (yield from _end_of_raw_text(text, name, at))
                    if len(unread) < _MOST_NOFRAMES:
                        unread.append((first, at))
        elif comment:
            match = yield from _searching(_COMMENT_END, text, at - 2)  # <!--> is a whole one
            at = match.end() if match else length
        elif end >= length:
            return  # what follows, if anything, is without its end
        else:
            end = at + (_WINDOW if end - at < _WINDOW else 2 * (end - at))
            yield None
        if at >= end:
            end = at + _WINDOW


SHADOW_ROOTS: Final = frozenset({"open", "closed"})


def is_shadow_root(attributes: str) -> bool:
    """Whether a `template` with these attributes is a declarative shadow root, which is visible."""
    mode = attributes_of(attributes).get("shadowrootmode", "") if attributes else ""
    return mode.lower() in SHADOW_ROOTS


def _searching(
    pattern: re.Pattern[str], text: str, at: int
) -> Generator[None, None, re.Match[str] | None]:
    """The first match of a pattern from a place on, of at most _LONGEST_MARK characters."""
    while True:
        end = at + _WINDOW
        match = pattern.search(text, at, end + _LONGEST_MARK)
        if match or end >= len(text):
            return match
        at = end
        yield


def _end_of_raw_text(text: str, name: str, at: int) -> Generator[None, None, int]:
    """Where the end tag starts that closes an element whose content is no markup."""
    if name == "plaintext":
        return len(text)
    if name == "script":
        return (yield from _end_of_script(text, at))
    match = yield from _searching(_RAW_TEXT_END[name], text, at)
    return match.start() if match else len(text)


def _end_of_script(text: str, at: int) -> Generator[None, None, int]:
    """Where a script ends. <script><!-- <script> </script> --></script> is one element."""
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


_ATTRIBUTE_NAMES: Final = (
    "content href http-equiv name rel shadowrootmode src srcdoc srcset".split()  # noqa: SIM905
)
_NAMED: Final = rf"(?:{'|'.join(map(_any_case, _ATTRIBUTE_NAMES))})(?=[\t\n\f\r />=]|\Z)"
_OTHERS: Final = _possessive(rf"(?: [\t\n\f\r /]*+ (?!{_NAMED}) {ATTRIBUTE} )", "*")
_NAMED_ATTRIBUTE: Final = re.compile(
    rf"""
    {_OTHERS}
    [\t\n\f\r /]*+ ({_NAMED})
    (?: {SPACE}*+ = {SPACE}*+ (?: "([^"]*+)" | '([^']*+)' | ([^\t\n\f\r >]*+) ) )?
    """,
    re.VERBOSE,
)


def attributes_of(text: str) -> Mapping[str, str]:
    """The attributes of a tag that links need, by lower-case name; the first one of each name.

    A value that is far too long for a URL is a TooLong, or `data:` if it is such a URL. The value
    of a srcdoc is an Escaped.
    """
    return _known(text) if len(text) <= _SHORT else _attributes_of(text)


def _attributes_of(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    match = _NAMED_ATTRIBUTE.match(text)
    for _ in range(_MOST_NAMED):
        if not match:
            break
        name, double, single, bare = match.groups()
        name = name.lower()
        if name not in found:
            value = double or single or bare or ""
            if name == "srcdoc":
                found[name] = Escaped(value)
            elif len(value) <= _LONGEST_VALUE:
                found[name] = unescape(value)
            else:
                found[name] = _instead_of(value)
        match = _NAMED_ATTRIBUTE.match(text, match.end())
    return found


class Escaped(str):
    """A value whose character references are still to be undone, by `unescaping`."""

    __slots__ = ()


class TooLong(str):
    """An empty string that stands for a value too long for a URL. `start`: how the value begins."""

    __slots__ = ("start",)

    def __new__(cls, value: str) -> Self:
        instance = super().__new__(cls)
        instance.start = value[:_SHORT]
        return instance

    start: str


def _instead_of(value: str) -> str:
    return "data:" if value[:5].lower() == "data:" else TooLong(value)


_SHORT: Final = 512  # characters
_known: Final = lru_cache(1 << 14)(_attributes_of)  # most tags stand on the neighbours too


_REFERENCE: Final = re.compile(
    r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?+|([a-zA-Z][a-zA-Z0-9]*+)(;|=)?)"
)


def unescape(value: str) -> str:
    """The value of an attribute with its character references undone, as the standard says.

    A value with more than _MOST_REFERENCES stays as it is.
    """
    if "&" in value and value.count("&") <= _MOST_REFERENCES:
        value = _REFERENCE.sub(_character, value)
    return value.replace("\0", "\ufffd") if "\0" in value else value


_ESCAPED_STEP: Final = 1 << 15  # characters


def unescaping(value: str) -> Generator[None, None, str]:
    """`unescape` in steps, with no limit on the number of references."""
    pieces = []
    at = 0
    while at < len(value):
        end = value.find("&", at + _ESCAPED_STEP)  # so no reference lies across
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
        # &copy in a query: without its semicolon it counts only where nothing like a name goes on.
        text = html5.get(name) if after != "=" else None
        return match[0] if text is None else text + (after or "")
    digits = (hexadecimal or decimal).lstrip("0") or "0"
    code = int(digits, 16 if hexadecimal else 10) if len(digits) < 8 else 0
    if 0x80 <= code < 0xA0:
        return bytes([code]).decode("cp1252", "replace")
    return "\ufffd" if code in range(0xD800, 0xE000) or not 0 < code < 0x110000 else chr(code)
