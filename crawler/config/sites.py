"""The tables `[[sites]]`: what differs for some sites from what the other tables say."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from crawler import url
from crawler.config.table import Table, key
from crawler.config.values import AnySize, Bounds, Count, Natural, NonNegative, Read, check_regex
from crawler.names import NamePatterns, normalise_pattern

_OF_URL: Final = "^"  # begins a regular expression of a URL
_OF_URLS: Final = frozenset(("match", "headers"))  # the keys that may depend on a URL
_CACHED_SITES: Final = 1 << 12


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _pattern(text: object) -> object:
    if not isinstance(text, str):
        return text
    if text.startswith(_OF_URL):
        check_regex(text)
        return text
    try:
        return normalise_pattern(text)
    except url.BadUrlError:
        raise ValueError(
            "must be a host name such as a.example or a.example:8080, *. before a host name, or a"
            " regular expression of a URL that begins with ^"
        ) from None


class Site(Table):
    """Sites for which some settings differ. A key that isn't set leaves the usual setting."""

    match: Annotated[
        tuple[Annotated[str, Read(_pattern)], ...], Read(_listed), Bounds(min_length=1)
    ] = key(
        about="host names, such as a.example, a.example:8080, or *.a.example for all hosts below"
        " a.example. For headers also regular expressions of URLs, which begin with ^. If several"
        " tables match, the first one that sets a key counts for this key"
    )
    delay_s: NonNegative | None = key(
        default=None, aside=True, about="in place of politeness.delay_s"
    )
    connections: Count | None = key(
        default=None, aside=True, about="in place of politeness.connections_per_site"
    )
    robots: bool | None = key(default=None, about="in place of robots.obey")
    max_urls: Natural | None = key(default=None, about="in place of traps.max_urls_per_site")
    max_bytes: AnySize | None = key(default=None, about="in place of traps.max_bytes_per_site")
    priority: Annotated[int, Bounds(ge=-1000, le=1000)] | None = key(
        default=None,
        aside=True,
        about="of the sites that may be asked now, those with the highest priority come first;"
        " other sites have priority 0",
    )
    headers: Mapping[str, str] | None = key(
        default=None, aside=True, about="further request headers, which stay secret"
    )

    @property
    def names(self) -> list[str]:
        """The patterns of host names, without the regular expressions."""
        return [pattern for pattern in self.match if not pattern.startswith(_OF_URL)]

    def check(self) -> None:
        """Raise ValueError if the table matches URLs, but sets what belongs to a whole site."""
        used = [key for key, value in self if value is not None and key not in _OF_URLS]
        if used and any(pattern.startswith(_OF_URL) for pattern in self.match):
            raise ValueError(
                f"{used[0]} belongs to a whole site: match must be host names, not a regular"
                " expression"
            )


class Overrides:
    """Finds what `[[sites]]` says about a site or a URL."""

    def __init__(self, tables: Sequence[Site] = ()) -> None:
        self._tables = tables
        self._names = NamePatterns([table.names for table in tables])
        self._regexes = [
            (number, re.compile(pattern))
            for number, table in enumerate(tables)
            for pattern in table.match
            if pattern.startswith(_OF_URL)
        ]
        self._merged: dict[tuple[int, ...], Site] = {}
        self._known: dict[str, tuple[int, ...]] = {}  # the numbers of the tables, by site

    def __bool__(self) -> bool:
        return bool(self._tables)

    @property
    def have_priorities(self) -> bool:
        """Whether a table sets a priority."""
        return any(table.priority is not None for table in self._tables)

    @property
    def limit_urls(self) -> bool:
        """Whether a table sets max_urls."""
        return any(table.max_urls is not None for table in self._tables)

    @property
    def limit_bytes(self) -> bool:
        """Whether a table sets max_bytes."""
        return any(table.max_bytes is not None for table in self._tables)

    def delays_s(self) -> list[float]:
        """Return all delays that the tables set."""
        return [table.delay_s for table in self._tables if table.delay_s is not None]

    def numbers(self, site: str) -> tuple[int, ...]:
        """Return the numbers of the tables that match a site, from 0."""
        numbers = self._known.get(site)
        if numbers is None:
            if len(self._known) == _CACHED_SITES:
                self._known.clear()
            numbers = self._known[site] = self._names.matching(site)
        return numbers

    def of(self, site: str) -> Site:
        """Return what the tables say of a site as a whole. A key that none sets is None."""
        return self._merge(self.numbers(site)) if self._tables else _NOTHING

    def at(self, address: str) -> Site:
        """Return what the tables say of a normalised URL. Only headers depend on more than a site.

        All headers of all matching tables are sent; of headers with one name, the first.
        """
        if not self._tables:
            return _NOTHING
        numbers = self.numbers(url.site(address))
        if self._regexes:
            found = {number for number, regex in self._regexes if regex.search(address)}
            numbers = tuple(sorted(found.union(numbers)))
        return self._merge(numbers)

    def _merge(self, numbers: tuple[int, ...]) -> Site:
        merged = self._merged.get(numbers)
        if merged is None:
            values: dict[str, object] = {}
            headers: dict[str, str] = {}
            for number in reversed(numbers):
                table = self._tables[number]
                values |= {name: value for name, value in table if value is not None}
                _put(headers, table.headers or {})
            values |= {"headers": headers} if headers else {}
            merged = self._merged[numbers] = _NOTHING.replace(**values)
        return merged


def _put(headers: dict[str, str], more: Mapping[str, str]) -> None:
    """Add headers, in place of those whose names differ only in case."""
    for name, value in more.items():
        for other in [other for other in headers if other.lower() == name.lower()]:
            del headers[other]
        headers[name] = value


_NOTHING: Final = Site.of(match=("nothing.invalid",))
