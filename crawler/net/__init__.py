"""The way out: names to addresses, URLs to responses. The only HTTP and DNS client code.

Whatever a server does ends in a Response or a FetchError; aiohttp and aiodns stay in this room.
Private addresses are refused twice: as answers of the resolver, and when a socket is made, which
also covers URLs that hold an address, and names that have changed their mind since.
"""

import asyncio
from typing import Final

from crawler.net.dns import DnsResolver
from crawler.net.http import HttpFetcher
from crawler.ports import Fetcher, FetchError
from crawler.reading import REDIRECTS, redirect_target
from crawler.robots import MAX_BYTES, Rules
from crawler.url import BadUrlError

__all__ = ["DnsResolver", "HttpFetcher", "fetch_robots"]

_MAX_ROBOTS_REDIRECTS: Final = 5


async def fetch_robots(fetcher: Fetcher, authority: str, agent: str) -> Rules:
    """Ask an authority (`scheme://host[:port]`) for its robots.txt, by RFC 9309.

    Redirects are followed five times, anywhere. No file (4xx, more redirects): everything is
    allowed. Trouble (5xx, no answer, part of an answer): the rules are `unreachable`.
    """
    url = f"{authority}/robots.txt"
    for _ in range(_MAX_ROBOTS_REDIRECTS + 1):
        try:
            response = await fetcher.fetch(url)
        except FetchError as error:
            return Rules.deny_all(error.failure)
        if response.status not in REDIRECTS:
            break
        try:
            url = redirect_target(response)
        except BadUrlError:
            break
    if response.status >= 500:
        return Rules.deny_all()
    if response.status >= 300:
        return Rules.allow_all()
    cut = response.truncated in {"time", "disconnect"}
    if cut and response.failure and len(response.body) < MAX_BYTES:
        return Rules.deny_all(response.failure)
    steps = Rules.reading(response.body, agent)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            rules: Rules = end.value
            return rules
        await asyncio.sleep(0)
