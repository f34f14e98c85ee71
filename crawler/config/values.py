"""The types of values in the configuration, with the errors for wrong values."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, PlainValidator
from pydantic.fields import FieldInfo

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


def seconds(text: object) -> object:
    """The seconds in a duration such as `"3h55m"`, `"90s"`, `"1d"` or a bare number."""
    if not isinstance(text, str):
        return text
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError("must be a duration: a number of seconds, or text like 90s or 3h55m")
    days, hours, minutes, rest = (float(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression ({error})") from None
    return text


def _formed(pattern: str, words: str) -> Callable[[str], str]:
    """Make a check that a regular expression matches a text. `words` is the error if it doesn't."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(words)
        return text

    return check


@dataclass(frozen=True)
class Names:
    """Marks a type whose values name a file or a session.

    What a crawl does also depends on the content of this file or session.
    """

    what: Literal["file", "session"]


InputFile = Annotated[str, Names("file")]
EarlierSession = Annotated[str, Names("session")]  # its directory
Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0)]
Size = Annotated[ByteSize, Field(gt=0)]
Regex = Annotated[str, AfterValidator(_regex)]
Count = Annotated[int, Field(ge=1)]
ParameterName = Annotated[
    str,
    AfterValidator(
        _formed(r"[^&;=?#/\s]+", "must be the name of a parameter; * stands for any characters")
    ),
]
DocumentKind = Annotated[
    str,
    AfterValidator(
        _formed(
            r"!?(\.[^\s/]+|[^\s/.]+/\S+)",
            "must be a media type, such as image/*, or an extension, such as .zip",
        )
    ),
]
FilePrefix = Annotated[
    str,
    AfterValidator(
        _formed(
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
            "must begin with a letter or digit, and go on with at most 99 of these, or of . _ -",
        )
    ),
]
Natural = Annotated[int, Field(ge=0)]


def _listen_address(text: str) -> str:
    match = re.fullmatch(r"(?:[^\s/:@]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})", text)
    if text and not (match and int(match[1]) <= 65535):
        raise ValueError("must be a host or an address with a port, such as 127.0.0.1:8080")
    return text


ListenAddress = Annotated[str, AfterValidator(_listen_address)]


def _limit(value: object) -> object:
    if value == "unlimited" or (type(value) is int and value >= 0):
        return value
    raise ValueError('must be a whole number from 0, or "unlimited"')


Limit = Annotated[int | Literal["unlimited"], PlainValidator(_limit)]
_PLUGIN = r"\w[\w.-]*"
PluginName = Annotated[
    str, AfterValidator(_formed(_PLUGIN, "must be the name of a plug-in, such as no-print"))
]
SchemeName = Annotated[
    str, AfterValidator(_formed(_PLUGIN, "must be the name of a scheme, such as site-hash"))
]
OrderName = Annotated[
    str,
    AfterValidator(
        _formed(
            rf"{_PLUGIN}|\w+(\.\w+)*:\w+",
            "must be the name of an order, such as breadth-first, or module:function",
        )
    ),
]


def what_is_named(info: FieldInfo) -> str | None:
    """What kind of thing the values of a key name, or None. See `Names`."""
    return next((mark.what for mark in _marks(info) if isinstance(mark, Names)), None)


def _marks(info: FieldInfo) -> Iterator[object]:
    yield from info.metadata
    for inner in get_args(info.annotation):  # of a tuple
        yield from getattr(inner, "__metadata__", ())
