"""Ownership: which part a URL belongs to, and which rank holds the part.

A `Scheme` looks up the part of a URL, and never changes. `Ownership` adds what a rank learns during
a session: the owners of sites that the part vector lacks, as a registrar has decided
(`unlisted = "claim"`), and the sites that have moved to another rank (`Ownership.move`). In
independent mode there is no partition, and every rank owns all URLs that it finds.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from xxhash import xxh3_64_intdigest

from crawler import config, textfile, url
from crawler.core.tree import ROOT, Tree
from crawler.extensions import SCHEME, Plugin, load
from crawler.modes import EXCHANGE, Mode
from crawler.ports import UserError
from partition.partvector import PartVector, PartVectorError, grant, jump_hash, pack

_CACHED: Final = 1 << 16  # sites whose parts are remembered, about 200 bytes each
_LEARNED_BYTES: Final = 180  # of a site and its part
_CACHED_BYTES: Final = 380  # of a site in the caches of an `Ownership` and its scheme


class Located(Protocol):
    """A URL with its key and its site: a Link, a CrawlUrl, a PageRow."""

    @property
    def key(self) -> int:
        """The key of the URL."""
        ...

    @property
    def url(self) -> str:
        """The normalised URL."""
        ...

    @property
    def site(self) -> str:
        """The site of the URL."""
        ...


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
        return Custom(load(SCHEME, name, settings.plugins.of(name)), ranks)
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


class Ownership:
    """The part and the rank of every URL, as far as one rank knows them."""

    def __init__(
        self,
        rank: int,
        scheme: Scheme,
        rank_of_part: Sequence[int],
        unlisted: str = "claim",
        mode: Mode = EXCHANGE,
    ) -> None:
        """`rank_of_part`: the rank of each part. `unlisted`: see `config.Assignment`.

        Claims are answered by messages. So in a mode without messages, `claim` means `site-hash`.
        """
        if len(rank_of_part) != scheme.parts:
            raise ValueError(f"{len(rank_of_part)} ranks given for {scheme.parts} parts")
        self.rank = rank
        self.rank_of_part = tuple(rank_of_part)
        self._ranks = max(rank_of_part) + 1
        self.home = self.rank_of_part.index(rank)  # the part of URLs that this rank owns as finder
        # The owners of sites that have one owner: of some sites that `owner` was asked about.
        self.rank_of_site: dict[str, int] = {}
        self._scheme = scheme
        self.plugins: Sequence[Plugin[int]] = ()  # that name the parts
        listing = scheme.others if isinstance(scheme, KeptSites) else scheme
        if isinstance(listing, Custom):
            self.plugins = listing.plugins
        self.tree = scheme if isinstance(scheme, Tree) else None  # of dynamic assignment
        # At a server that assigns units (`Tree.unit`): chooses the client of one.
        self.assign: Callable[[str], int] | None = None
        self._divides = mode.divides
        self._overlaps = mode.overlaps
        self._hashes_urls = isinstance(scheme, UrlHash)
        self._whole_sites = not mode.divides or not _splits_sites(scheme)
        # If a site is split by directories, the part of a new page depends on the text of its URL.
        self._by_directory = (
            scheme if isinstance(scheme, PartVector) and scheme.has_directories else None
        )
        self._unlisted = "site-hash" if unlisted == "claim" and not mode.sends else unlisted
        self._registrars = SiteHash(scheme.parts)
        # The parts of unlisted sites, of units that servers assign, and of what has moved.
        self.learned: dict[str, int] = {} if self.tree is None else self.tree.first_holders()

    def part(self, place: Located) -> int | None:
        """The part of a URL, or None if its site must be claimed first."""
        if not self._divides:
            return self.home
        if self.learned:  # asked first, because a site may have moved
            part = self.learned.get(self.unit(place.site))
            if part is not None:
                return part
        part = self._listed(place)
        if part is not None or self._unlisted == "claim":
            return part
        if self._unlisted == "discoverer":
            return self.home  # the rule of the thesis: the rank that finds a new page owns it
        return self._registrars.part(place.key, place.site)

    def owner(self, place: Located) -> int | None:
        """The rank that owns a URL, or None if its site must be claimed first."""
        part = self.part(place)
        if part is None:
            return None
        rank = self.rank_of_part[part]
        if rank == self.rank and self.assign is not None:
            unit = self.unit(place.site)
            rank = self.assign(unit)
            self.move(unit, rank)
        if self._whole_sites:
            self._remember(place.site, rank)
        return rank

    def _remember(self, site: str, rank: int) -> None:
        if len(self.rank_of_site) >= _CACHED:
            self.rank_of_site.clear()  # others hold the dictionary; the scheme tells all again
        self.rank_of_site[site] = rank

    def nbytes(self) -> int:
        """About how many bytes of memory the sites take."""
        return _LEARNED_BYTES * len(self.learned) + _CACHED_BYTES * len(self.rank_of_site)

    def settled_owner(self, page: Located) -> int | None:
        """The rank that owns a page of an earlier run. None if its registrar must settle that."""
        assigns = self.tree is not None and not self.tree.hands_out
        if assigns and self.unit(page.site) not in self.learned:
            return None  # a server assigns the site, but only one rank may decide
        return self.owner(page)

    def row_part(self, page: Located) -> int:
        """The part that the row of a page names, which this rank has fetched."""
        if self.tree is not None:
            return self.home  # whoever takes care of the URL, this rank was given it
        part = self.part(page)
        assert part is not None, page
        return part

    def only_fetcher(self, place: Located) -> int | None:
        """The only rank that may have to fetch a URL, or None if several ranks may.

        All ranks give the same answer before the crawl begins.
        """
        if self.tree is not None or self._overlaps:
            return None
        if self._unlisted == "discoverer" and self._listed(place) is None:
            return None
        return self.owner(place)

    def _listed(self, place: Located) -> int | None:
        if self._by_directory is not None:
            return self._by_directory.part_of_url(place.url, place.key, place.site)
        return self._scheme.part(place.key, place.site)

    def learn(self, site: str, part: int) -> None:
        """Note the part of an unlisted site, as the registrar has decided.

        Raises ValueError if the site is known to be in another part.
        """
        if self.learned.setdefault(site, part) != part:
            raise ValueError(f"{site} is in part {self.learned[site]} and now in {part}")

    def unit(self, site: str) -> str:
        """What moves with a site: the DSet that a client holds (`Tree.unit`), or the site alone."""
        return site if self.tree is None else self.tree.unit(site)

    def move(self, unit: str, rank: int) -> None:
        """Note that a rank owns a whole site or DSet from now on, whoever owned it before.

        Only this rank's knowledge changes. ARCHITECTURE.md, "When a site changes its owner", says
        what must move with the site. Raises ValueError for a rank that holds no part, and in
        independent mode, where no site has an owner.
        """
        if not self._divides:
            raise ValueError(f"{unit} can't move to rank {rank}: no site has an owner")
        if rank not in self.rank_of_part:
            raise ValueError(f"{unit} can't move to rank {rank}: that rank holds no part")
        self.learned[unit] = self.rank_of_part.index(rank)
        if self.tree is None or self.tree.home(unit) is None:
            self._remember(unit, rank)
        else:
            self.rank_of_site.clear()  # sites of the DSet may be in it

    @property
    def shares_sites(self) -> bool:
        """Whether several ranks may hold URLs of one site."""
        if self.tree is not None:
            return True
        return self._overlaps or not self._whole_sites or self._unlisted == "discoverer"

    def clock_home(self, site: str) -> int | None:
        """The rank that grants the clock of a site, or None if one rank owns the whole site.

        All ranks give the same answer at all times. The answer doesn't change when a site moves,
        because the ranks learn of a move at different times. If one rank owns a whole listed site,
        this rank is the home of its clock, unless the site has moved.
        """
        if not self.shares_sites:
            return None
        listed = self._site_part(site) if self._divides else None
        if listed is not None:
            return self.rank_of_part[listed]
        if self._unlisted == "claim" and not self._hashes_urls:
            return None  # the registrar gives the whole site to one rank
        return self.registrar(site)

    def address_home(self, address: str) -> int:
        """The rank that grants the clock of an IP address, with politeness.per = "address"."""
        if self.tree is not None:
            return ROOT  # clients don't talk to each other
        return xxh3_64_intdigest(address.encode()) % self._ranks

    def _site_part(self, site: str) -> int | None:
        """The part that the scheme names for a site, even if some of its pages are in others."""
        if isinstance(self._scheme, PartVector):
            return self._scheme.site_part(site)
        return None if self._hashes_urls else self._scheme.part(0, site)

    def registrar(self, site: str) -> int:
        """The rank that decides who owns an unlisted site, and that starts with its seeds."""
        if self.tree is not None:
            return self.tree.part(0, site)
        return self.rank_of_part[self._registrars.part(0, site)]

    def starts(self, seed: Located) -> bool:
        """Whether this rank starts with a seed, which no rank has discovered."""
        if not self._divides:
            return True
        if self.tree is not None:  # a server starts, even if it assigns the site to a client then
            return self._listed(seed) == self.rank
        if self._listed(seed) is None:
            return self.registrar(seed.site) == self.rank
        return self.owner(seed) == self.rank


def _splits_sites(scheme: Scheme) -> bool:
    """Whether pages of one site may lie in several parts."""
    if isinstance(scheme, PartVector):
        return scheme.has_directories or len(scheme.url_keys) > 0
    return isinstance(scheme, UrlHash)


class Registrar:
    """Gives unlisted sites to ranks.

    The first rank to claim a site gets it, unless it has more than its share of the load
    (`partvector.grant`). One registrar alone decides about a site, so the answers never contradict
    each other.
    """

    def __init__(self, ranks: int) -> None:
        self.loads = [0] * ranks  # URLs that each rank has had to fetch, by its latest message
        self.given: dict[str, int] = {}  # the ranks of sites

    def grant_again(self, site: str, owner: int) -> int:
        """Note the owner of a site in an earlier run. Returns the owner that was noted first."""
        self.loads[owner] += site not in self.given
        return self.given.setdefault(site, owner)

    def grant(self, site: str, claimant: int) -> int:
        """The rank that owns the site from now on."""
        owner = self.given.get(site)
        if owner is None:
            owner = grant(self.loads, claimant)
            self.loads[owner] += 1  # at least one URL, until the owner reports its load
            self.given[site] = owner
        return owner
