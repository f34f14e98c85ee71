"""robots.txt: what a site allows us, and for how long an answer holds.

Pure: the file comes in as bytes and the time as a number; `crawler.net` fetches. Matching is
protego's (RFC 9309: longest match wins, `*` and `$`, an equally long Allow beats Disallow).
"""

import re
from collections import OrderedDict
from typing import Final, Self
from urllib.parse import urlsplit

from protego import Protego

from crawler.ports import Failure

MAX_BYTES: Final = 512 << 10  # of a robots.txt are looked at; RFC 9309 asks for 500 KiB

# A line that protego may read as a directive. Others (comments, the HTML of an error page) go.
_DIRECTIVE = re.compile(
    r"\s*(?:user[- ]?agent\s*[:\s]\s*(?P<agent>[^#]*)|dis|dias|allow|crawl|site)", re.IGNORECASE
)
_NOT_US: Final = "User-agent: somebody else"


class Rules:
    """What one site's robots.txt says to one agent. Immutable."""

    __slots__ = ("_agent", "_lines", "_protego", "crawl_delay", "sitemaps", "unreachable")

    crawl_delay: float | None  # seconds
    sitemaps: tuple[str, ...]  # as written
    unreachable: Failure | None  # why there was no answer; all is denied until there is one

    def __init__(self, agent: str, lines: list[str], *, unreachable: Failure | None = None) -> None:
        self._agent = agent
        self._lines = lines
        self._protego = Protego.parse("\n".join(lines)) if lines else None
        self.crawl_delay = self._protego.crawl_delay(agent) if self._protego else None
        self.sitemaps = tuple(self._protego.sitemaps) if self._protego else ()
        self.unreachable = unreachable

    @classmethod
    def parse(cls, body: bytes, agent: str) -> Self:
        """The rules for `agent` in a robots.txt; any bytes will do."""
        if len(body) > MAX_BYTES:
            # The cut line goes too: "Disallow: /" may be left of "Disallow: /private".
            body = body[: body.rfind(b"\n", 0, MAX_BYTES) + 1]
        text = body.decode("utf-8-sig", "replace").replace("\0", "")
        return cls(agent, _relevant(text.splitlines(), agent.lower()))

    @classmethod
    def allow_all(cls) -> "Rules":
        """There is no robots.txt."""
        return _ALLOW_ALL

    @classmethod
    def deny_all(cls, why: Failure = Failure.ROBOTS_UNREACHABLE) -> "Rules":
        """The robots.txt can't be reached: nothing may be fetched for now."""
        return cls("", [], unreachable=why)

    def allows(self, url: str) -> bool:
        """Whether a normalised URL may be fetched; /robots.txt always may."""
        if self.unreachable:
            return urlsplit(url).path == "/robots.txt"
        return self._protego is None or self._protego.can_fetch(url, self._agent)

    def decide(self, url: str) -> tuple[bool, str | None]:
        """`allows(url)`, and the line of robots.txt that decided, if any. Slow."""
        allowed = self.allows(url)
        if self.unreachable or urlsplit(url).path == "/robots.txt":
            return allowed, None
        # Lines that would decide so if they stood alone, longest first, as the longest match wins.
        preamble = "User-agent: *\nDisallow: /\n" if allowed else "User-agent: *\n"
        for number, line in sorted(enumerate(self._lines), key=lambda item: -len(item[1].strip())):
            if _allowed(preamble + line, url) == allowed != _allowed(preamble, url) and (
                self._is_ours(number)
            ):
                return allowed, line.strip()
        return allowed, None

    def _is_ours(self, number: int) -> bool:
        """Whether a rule at this line would bind us: put one there and see what it changes."""
        path = "/" + "x" * max(map(len, self._lines))  # longer than any other match
        verdicts = set()
        for field in ("Allow", "Disallow"):
            lines = self._lines.copy()
            lines[number] = f"{field}: {path}"
            verdicts.add(_allowed("\n".join(lines), f"http://host{path}", self._agent))
        return len(verdicts) == 2


def _allowed(robots: str, url: str, agent: str = "any") -> bool:
    return bool(Protego.parse(robots).can_fetch(url, agent))


def _relevant(lines: list[str], agent: str) -> list[str]:
    """The lines that can be directives, the agents that can't be us made one.

    protego keeps each rule once for each agent of its group: a thousand agents over ten thousand
    rules, a file of 200 kB, would take minutes and gigabytes.
    """
    kept: list[str] = []
    for line in lines:
        match = _DIRECTIVE.match(line)
        if not match:
            continue
        name = match["agent"]
        if name is None or name.strip() == "*" or name.strip().lower().replace("*", "") in agent:
            kept.append(line)
        elif not kept or kept[-1] is not _NOT_US:
            kept.append(_NOT_US)
    return kept


_ALLOW_ALL = Rules("", [])


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
