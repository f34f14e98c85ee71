"""What a seed server may deal to its clients, and what it has dealt."""

from collections.abc import Sequence
from typing import NamedTuple

from crawler.ports import CrawlUrl


class Hand(NamedTuple):
    """What a client may be dealt."""

    pool: int  # its own; the sites of the URLs that it is dealt come into this pool
    others: Sequence[int]  # further pools that it may be dealt from
    room: int  # URLs
    load: int  # sites from which it has something to fetch, beside those that wait in its own pool


class Dealt(NamedTuple):
    """What one hand was dealt, in columns: each list has one entry for each URL."""

    hand: int  # the number of the hand
    found: list[CrawlUrl]  # the URLs, in the order of dealing
    pools: list[int]  # where their sites were
    scores: list[float]
    begun: int  # how many of the URLs are the first of their sites that is handed out
    last: int  # the place of its last URL among all that were dealt to all hands
