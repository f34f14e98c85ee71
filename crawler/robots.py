"""robots.txt: what a site allows us, and for how long an answer holds.

Pure: the file comes in as bytes and the time as a number; `crawler.net` fetches. Reading and
matching are those of RFC 9309; docs/conformance.md holds them against Google's tests. Reading comes
in steps: half a megabyte made to be slow takes 0.2 s.
"""

import codecs
import math
import re
from collections import OrderedDict
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, Self

from crawler.ports import Failure

MAX_BYTES: Final = 512 << 10  # of a robots.txt are looked at; RFC 9309 asks for 500 KiB

_LINE: Final = re.compile(r"[^\r\n]+")
_LONGEST_LINE: Final = 1 << 16  # characters; longer ones speak of no URL that anybody asks for
_STEP: Final = 1 << 13  # characters read in one step
# Keys, lower case, without blanks and hyphens; misspellings are Google's, which the RFC allows.
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
# An index page that is allowed allows its folder. That is Google's, and what the author means.
_INDEX: Final = re.compile(r"/index\.html?\Z")
# What a pattern and a path may be written in differently: escapes, and what must be escaped.
_UNEVEN: Final = re.compile(r"%([0-9A-Fa-f]{2})|[^A-Za-z0-9._~:/?#\[\]@!&'()+,;=%-]")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")


class _Rule(NamedTuple):
    """An Allow or Disallow line. Of the rules that match a path, the greatest one decides."""

    octets: int  # of the pattern, escaped
    allow: bool
    pieces: tuple[str, ...]  # of the pattern, between its stars
    anchored: bool  # the pattern ends with $
    line: str

    def weight(self) -> int:
        """Greater for the greater of two rules; sorting by it is far faster."""
        return 2 * self.octets + self.allow

    def matches(self, path: str) -> bool:
        head, *middle = self.pieces
        if not path.startswith(head):
            return False
        at, end = len(head), len(path)
        if self.anchored:
            if not middle:
                return at == end
            tail = middle.pop()
            end -= len(tail)
            if end < at or not path.endswith(tail):
                return False
        for piece in middle:  # the first place is the best, so nothing is ever tried again
            at = path.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


class _Table:
    """Rules put so that the one that decides is found fast."""

    __slots__ = ("prefixes", "wild")

    def __init__(self) -> None:
        self.prefixes: dict[str, _Rule] = {}  # most of all rules, so looked up
        self.wild: list[_Rule] = []

    def add(self, rule: _Rule) -> None:
        if rule.anchored or len(rule.pieces) > 1:
            self.wild.append(rule)
        else:
            prefix = rule.pieces[0]
            self.prefixes[prefix] = max(rule, self.prefixes.get(prefix, rule))


class Rules:
    """What one site's robots.txt says to one agent. Immutable."""

    __slots__ = (
        "_lengths",
        "_prefixes",
        "_wild",
        "crawl_delay",
        "retry_after_s",
        "sitemaps",
        "unreachable",
    )

    crawl_delay: float | None  # seconds
    sitemaps: tuple[str, ...]  # as written
    unreachable: Failure | None  # why there was no answer; all is denied until there is one
    retry_after_s: float | None  # if unreachable: how long the server wants to be left alone

    def __init__(
        self,
        table: _Table,
        crawl_delay: float | None = None,
        sitemaps: tuple[str, ...] = (),
        unreachable: Failure | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self._prefixes = table.prefixes
        self._lengths = sorted(set(map(len, table.prefixes)), reverse=True)
        self._wild = sorted(table.wild, key=_Rule.weight, reverse=True)
        self.crawl_delay = crawl_delay
        self.sitemaps = sitemaps
        self.unreachable = unreachable
        self.retry_after_s = retry_after_s

    @classmethod
    def parse(cls, body: bytes, agent: str) -> Self:
        """`reading`, all at once."""
        steps = cls.reading(body, agent)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                rules: Self = end.value
                return rules

    @classmethod
    def reading(cls, body: bytes, agent: str) -> Generator[None, None, Self]:
        """The rules for the product token `agent` in a robots.txt, in steps of a few milliseconds;
        any bytes will do.

        The groups that name the agent, merged; without one those for `*`; else all is allowed.
        Several Crawl-delay lines: the longest.
        """
        is_cut = len(body) > MAX_BYTES
        body = _in_utf_8(body[:MAX_BYTES])
        if is_cut:
            # The cut line goes too: "Disallow: /" may be left of "Disallow: /private".
            body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
        ours = agent.lower()
        rules: dict[str, _Table] = {}  # of us and of *
        delays: dict[str, float] = {}
        sitemaps = []
        # Which of the two the current group is for. To the RFC, Crawl-delay is nothing: it parts no
        # groups of Allow and Disallow. A delay itself is for the agents named since the last one.
        group: set[str] = set()
        delayed: set[str] = set()
        group_is_complete = delayed_is_complete = True
        for record in _records(body):
            if record is None:
                yield
                continue
            kind, value, line = record
            if kind == "sitemap":
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
                    rules.setdefault(name, _Table())
            elif kind == "delay":
                delayed_is_complete = True
                delay = _delay(value)
                for name in delayed if delay else ():
                    delays[name] = max(delay, delays.get(name, 0.0))
            else:
                group_is_complete = delayed_is_complete = True
                if group and value:
                    for rule in _rules(value, line, allow=kind == "allow"):
                        for name in group:
                            rules[name].add(rule)
        name = ours if ours in rules else "*"
        return cls(rules.get(name) or _Table(), delays.get(name), tuple(sitemaps))

    @classmethod
    def allow_all(cls) -> "Rules":
        """There is no robots.txt."""
        return _ALLOW_ALL

    @classmethod
    def deny_all(
        cls, why: Failure = Failure.ROBOTS_UNREACHABLE, retry_after_s: float | None = None
    ) -> "Rules":
        """The robots.txt can't be reached: nothing may be fetched for now.

        `retry_after_s`: how long the server wants to be left alone, if it says so.
        """
        return cls(_Table(), unreachable=why, retry_after_s=retry_after_s)

    def allows(self, url: str) -> bool:
        """Whether a normalised URL may be fetched; /robots.txt always may."""
        path = url[url.index("/", 8) :]
        if self.unreachable:
            return path == "/robots.txt"
        rule = self._decisive(path)
        return rule is None or rule.allow or path == "/robots.txt"

    def decide(self, url: str) -> tuple[bool, str | None]:
        """`allows(url)`, and the line of robots.txt that decided, if any."""
        path = url[url.index("/", 8) :]
        if self.unreachable or path == "/robots.txt":
            return self.allows(url), None
        rule = self._decisive(path)
        if rule is None:
            return True, None
        return rule.allow, rule.line.encode("latin-1").decode("utf-8", "replace")

    def _decisive(self, path: str) -> _Rule | None:
        """The rule with the longest matching pattern, Allow before Disallow."""
        if not (self._prefixes or self._wild):
            return None
        path = _octets(path)
        found = None
        for length in self._lengths:
            found = self._prefixes.get(path[:length])
            if found:
                break
        for rule in self._wild:
            if found and rule < found:
                break
            if rule.matches(path):
                return rule
        return found


# In this order, as the mark of UTF-16 is the beginning of UTF-32's.
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
    """A robots.txt without its byte-order mark, in UTF-8 if it was in UTF-16 or UTF-32.

    Bytes of any other encoding stay as they are: rules are matched octet by octet.
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


def _records(body: bytes) -> Iterator[tuple[str, str, str] | None]:
    """The lines that mean something: kind, value and whole line. A character stands for a byte.

    None comes between two steps.
    """
    text = body.replace(b"\0", b"").decode("latin-1")
    pause = _STEP
    for match in _LINE.finditer(text):
        if match.end() > pause:
            pause = match.end() + _STEP
            yield None
        if match.end() - match.start() > _LONGEST_LINE:
            continue
        line = match[0]
        key, colon, value = line.partition("#")[0].partition(":")
        if not colon:  # forgotten
            key, _, value = key.strip().partition(" ")
        kind = _kind(key) if len(key) <= _LONGEST_KEY else None
        if kind:
            yield kind, value.strip(), line.strip()


@lru_cache(256)
def _kind(key: str) -> str | None:
    # Files put together from several ones have byte-order marks inside.
    name = key.strip().removeprefix(_MARK).strip()
    return _KINDS.get(name.lower().replace(" ", "").replace("-", ""))


def _agent_name(value: str) -> str:
    """`*`, or the product token: `FooBot/2.1 (x)` is `foobot`."""
    words = value.split(maxsplit=1)
    if words and words[0] == "*":
        return "*"
    token = _PRODUCT_TOKEN.match(value)
    return token[0].lower() if token else ""


def _delay(value: str) -> float:
    """Seconds; 0 if they make no sense."""
    try:
        delay = float(value)
    except ValueError:
        return 0.0
    return delay if 0 < delay < math.inf else 0.0


def _rules(pattern: str, line: str, *, allow: bool) -> list[_Rule]:
    rules = [_rule(pattern, line, allow=allow)]
    if allow and (folder := _INDEX.sub("/", pattern)) != pattern:
        rules.append(_rule(folder + "$", line, allow=True))
    return rules


def _rule(pattern: str, line: str, *, allow: bool) -> _Rule:
    anchored = pattern.endswith("$")
    if not anchored and "*" not in pattern:  # most are so, and a large file has thousands
        prefix = _octets(pattern)
        return _Rule(len(prefix), allow, (prefix,), False, line)
    pieces = [_octets(piece) for piece in pattern.removesuffix("$").split("*")]
    octets = sum(map(len, pieces)) + len(pieces) - 1 + anchored
    pieces = [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]  # `**` is `*`
    return _Rule(octets, allow, tuple(pieces), anchored, line)


def _octets(text: str) -> str:
    """The one spelling of a path or of a piece of a pattern: RFC 9309, section 2.2.2.

    Letters, digits and `-._~` aren't escaped; what isn't ASCII or no part of a URL is, and so are
    stars and dollar signs that mean themselves. `%2F` and `/` stay different.
    """
    return _UNEVEN.sub(_even, text) if _UNEVEN.search(text) else text


def _even(match: re.Match[str]) -> str:
    if match[1]:
        character = chr(int(match[1], 16))
        return character if _UNRESERVED.fullmatch(character) else match[0].upper()
    return f"%{ord(match[0]):02X}"


_ALLOW_ALL = Rules(_Table())


class RobotsCache:
    """The rules of the sites met lately, by authority; the least recently used go first.

    A site takes 2 to 40 kB, as it has rules; those without share one object.
    """

    def __init__(
        self, max_sites: int = 10_000, ttl_s: float = 86_400, unreachable_ttl_s: float = 600
    ) -> None:
        self._max_sites = max_sites
        self._ttl_s = ttl_s
        self._unreachable_ttl_s = unreachable_ttl_s
        self._sites: OrderedDict[str, tuple[float, Rules]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sites)

    def get(self, authority: str, now: float) -> Rules | None:
        """The rules, or None if robots.txt has to be fetched (again)."""
        entry = self._sites.get(authority)
        if entry is None:
            return None
        expires, rules = entry
        if now >= expires:
            del self._sites[authority]
            return None
        self._sites.move_to_end(authority)
        return rules

    def put(self, authority: str, rules: Rules, now: float) -> None:
        ttl_s = self._unreachable_ttl_s if rules.unreachable else self._ttl_s
        self._sites[authority] = (now + ttl_s, rules)
        self._sites.move_to_end(authority)
        if len(self._sites) > self._max_sites:
            self._sites.popitem(last=False)
