"""A crawler whose reading code fails on chosen pages: `python breaking.py PLACE,... COMMAND ...`.

The functions named are replaced by ones that raise where what they are given has their own name in
it: `PageReader.read` fails on whatever says `break-PageReader.read`. Each raises another kind of
exception.
"""

import importlib
import sys
from collections.abc import Callable
from typing import Any

PLACES = (  # by the module that looks the function up
    "crawler.agent.agent:Agent._keeps",
    "crawler.reading.cookies:Jar.after",
    "crawler.net.credentials:Credentials.headers",
    "crawler.net.dns:DnsResolver.resolve",
    "crawler.net.http:HttpFetcher.fetch",
    "crawler.net.http:HttpFetcher.locate",
    "crawler.net.http:undoing",
    "crawler.net.response:ResponseReader.feed",
    "crawler.agent.fetching:retry_after_s",
    "crawler.reading.reader:PageReader.cookie",
    "crawler.reading.reader:PageReader.read",
    "crawler.reading.reader:PageReader.redirect_target",
    "crawler.reading.reader:PageReader.renew",
    "crawler.reading.reader:PageReader.sitemaps",
    "crawler.reading.reader:entries",
    "crawler.reading.reader:read_html",
    "crawler.reading.robots:Rules.allows",
    "crawler.reading.robots:Rules.reading",
    "crawler.session.log:LogWriter.frame",
    "crawler.session.metadata:media_type",
    "crawler.session.metadata:validator",
    "crawler.session.warc:_http_head",
    "crawler.reading.traps:TrapMonitor.admit",
    "crawler.reading.traps:TrapMonitor.compare",
    "crawler.reading.traps:TrapMonitor.is_full",
    "crawler.reading.traps:TrapMonitor.stored",
)


class PanicException(BaseException):
    """What libraries written in Rust raise."""


EXCEPTIONS: tuple[BaseException, ...] = (
    RecursionError("maximum recursion depth exceeded"),
    MemoryError(),
    UnicodeDecodeError("hex", b"x", 0, 1, "odd"),
    AssertionError(),
    LookupError("unknown encoding: hex"),
    PanicException("called `Option::unwrap()` on a `None` value"),
    ValueError("\ud800"),
    RuntimeError(),
    ZeroDivisionError(),
    StopIteration(),
    OSError("of no kind"),
    UnicodeEncodeError("ascii", "\ud800", 0, 1, "odd"),
)


def marker(place: str) -> str:
    """What breaks a function; part of a host name or a path."""
    name = place.partition(":")[2].lower().replace("_", "").replace(".", "-")
    return f"break-{name}-end"


def text_of(argument: object) -> str:
    """What there is of an argument to look for a marker in."""
    if isinstance(argument, bytes | bytearray):
        return argument.decode("latin-1")
    if isinstance(argument, str):
        return argument
    for name in ("url", "found", "row"):
        if hasattr(argument, name):
            return text_of(getattr(argument, name))
    return ""


# Functions that are called again without what the server has sent, and don't fail then.
WHEN: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "LogWriter.frame": lambda arguments: bool(arguments[2]),
    "_http_head": lambda arguments: bool(arguments[0].headers),
}


def breaking(function: Callable[..., Any], place: str, error: BaseException) -> Callable[..., Any]:
    mark, when = marker(place), WHEN.get(place.partition(":")[2], lambda _: True)

    def broken(*arguments: Any, **named: Any) -> Any:
        if any(mark in text_of(each).lower() for each in arguments) and when(arguments):
            raise error
        return function(*arguments, **named)

    return broken


def break_places(places: tuple[str, ...] = PLACES) -> None:
    for number, place in enumerate(places):
        module_name, _, path = place.partition(":")
        owner: Any = importlib.import_module(module_name)
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        held = owner.__dict__[name]
        function = held.__func__ if isinstance(held, classmethod) else held
        error = EXCEPTIONS[number % len(EXCEPTIONS)]
        broken: Any = breaking(function, place, error)
        setattr(owner, name, classmethod(broken) if isinstance(held, classmethod) else broken)


if __name__ == "__main__":
    from crawler.__main__ import main

    chosen, *words = sys.argv[1:]
    break_places(PLACES if chosen == "all" else tuple(chosen.split(",")))
    sys.exit(main(words))
