"""A made-up crawl: the URLs of each cycle, with locality by site, as the papers describe them.

A URL is a site and a number on it. Sites have sizes by a power law. A page links mostly to its own
site. Some links are to the next number of a site, which is a new URL; others are to known URLs,
mostly to those with low numbers. Which numbers of a site are known is one number, so a crawl of any
length takes little memory.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from crawler.compiled import compiled
from crawler.stores.entries import CHECK, UPDATE, Entries, Value

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

OWN_SHARE = 0.8  # of the links of a page that lead to its own site
NEW_SHARE = 0.25  # of the URLs of a cycle
LINKS_A_PAGE = 9
_NEW_LINKS = NEW_SHARE * (1 + LINKS_A_PAGE) / LINKS_A_PAGE  # as a share of the links alone
_SITES_AT_A_TIME = 4000
_TABLE = 1 << 20  # draws of sites by their sizes
_CRAWLED = Value(crawled=True, meta=1).packed(UPDATE | CHECK)
_LINKED = Value(links=1).packed(UPDATE | CHECK)


@compiled
def mixed(number: np.uint64) -> np.uint64:
    """Return a hash of a number (the last steps of SplitMix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@compiled
def keys_of(sites: Ints, numbers: Ints) -> Keys:
    """Return the keys of URLs."""
    keys = np.empty(len(sites), np.uint64)
    for at in range(len(sites)):
        seed = mixed(np.uint64(sites[at]) + np.uint64(0x9E3779B97F4A7C15))
        keys[at] = mixed(seed + np.uint64(numbers[at]) * np.uint64(0xD1342543DE82EF95))
    return keys


@compiled
def site_hashes(sites: Ints) -> Keys:
    """Return the hashes of sites."""
    hashes = np.empty(len(sites), np.uint64)
    for at in range(len(sites)):
        hashes[at] = mixed(np.uint64(sites[at]) + np.uint64(1))
    return hashes


@compiled
def write_texts(sites: Ints, keys: Keys, out: npt.NDArray[np.uint8], ends: Ints) -> int:
    """Write texts of about 90 bytes: a host, three folders and a title made from the key."""
    head, middle, tail = b"http://www.a-site-", b".example/articles/topic-", b"-some-words.html"
    at = 0
    for number in range(len(sites)):
        for byte in head:
            out[at] = byte
            at += 1
        site = sites[number]
        for _ in range(7):
            out[at] = 48 + site % 10
            site //= 10
            at += 1
        for byte in middle:
            out[at] = byte
            at += 1
        rest = keys[number]
        for place in range(16 + rest % np.uint64(17)):
            out[at] = 97 + (rest & np.uint64(15)) if place % 6 != 5 else 47
            if place % 6 != 5:
                rest = (rest >> np.uint64(4)) | (rest << np.uint64(60))
            at += 1
        for byte in tail:
            out[at] = byte
            at += 1
        ends[number] = at
    return at


@compiled
def draw_links(
    pages: Ints, links: int, table: Ints, known: Ints, new: float, own: float, seed: int
) -> tuple[Ints, Ints]:
    """Draw the links of pages, by the site of each page. Counts new URLs in `known`."""
    np.random.seed(seed)  # this is numba's own
    sites = np.empty(len(pages) * links, np.int64)
    numbers = np.empty(len(pages) * links, np.int64)
    for at in range(len(sites)):
        site = pages[at // links]
        if np.random.random() >= own:
            site = table[np.random.randint(0, len(table))]
        sites[at] = site
        if np.random.random() < new:
            numbers[at] = known[site]
            known[site] += 1
        else:
            numbers[at] = np.int64(known[site] * np.random.random() ** 2)
    return sites, numbers


class Stream:
    """The URLs of a crawl, cycle by cycle. At the start `known` URLs are known."""

    def __init__(self, known: int, sites: int) -> None:
        rng = self._rng = np.random.default_rng(1)
        weights = 1 / np.arange(1, sites + 1) ** 0.5
        weights = rng.permutation(weights / weights.sum())
        self.known = np.maximum(1, (weights * known).astype(np.int64))  # by site
        self.hashes = site_hashes(np.arange(sites))
        self._weights = weights
        self._table = rng.choice(sites, _TABLE, p=weights)
        self._cycles = 0

    def known_urls(self, sites: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Give all known URLs of these sites, as the site and the number of each."""
        for first in range(0, len(sites), _SITES_AT_A_TIME):
            some = sites[first : first + _SITES_AT_A_TIME]
            counts = self.known[some]
            ends = np.cumsum(counts)
            numbers = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
            yield np.repeat(some, counts), numbers

    def known_keys(self, sites: Ints) -> Keys:
        """Return the keys of all known URLs of these sites, in ascending order."""
        parts = [keys_of(*urls) for urls in self.known_urls(sites)]
        keys = np.concatenate(parts) if parts else np.empty(0, np.uint64)
        keys.sort()
        return keys

    def put_aside(self, pages: int, sites: Ints, *, elsewhere: bool) -> Entries:
        """Give the URLs of these sites that so many pages bring, in any order.

        `elsewhere`: none of the pages is of these sites. Else they may be of any site.
        """
        self._cycles += 1
        weights = self._weights[sites]
        share = weights.sum()
        crawled = 0 if elsewhere else round(pages * share)
        linked = round(pages * LINKS_A_PAGE * share * ((1 - OWN_SHARE) if elsewhere else 1))
        table = self._rng.choice(sites, _TABLE >> 4, p=weights / share)
        some = np.sort(self._rng.choice(table, crawled))
        numbers = (self._rng.random(crawled) * self.known[some]).astype(np.int64)
        pages_of_links = np.zeros(linked, np.int64)
        links, others = draw_links(
            pages_of_links, 1, table, self.known, _NEW_LINKS, 0.0, self._cycles
        )
        entries = make_entries(
            np.concatenate([some, links]), np.concatenate([numbers, others]), crawled
        )
        return entries.take(self._rng.permutation(len(entries.keys)))

    def cycle(self, pages: int, sites: Ints) -> tuple[Entries, Keys]:
        """Give one cycle: pages of these sites, all with their links, and the hashes of sites."""
        self._cycles += 1
        weights = self._weights[sites]
        crawled = np.sort(self._rng.choice(sites, pages, p=weights / weights.sum()))
        numbers = (self._rng.random(pages) * self.known[crawled]).astype(np.int64)
        linked, others = draw_links(
            crawled, LINKS_A_PAGE, self._table, self.known, _NEW_LINKS, OWN_SHARE, self._cycles
        )
        all_sites = np.concatenate([crawled, linked])
        entries = make_entries(all_sites, np.concatenate([numbers, others]), pages)
        return entries, self.hashes[all_sites]


def make_entries(sites: Ints, numbers: Ints, crawled: int) -> Entries:
    """Return entries for URLs. The first `crawled` of them have been crawled."""
    keys = keys_of(sites, numbers)
    data, ends = np.empty(100 * len(keys), np.uint8), np.empty(len(keys), np.int64)
    size = write_texts(sites, keys, data, ends)
    lengths = np.diff(ends, prepend=0)
    values = np.full(len(keys), _LINKED, np.uint64)
    values[:crawled] = _CRAWLED
    return Entries(
        keys, values, lengths.astype(np.uint16), lengths.astype(np.uint32), data[:size].copy()
    )
