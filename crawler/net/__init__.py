"""The only HTTP and DNS client: from host names to addresses, and from URLs to responses.

Whatever a server does, the caller gets a Response or a FetchError. Only this room uses aiodns
and makes connections. Private addresses are refused twice: when the resolver answers, and right
before a connection is made. The second check also covers URLs that hold an address.
"""

import time
from typing import Final

from crawler.net.connections import MAX_IDLE as MAX_IDLE_CONNECTIONS
from crawler.net.dns import DnsResolver
from crawler.net.http import HttpFetcher, in_turns
from crawler.net.noting import NotingFetcher
from crawler.net.serial import ReadingStoppedError, SerialReader
from crawler.net.waits import retry_after_s
from crawler.ports import Failure, Fetcher, FetchError
from crawler.reading.codings import undoing
from crawler.reading.reader import REDIRECTS, redirect_target
from crawler.reading.robots import MAX_BYTES, Rules
from crawler.url import BadUrlError

__all__ = [
    "MAX_IDLE_CONNECTIONS",
    "MAX_ROBOTS_REDIRECTS",
    "DnsResolver",
    "HttpFetcher",
    "NotingFetcher",
    "ReadingStoppedError",
    "SerialReader",
    "ask_for_robots",
    "fetch_robots",
    "retry_after_s",
]

MAX_ROBOTS_REDIRECTS: Final = 5
_LARGE: Final = 16 << 10  # bytes; only larger robots.txt files are read one after the other
_GZIP_MAGIC: Final = b"\x1f\x8b"
_TOO_MANY_REQUESTS: Final = 429


async def fetch_robots(fetcher: Fetcher, authority: str, agent: str) -> Rules:
    """Return the rules in the robots.txt of an authority (`scheme://host[:port]`), by RFC 9309.

    Up to five redirects are followed, to any host. If there is no file (4xx except 429, or more
    redirects), everything is allowed. After 5xx, 429, no answer or an incomplete answer, the rules
    are `unreachable`, with the server's Retry-After. See docs/decisions/robots-answers.md.
    """
    url = f"{authority}/robots.txt"
    for _ in range(MAX_ROBOTS_REDIRECTS + 1):
        answer = await ask_for_robots(fetcher, url, agent)
        if isinstance(answer, Rules):
            return answer
        url = answer
    return Rules.allow_all()


async def ask_for_robots(
    fetcher: Fetcher, url: str, agent: str, serial_reader: SerialReader | None = None
) -> Rules | str:
    """Make one exchange of `fetch_robots`; return the rules, or the URL of a redirect.

    `serial_reader` reads large files. Raises ReadingStoppedError if the crawl stops meanwhile.
    """
    try:
        response = await fetcher.fetch(url, None, MAX_BYTES + 1)
    except FetchError as error:
        return Rules.deny_all(error.failure)
    if response.status in REDIRECTS:
        try:
            return redirect_target(response)
        except BadUrlError:
            return Rules.allow_all()
    if response.status >= 500 or response.status == _TOO_MANY_REQUESTS:
        wait_s = retry_after_s(response, time.time())
        return Rules.deny_all(Failure.ROBOTS_UNREACHABLE, wait_s)
    if response.status >= 300:
        return Rules.allow_all()
    if response.failure is Failure.INTERNAL:
        return Rules.deny_all(Failure.INTERNAL)
    cut = response.truncated in {"time", "disconnect"}
    if cut and response.failure and len(response.body) < MAX_BYTES:
        return Rules.deny_all(response.failure)
    body = response.body
    if body.startswith(_GZIP_MAGIC):  # a compressed file, sent as if it were a plain one
        body, _, _ = await in_turns(undoing(["gzip"], body, MAX_BYTES + 1))
    steps = Rules.reading(body, agent)
    if serial_reader is not None and len(body) > _LARGE:
        return await serial_reader.read(steps)
    return await in_turns(steps)
