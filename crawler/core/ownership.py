"""Ownership: which part a URL belongs to, and which rank holds the part.

A `Scheme` (`core.schemes`) looks up the part of a URL, and never changes. `Ownership` adds what a
rank learns during a session: the owners of sites that the part vector lacks, as a registrar has
decided (`unlisted = "claim"`), and the sites that have moved to another rank (`Ownership.move`). In
independent mode there is no partition, and every rank owns all URLs that it finds.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from xxhash import xxh3_64_intdigest

from crawler.core.schemes import (
    Custom,
    KeptSites,
    Scheme,
    SiteHash,
    UrlHash,
    lacks_sites,
    splits_sites,
)
from crawler.core.tree import ROOT, Tree
from crawler.extensions import Plugin
from crawler.modes import EXCHANGE, Mode
from partition.partvector import PartVector

_CACHED: Final = 1 << 16  # sites whose ranks are remembered
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
        self._whole_sites = not mode.divides or not splits_sites(scheme)
        # If a site is split by directories, the part of a new page depends on the text of its URL.
        self._by_directory = (
            scheme if isinstance(scheme, PartVector) and scheme.has_directories else None
        )
        self._unlisted = "site-hash" if unlisted == "claim" and not mode.sends else unlisted
        self._registrars = SiteHash(scheme.parts)
        # The parts of unlisted sites, of units that servers assign, and of what has moved.
        self.learned: dict[str, int] = {} if self.tree is None else self.tree.first_holders()

    @property
    def has_claims(self) -> bool:
        """Whether sites may have to be claimed."""
        return self._unlisted == "claim" and lacks_sites(self._scheme)

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
