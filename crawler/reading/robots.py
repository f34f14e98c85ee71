"""Reads robots.txt: what a site allows us.

No I/O happens here: `crawler.net` fetches the file, and `robots_cache` keeps its rules. Reading and
matching (`patterns`) follow RFC 9309; docs/conformance.md has the results of Google's tests. A file
is read in steps, because a hostile file of half a megabyte takes 0.5 s.
"""

import codecs
import math
import re
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Final, Self

from isal import isal_zlib

from crawler.ports import Failure
from crawler.reading.patterns import Patterns
from crawler.reading.rules import Rule, rules_of
from crawler.reading.steps import finish

MAX_BYTES: Final = 512 << 10  # the bytes of a robots.txt that are read; RFC 9309 requires 500 KiB

_LINE: Final = re.compile(r"[^\r\n]+")
_LONGEST_LINE: Final = 1 << 16  # characters; a longer line can match no URL that is fetched
_STEP: Final = 1 << 13  # characters read in one step
_LARGE: Final = 256 << 10  # bytes of rules; more than 10,000 rules
# Keys in lower case, without blanks and hyphens. The RFC allows misspellings; these are Google's.
_KINDS: Final = {
    "useragent": "agent",
    "allow": "allow",
    **dict.fromkeys(
        ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "disallow"
    ),
    "crawldelay": "delay",
    "sitemap": "sitemap",
}
_MARK: Final = codecs.BOM_UTF8.decode("latin-1")
_LONGEST_KEY: Final = 64  # characters, with the blanks around it
_PRODUCT_TOKEN: Final = re.compile(r"[A-Za-z_-]*")
_MOST_SITEMAPS: Final = 5_000  # Sitemap lines of a file that are read


class _Lines:
    """The compressed text of a robots.txt, from which rules can be made again."""

    __slots__ = ("_packed", "size")

    def __init__(self, text: str) -> None:
        self._packed = isal_zlib.compress(text.encode("latin-1"), 1)
        self.size = len(self._packed)

    def rule(self, place: int) -> Rule:
        """Return the rule of a place: twice the offset of its line, plus one for a second rule."""
        at, second = divmod(place, 2)
        match = _LINE.match(isal_zlib.decompress(self._packed).decode("latin-1"), at)
        assert match
        record = _record(match[0])
        assert record
        kind, value, line = record
        return rules_of(value, line, allow=kind == "allow")[second]


class Rules:
    """The rules that the robots.txt of an authority has for our agent. Immutable."""

    __slots__ = (
        "_patterns",
        "crawl_delay",
        "retry_after_s",
        "sitemaps",
        "size",
        "unreachable",
    )

    crawl_delay: float | None  # seconds
    sitemaps: tuple[str, ...]  # as written
    unreachable: Failure | None  # why there is no file yet; meanwhile all is denied
    size: int  # about how many bytes the rules take in memory
    retry_after_s: float | None  # if unreachable: the seconds that the server asks us to wait

    def __init__(
        self,
        patterns: Patterns | None = None,
        crawl_delay: float | None = None,
        sitemaps: tuple[str, ...] = (),
        unreachable: Failure | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self._patterns = patterns
        self.crawl_delay = crawl_delay
        self.sitemaps = sitemaps
        self.unreachable = unreachable
        self.retry_after_s = retry_after_s
        self.size = 200 + sum(map(len, sitemaps)) + 100 * len(sitemaps)
        if patterns is not None:
            self.size += patterns.size

    @classmethod
    def parse(cls, body: bytes, agent: str) -> Self:
        """Do the same as `reading`, without steps."""
        return finish(cls.reading(body, agent))

    @classmethod
    def reading(cls, body: bytes, agent: str) -> Generator[None, None, Self]:
        """Return the rules for the product token `agent`, in steps of a few milliseconds.

        `body` may be any bytes. All groups that name the agent are merged. If no group names the
        agent, the groups for `*` are merged. If there are no such groups, everything is allowed. If
        there are several Crawl-delay lines, the longest delay counts.
        """
        is_cut = len(body) > MAX_BYTES
        body = _in_utf_8(body[:MAX_BYTES])
        if is_cut:
            # The cut line is dropped, because "Disallow: /private" may be cut to "Disallow: /".
            body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
        ours = agent.lower()
        rules: dict[str, Patterns] = {}  # for our agent and for *
        delays: dict[str, float] = {}
        sitemaps: list[str] = []
        # Which of the two names the current group is for. The RFC doesn't know Crawl-delay, so that
        # line doesn't end a group. A delay is for the agents named since the last delay or rule.
        group: set[str] = set()
        delayed: set[str] = set()
        group_is_complete = delayed_is_complete = True
        text = body.replace(b"\0", b"").decode("latin-1")
        for placed in _records(text):
            if placed is None:
                yield
                continue
            at, (kind, value, line) = placed
            if kind == "sitemap":
                if len(sitemaps) < _MOST_SITEMAPS:
                    sitemaps.append(value.encode("latin-1").decode("utf-8", "replace"))
            elif kind == "agent":
                if group_is_complete:
                    group = set()
                if delayed_is_complete:
                    delayed = set()
                group_is_complete = delayed_is_complete = False
                name = _agent_name(value)
                if name in {ours, "*"}:
                    group.add(name)
                    delayed.add(name)
                    rules.setdefault(name, Patterns())
            elif kind == "delay":
                delayed_is_complete = True
                delay = _delay(value)
                for name in delayed if delay else ():
                    delays[name] = max(delay, delays.get(name, 0.0))
            else:
                group_is_complete = delayed_is_complete = True
                if group and value:
                    for second, rule in enumerate(rules_of(value, line, allow=kind == "allow")):
                        for name in group:
                            rules[name].add(rule, 2 * at + second)
        name = ours if ours in rules else "*"
        patterns = rules.get(name)
        if patterns is not None:
            yield from _closing(patterns, text)
        return cls(patterns, delays.get(name), tuple(sitemaps))

    @classmethod
    def allow_all(cls) -> "Rules":
        """Return the rules of a site without a robots.txt: everything is allowed."""
        return _ALLOW_ALL

    @classmethod
    def deny_all(
        cls, why: Failure = Failure.ROBOTS_UNREACHABLE, retry_after_s: float | None = None
    ) -> "Rules":
        """Return the rules of a robots.txt that can't be reached: nothing may be fetched for now.

        `retry_after_s`: the seconds that the server asks us to wait, if it does.
        """
        return cls(unreachable=why, retry_after_s=retry_after_s)

    def are_large(self) -> bool:
        """Whether the rules are so large that a cache keeps only a few of them."""
        return self.size > _LARGE

    def allows(self, url: str) -> bool:
        """Whether a normalised URL may be fetched. /robots.txt always may."""
        return finish(self.judging(url))

    def judging(self, url: str) -> Generator[None, None, bool]:
        """Do the same as `allows`, in steps: many rules and a long path may take 0.4 s."""
        path = url[url.index("/", 8) :]
        if self.unreachable:
            return path == "/robots.txt"
        rule = (yield from self._patterns.deciding(path)) if self._patterns else None
        return rule is None or rule.allow or path == "/robots.txt"

    def decide(self, url: str) -> tuple[bool, str | None]:
        """Return `allows(url)`, and the line of robots.txt that decided, or None."""
        path = url[url.index("/", 8) :]
        if self.unreachable or path == "/robots.txt":
            return self.allows(url), None
        rule = finish(self._patterns.deciding(path)) if self._patterns else None
        if rule is None:
            return True, None
        return rule.allow, rule.line.encode("latin-1").decode("utf-8", "replace")


def _closing(patterns: Patterns, text: str) -> Generator[None, None, None]:
    """Close the rules of a file, in steps."""
    if not patterns.are_packed:
        yield from patterns.closing(_no_rule)
        return
    lines = _Lines(text)
    yield from patterns.closing(lines.rule)
    patterns.size += lines.size


def _no_rule(place: int) -> Rule:
    raise AssertionError(place)


# UTF-32 comes before UTF-16, because its mark begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# A file of UTF-16 without a mark begins with two characters of ASCII.
_UNMARKED: Final = (
    (re.compile(rb"[\t-\x7e]\0[\t-\x7e]\0"), "utf-16-le"),
    (re.compile(rb"\0[\t-\x7e]\0[\t-\x7e]"), "utf-16-be"),
)


def _in_utf_8(body: bytes) -> bytes:
    """Remove the byte-order mark of a robots.txt, and convert UTF-16 and UTF-32 to UTF-8.

    Other encodings aren't converted, because rules are matched byte by byte.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _re_encoded(body.removeprefix(mark), encoding)
    for start, encoding in _UNMARKED:
        if start.match(body):
            return _re_encoded(body, encoding)
    return body


def _re_encoded(body: bytes, encoding: str) -> bytes:
    if encoding == "utf-8":
        return body
    return body.decode(encoding, "replace").encode("utf-8", "replace")


_Record = tuple[str, str, str]  # kind, value and whole line; each character stands for a byte


def _records(text: str) -> Iterator[tuple[int, _Record] | None]:
    """Yield the lines that are records, with their offsets. Yields None between two steps."""
    pause = _STEP
    for match in _LINE.finditer(text):
        if match.end() > pause:
            pause = match.end() + _STEP
            yield None
        if match.end() - match.start() <= _LONGEST_LINE and (record := _record(match[0])):
            yield match.start(), record


def _record(line: str) -> _Record | None:
    key, colon, value = line.partition("#")[0].partition(":")
    if not colon:  # the colon was forgotten
        key, _, value = key.strip().partition(" ")
    kind = _kind(key) if len(key) <= _LONGEST_KEY else None
    return (kind, value.strip(), line.strip()) if kind else None


@lru_cache(256)
def _kind(key: str) -> str | None:
    # A file that was joined from several files has byte-order marks inside.
    name = key.strip().removeprefix(_MARK).strip()
    return _KINDS.get(name.lower().replace(" ", "").replace("-", ""))


def _agent_name(value: str) -> str:
    """Return `*`, or the product token in lower case: `foobot` for `FooBot/2.1 (x)`."""
    words = value.split(maxsplit=1)
    if words and words[0] == "*":
        return "*"
    token = _PRODUCT_TOKEN.match(value)
    return token[0].lower() if token else ""


def _delay(value: str) -> float:
    """Return the seconds of a Crawl-delay; 0 if they aren't a positive number."""
    try:
        delay = float(value)
    except ValueError:
        return 0.0
    return delay if 0 < delay < math.inf else 0.0


_ALLOW_ALL = Rules()
