"""Hosts without end: bounds the hosts of a domain or address that bring nothing new.

A domain with a wildcard in its DNS zone has as many hosts as its pages name. Each host would get a
clock, a request for robots.txt, and a place in every table. `Hosts` counts the hosts whose first
answers brought nothing new. A domain or an address with too many such hosts is closed. Then its
hosts are kept out, except those that have brought something new. No I/O happens here.

A host is a host name with its port. A domain is the registrable domain by the Public Suffix List.
The private part of the list has names like blogspot.com. Each host below such a name counts as a
domain of its own.
"""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from publicsuffixlist import PublicSuffixList
from xxhash import xxh3_64_intdigest

from crawler import config
from crawler.ports import Failure, PageRow, has_page

# Errors that don't show whether a host has anything new.
_NEUTRAL: Final = frozenset(
    (
        Failure.BAD_URL,
        Failure.PRIVATE_ADDRESS,
        Failure.NO_CONTACT,
        Failure.ROBOTS_DENIED,
        Failure.SITE_GIVEN_UP,
        Failure.SITE_FULL,
        Failure.TOO_MANY_HOSTS,
        Failure.INTERNAL,
    )
)
_NEW, _BARREN, _FRUITFUL, _WELCOME = range(4)  # states of a host
_STATES: Final = 4
_EXCUSED: Final = 2  # so many barren hosts aren't counted for each fruitful one
_FEW: Final = 50  # with half as many hosts, domains are looked up: the list takes 0.2 s to load
_SKETCHED: Final = 1 << 12  # domains and addresses whose sketches are kept
_ENTRY_BYTES: Final = 100
_SKETCHES: Final = 2  # kept of each domain or address

Sketch = Sequence[int]


class Hosts:
    """The hosts that a rank owns, at about 250 bytes each."""

    def __init__(self, traps: config.Traps) -> None:
        self._most_barren = traps.max_barren_hosts
        self._most_hosts = traps.max_hosts_per_domain
        limits = [limit for limit in (self._most_barren, self._most_hosts) if limit]
        self._few = min([_FEW, *limits]) // 2
        self._states: dict[int, int] = {}  # by host: its domain * _STATES + its state
        self._addresses: dict[int, int] = {}  # by host, once it has answered
        self._unplaced: dict[int, str] = {}  # hosts whose domain hasn't been looked up
        self._known: Counter[int] = Counter()  # number of hosts, by domain and by address
        self._barren: Counter[int] = Counter()
        self._fruitful: Counter[int] = Counter()
        self._closed: set[int] = set()  # domains and addresses
        self._sketches: OrderedDict[int, tuple[Sketch, ...]] = OrderedDict()
        self._latest = ""  # the host that was let in last

    def __bool__(self) -> bool:
        """Whether any rule is on."""
        return bool(self._most_barren or self._most_hosts)

    def nbytes(self) -> int:
        """About how many bytes of memory the hosts take, without the sketches."""
        entries = len(self._states) + len(self._addresses) + len(self._known) + len(self._barren)
        return _ENTRY_BYTES * (entries + len(self._fruitful) + len(self._closed))

    def rule(self, url: str) -> str | None:
        """Return the rule that keeps a URL out, or None if the URL is let in.

        A URL is kept out if its host is new, and its domain is full or closed.
        """
        host = _host(url)
        if host == self._latest:
            return None
        key = _hash(host)
        if key not in self._states:
            domain = self._domain(key, host)
            if 0 < self._most_hosts <= self._known[domain]:
                return "max_hosts_per_domain"
            if domain in self._closed:
                return "max_barren_hosts"
            self._enter(key, domain, _NEW)
        self._latest = host
        return None

    def may_have_kept_out(self, url: str) -> bool:
        """Whether `rule` may have refused a URL at any time of a finished crawl."""
        key = _hash(_host(url))
        known = self._known[self._domain(key, _host(url))]
        limits = [limit for limit in (self._most_barren, self._most_hosts) if limit]
        return key not in self._states and bool(limits) and known >= min(limits)

    def welcome(self, url: str) -> None:
        """Let the host of a URL in for good: the user has named the URL."""
        host = _host(url)
        key = _hash(host)
        if key not in self._states:
            self._enter(key, self._domain(key, host), _WELCOME)
        elif self._states[key] % _STATES in {_NEW, _BARREN}:
            self._move(key, _WELCOME)

    def refuses(self, url: str, address: str | None = None) -> bool:
        """Whether a URL of a known host must not be fetched.

        It must not if the domain or the address of the host is closed, and the host has brought
        nothing new yet.
        """
        if not self._closed:
            return False
        entry = self._states.get(_hash(_host(url)), 0)
        if entry % _STATES in {_FRUITFUL, _WELCOME}:
            return False
        if address is not None:
            return _address_key(address) in self._closed
        return entry // _STATES in self._closed

    def note(self, row: PageRow) -> None:
        """Note the result of a request to a host."""
        if row.error in _NEUTRAL:
            return
        host = _host(row.url)
        key = _hash(host)
        entry = self._states.get(key)
        if entry is None:
            entry = self._enter(key, self._domain(key, host), _NEW)
        state = entry % _STATES
        if state in {_FRUITFUL, _WELCOME}:
            return
        page = has_page(row.status)
        brought = (page and row.bytes > 0) or row.status == 304
        brought = brought and not (row.alike or (row.duplicate and page))
        if state == _NEW and row.address is not None:
            self._addresses[key] = _address_key(row.address)
            self._known[self._addresses[key]] += 1
        if brought or state == _NEW:
            self._move(key, _FRUITFUL if brought else _BARREN)

    def wants_sketch(self, url: str, address: str | None) -> bool:
        """Whether a page should be compared with pages of other hosts.

        It should if the domain or the address has several hosts, and this host has brought nothing
        new yet.
        """
        if not self._most_barren:
            return False
        entry = self._states.get(_hash(_host(url)), 0)
        if entry % _STATES in {_FRUITFUL, _WELCOME}:
            return False
        enough = max(2, self._most_barren // _FEW)
        keys = [entry // _STATES, *([_address_key(address)] if address else [])]
        return any(self._known[key] >= enough for key in keys if key)

    def resembled(self, url: str, address: str | None) -> Iterable[Sketch]:
        """Yield the sketches of pages of other hosts of the domain and the address."""
        for key in self._keys(url, address):
            yield from self._sketches.get(key, ())

    def keep_sketch(self, url: str, address: str | None, sketch: Sketch) -> None:
        """Remember the sketch of a page, to recognise similar pages of other hosts."""
        for key in self._keys(url, address):
            self._sketches[key] = (sketch, *self._sketches.get(key, ())[: _SKETCHES - 1])
            self._sketches.move_to_end(key)
            if len(self._sketches) > _SKETCHED:
                self._sketches.popitem(last=False)

    def counts(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return two tables by the key of a host: its domain with its state, and its address."""
        self._place_all()
        return self._states, self._addresses

    def tables(self) -> list[tuple[bytes, bytes]]:
        """Return the contents as packed tables, for a snapshot or another rank."""
        return [
            (array("Q", table).tobytes(), array("q", table.values()).tobytes())
            for table in self.counts()
        ]

    def restore(self, tables: Iterable[tuple[bytes, bytes]]) -> None:
        """Add the contents of another object, given by its tables."""
        states, addresses = (
            dict(zip(array("Q", keys), array("q", values), strict=True)) for keys, values in tables
        )
        self._add_counts(states, addresses)

    def _add_counts(self, states: dict[int, int], addresses: dict[int, int]) -> None:
        for key, entry in states.items():
            domain, state = divmod(entry, _STATES)
            if key not in self._states:
                self._enter(key, domain, _NEW)
            if key in addresses and key not in self._addresses:
                self._addresses[key] = addresses[key]
                self._known[addresses[key]] += 1
            self._place(key)
            if state > self._states[key] % _STATES:
                self._move(key, state)

    def _enter(self, key: int, domain: int, state: int) -> int:
        if key not in self._states:
            self._known[domain] += 1
        entry = self._states[key] = domain * _STATES + state
        return entry

    def _move(self, key: int, state: int) -> None:
        """Change the state of a host, and the counts of its domain and address."""
        domain, before = divmod(self._states[key], _STATES)
        self._states[key] = domain * _STATES + state
        for place in {domain, self._addresses.get(key, 0)} - {0}:
            self._barren[place] += (state == _BARREN) - (before == _BARREN)
            self._fruitful[place] += state == _FRUITFUL
            self._judge(place)

    def _judge(self, place: int) -> None:
        surplus = self._barren[place] - _EXCUSED * self._fruitful[place]
        if 0 < self._most_barren <= surplus:
            self._closed.add(place)

    def _keys(self, url: str, address: str | None) -> list[int]:
        key = _hash(_host(url))
        domain = self._states.get(key, 0) // _STATES
        return [each for each in (domain, _address_key(address) if address else 0) if each]

    def _domain(self, key: int, host: str) -> int:
        """Return the number of a host's domain; 0 while too few hosts are known to look it up."""
        if len(self._states) < self._few:
            self._unplaced[key] = host
            return 0
        if self._unplaced:
            self._place_all()
        return _domain_key(host)

    def _place_all(self) -> None:
        for key in list(self._unplaced):
            self._place(key)

    def _place(self, key: int) -> None:
        """Look up the domain of a host, and count the host there."""
        host = self._unplaced.pop(key, None)
        if host is None or key not in self._states or self._states[key] >= _STATES:
            return
        state, domain = self._states[key], _domain_key(host)
        self._states[key] = domain * _STATES + state
        self._known[domain] += 1
        self._barren[domain] += state == _BARREN
        self._fruitful[domain] += state == _FRUITFUL
        self._judge(domain)


@cache
def public_suffixes() -> PublicSuffixList:
    """Return the Public Suffix List. It takes long to read, so there is one for the process."""
    return PublicSuffixList()


def _host(url: str) -> str:
    return url.split("/", 3)[2]


def _domain_key(host: str) -> int:
    """Return a number for the registrable domain of a host, or for an address."""
    name = host[: host.find("]") + 1] or host.partition(":")[0]
    if not (name.startswith("[") or name.replace(".", "").isdigit()):
        name = public_suffixes().privatesuffix(name) or name
    return (_hash(f"domain {name}") >> 3) + 1


def _address_key(address: str) -> int:
    return (_hash(f"address {address}") >> 3) + 1


def _hash(text: str) -> int:
    return xxh3_64_intdigest(text.encode())
