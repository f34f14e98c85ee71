"""Schemes: ways to assign URLs to parts. What a scheme says never changes during a session.

`make_scheme` makes the configured scheme. Two schemes have modules of their own: `PartVector`
(`partition.partvector`), and `Tree` (`core.tree`) of dynamic assignment.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from xxhash import xxh3_64_intdigest

from crawler import config, textfile, url
from crawler.core.tree import Tree
from crawler.extensions import SCHEME, Plugin, load
from crawler.ports import UserError
from partition.partvector import PartVector, PartVectorError, jump_hash, pack

_CACHED: Final = 1 << 16  # sites whose parts are remembered, about 200 bytes each


class Scheme(Protocol):
    """A way to assign URLs to parts."""

    parts: int

    def part(self, key: int, site: str) -> int | None:
        """The part of a URL, or None if the scheme doesn't know its site."""
        ...


class UrlHash:
    """Assigns each URL by its key modulo the number of parts."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def part(self, key: int, site: str) -> int:
        """The part by the key alone."""
        return key % self.parts


class SiteHash:
    """Assigns sites by jump consistent hashing: one more part moves only 1/parts of the sites."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self._of_site = lru_cache(_CACHED)(self._hash)

    def part(self, key: int, site: str) -> int:
        """The part by the hash of the site."""
        return self._of_site(site)

    def _hash(self, site: str) -> int:
        return jump_hash(xxh3_64_intdigest(site.encode()), self.parts)


class Hierarchical:
    """Assigns hosts by their longest suffix in a table, and hosts without one by site hash."""

    def __init__(self, suffixes: Mapping[str, int], parts: int) -> None:
        """Raises UserError for a part that doesn't exist."""
        for suffix, part in suffixes.items():
            if part >= parts:
                raise UserError(
                    f"assignment.suffixes.{suffix} = {part}: there are parts 0 to {parts - 1}"
                )
        self.parts = parts
        self._suffixes = {suffix.lower().strip("."): part for suffix, part in suffixes.items()}
        self._others = SiteHash(parts)
        self._of_site = lru_cache(_CACHED)(self._look_up)

    def part(self, key: int, site: str) -> int:
        """The part by the host of the site."""
        return self._of_site(site)

    def _look_up(self, site: str) -> int:
        suffix = url.host_of_site(site)
        while suffix:
            if suffix in self._suffixes:
                return self._suffixes[suffix]
            suffix = suffix.partition(".")[2]
        return self._others.part(0, site)


class Custom:
    """Assigns sites as a plug-in says, and a site on which the plug-in fails by site hash."""

    def __init__(self, plugin: Plugin[int], parts: int) -> None:
        self.parts = parts
        self.plugins = (plugin,)
        self._others = SiteHash(parts)
        self._of_site = lru_cache(_CACHED)(self._ask)

    def part(self, key: int, site: str) -> int:
        """The part by the plug-in, which sees the site alone."""
        return self._of_site(site)

    def _ask(self, site: str) -> int:
        part = self.plugins[0].ask(site, site, self.parts)
        return self._others.part(0, site) if part is None else part


class KeptSites:
    """Keeps some sites in given parts, and assigns all other sites by another scheme."""

    def __init__(self, kept: Mapping[str, int], others: Scheme) -> None:
        self.parts = others.parts
        self.others = others
        self._kept = kept

    def part(self, key: int, site: str) -> int | None:
        """The given part of a kept site, or the part by the other scheme."""
        part = self._kept.get(site)
        return self.others.part(key, site) if part is None else part


def make_scheme(
    settings: config.Config, ranks: int, kept: Mapping[str, int] | None = None
) -> Scheme:
    """Make the configured scheme. The hash schemes have as many parts as there are ranks.

    So has dynamic assignment: the part of a rank is what it serves, or holds.

    `kept`: sites that stay in given parts, whatever the hash of their names says.

    Raises UserError for a file that can't be read, for a table with parts that don't exist, for a
    part vector with fewer parts than ranks, for too few ranks for the seed servers, and for a
    plug-in that can't be used.
    """
    assignment = settings.assignment
    if kept:
        return KeptSites(kept, make_scheme(settings, ranks))
    if assignment.scheme == "dynamic":
        return Tree(settings.dynamic, ranks)
    if assignment.scheme == "url-hash":
        return UrlHash(ranks)
    if assignment.scheme == "site-hash":
        return SiteHash(ranks)
    if assignment.scheme == "hierarchical":
        return Hierarchical(_suffixes(assignment), ranks)
    if assignment.scheme != "part-vector":
        name = assignment.scheme
        return Custom(load(SCHEME, name, settings.options_of(name)), ranks)
    try:
        vector = PartVector.open(Path(assignment.part_vector))
    except (PartVectorError, OSError) as error:
        raise UserError(f"assignment.part_vector = {assignment.part_vector!r}: {error}") from None
    if vector.parts < ranks:
        raise UserError(
            f"assignment.part_vector = {assignment.part_vector!r}: has {vector.parts} parts for"
            f" {ranks} ranks; start at most {vector.parts} ranks, or build one with -k {ranks}"
        )
    return vector


def _suffixes(assignment: config.Assignment) -> dict[str, int]:
    """The table of suffixes, together with that of the file. No suffix may have two parts."""
    table, name = dict(assignment.suffixes), assignment.suffixes_file
    if not name:
        return table
    where = f"assignment.suffixes_file = {name!r}"
    try:
        text = textfile.decode(Path(name).read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: {error}; name a text file that can be read") from None
    for number, line in textfile.lines(text):
        words = line.partition("#")[0].split()
        if words:
            if len(words) != 2 or not words[1].isdecimal():
                raise UserError(
                    f'{where}: line {number}: expected "SUFFIX PART", for example "uk 1"'
                )
            if words[0] in table:
                raise UserError(
                    f"{where}: line {number}: {words[0]} has a part already; remove one of the two"
                )
            table[words[0]] = int(words[1])
    return table


def place_parts(scheme: Scheme, ranks: int) -> list[int]:
    """The rank of each part. If a part vector knows the loads, the ranks get similar loads."""
    if isinstance(scheme, PartVector) and len(scheme.loads):
        return pack(scheme.loads, ranks)
    return [part % ranks for part in range(scheme.parts)]


def replicated_urls(scheme: Scheme) -> Sequence[str]:
    """The popular URLs that every rank must know, if the scheme lists any."""
    return scheme.replicated if isinstance(scheme, PartVector) else ()


def lacks_sites(scheme: Scheme) -> bool:
    """Whether there may be sites that the scheme doesn't know."""
    return not isinstance(scheme, UrlHash | SiteHash | Hierarchical | Custom | KeptSites | Tree)


def splits_sites(scheme: Scheme) -> bool:
    """Whether pages of one site may lie in several parts."""
    if isinstance(scheme, PartVector):
        return scheme.has_directories or len(scheme.url_keys) > 0
    return isinstance(scheme, UrlHash)
