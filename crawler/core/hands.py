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
    """A URL that was dealt."""

    found: CrawlUrl
    hand: int  # the number of the hand that got it
    pool: int  # where its site was
    is_first: bool  # whether no other URL of its site is handed out
    score: float
