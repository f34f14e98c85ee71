"""The types of values in the configuration, with the errors for wrong values."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

_DURATION: Final = r"(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+(?:\.[0-9]+)?)s?)?"
_SIZE: Final = r"([0-9]*\.?[0-9]+)\s*(?:([kmgtpe])(i?))?b?"


class Read(NamedTuple):
    """Marks a type with a function that turns what a user writes into a value of this type.

    The function returns what it doesn't know as it is, or raises ValueError.
    """

    read: Callable[[object], object]


class Check(NamedTuple):
    """Marks a type with a function that raises ValueError if a value isn't allowed."""

    check: Callable[[Any], None]


class Bounds(NamedTuple):
    """Marks a type with what is allowed: from `ge`, above `gt`, up to `le`; or a length."""

    ge: int | None = None
    gt: int | None = None
    le: int | None = None
    min_length: int = 0

    def check(self, value: Any) -> None:
        """Raise ValueError if the value isn't allowed."""
        if self.ge is not None and not value >= self.ge:
            raise ValueError(f"must be greater than or equal to {self.ge}")
        if self.gt is not None and not value > self.gt:
            raise ValueError(f"must be greater than {self.gt}")
        if self.le is not None and not value <= self.le:
            raise ValueError(f"must be less than or equal to {self.le}")
        if self.min_length and len(value) < self.min_length:
            what = "character" if isinstance(value, str) else "item"
            raise ValueError(f"must have at least {self.min_length} {what}")


def seconds(text: object) -> object:
    """The seconds in a duration such as `"3h55m"`, `"90s"`, `"1d"` or a bare number."""
    if not isinstance(text, str):
        return text
    match = re.fullmatch(_DURATION, text.strip())
    if not match or not any(match.groups()):
        raise ValueError("must be a duration: a number of seconds, or text like 90s or 3h55m")
    days, hours, minutes, rest = (float(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def size(text: object) -> object:
    """The bytes in a size such as `"64KiB"`, `"1.5 GB"` or a bare number."""
    if type(text) is int or (isinstance(text, float) and text.is_integer()):
        return int(text)
    match = isinstance(text, str) and re.fullmatch(_SIZE, text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError("must be a size, like 64KiB or 1GB")
    number, letter, binary = match.groups()
    base = 1024 if binary else 1000
    factor = base ** ("kmgtpe".index(letter.lower()) + 1) if letter else 1
    return int(float(number) * factor) if "." in number else int(number) * factor


def check_regex(text: str) -> None:
    """Raise ValueError if a text is no regular expression."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"must be a regular expression ({error})") from None


def _formed(pattern: str, words: str) -> Check:
    """Make a check that a regular expression matches a text. `words` is the error if it doesn't."""

    def check(text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise ValueError(words)

    return Check(check)


class Names(NamedTuple):
    """Marks a type whose values name a file or a session.

    What a crawl does also depends on the content of this file or session.
    """

    what: Literal["file", "session"]


InputFile = Annotated[str, Names("file")]
EarlierSession = Annotated[str, Names("session")]  # its directory
Positive = Annotated[float, Bounds(gt=0)]
NonNegative = Annotated[float, Bounds(ge=0)]
Duration = Annotated[float, Read(seconds), Bounds(ge=0)]
Size = Annotated[int, Read(size), Bounds(gt=0)]
AnySize = Annotated[int, Read(size), Bounds(ge=0)]
Regex = Annotated[str, Check(check_regex)]
Count = Annotated[int, Bounds(ge=1)]
Natural = Annotated[int, Bounds(ge=0)]
ParameterName = Annotated[
    str,
    _formed(r"[^&;=?#/\s]+", "must be the name of a parameter; * stands for any characters"),
]
DocumentKind = Annotated[
    str,
    _formed(
        r"!?(\.[^\s/]+|[^\s/.]+/\S+)",
        "must be a media type, such as image/*, or an extension, such as .zip",
    ),
]
FilePrefix = Annotated[
    str,
    _formed(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
        "must begin with a letter or digit, and go on with at most 99 of these, or of . _ -",
    ),
]


def _listen_address(text: str) -> None:
    match = re.fullmatch(r"(?:[^\s/:@]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})", text)
    if text and not (match and int(match[1]) <= 65535):
        raise ValueError("must be a host or an address with a port, such as 127.0.0.1:8080")


ListenAddress = Annotated[str, Check(_listen_address)]


def _limit(value: object) -> object:
    if value == "unlimited" or (type(value) is int and value >= 0):
        return value
    raise ValueError('must be a whole number from 0, or "unlimited"')


Limit = Annotated[int | Literal["unlimited"], Read(_limit)]
_PLUGIN = r"\w[\w.-]*"
PluginName = Annotated[str, _formed(_PLUGIN, "must be the name of a plug-in, such as no-print")]
SchemeName = Annotated[str, _formed(_PLUGIN, "must be the name of a scheme, such as site-hash")]
OrderName = Annotated[
    str,
    _formed(
        rf"{_PLUGIN}|\w+(\.\w+)*:\w+",
        "must be the name of an order, such as breadth-first, or module:function",
    ),
]


REQUIRED: Final = object()  # stands for the default of a key that has none


class Key(NamedTuple):
    """What is known of a key."""

    kind: Any  # the type of its values, with the marks on it
    default: Any
    about: str
    aside: bool  # see `table.key`

    @property
    def is_required(self) -> bool:
        """Whether the key has no default."""
        return self.default is REQUIRED


def what_is_named(kind: Any) -> str | None:
    """What kind of thing the values of a key name, or None. `kind`: their type. See `Names`."""
    return next((mark.what for mark in marks(kind) if isinstance(mark, Names)), None)


def marks(kind: Any) -> Iterator[object]:
    """Yield the marks on a type, and on the types of its elements."""
    yield from getattr(kind, "__metadata__", ())
    for inner in get_args(kind):
        yield from marks(inner)
