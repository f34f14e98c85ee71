"""Claims of sites that no table lists, and the URLs that wait until the owners are known."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from crawler.core.foreign import Origin, Traffic
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.ports import Link
from partition.partvector import grant

_GROWTH: Final = 1.05  # A rank tells its load when it is this times the one told before,
_MORE: Final = 20  # and so many URLs more.
_GIVEN_BYTES: Final = 180  # of a site and its rank
_HELD_BYTES: Final = 1000  # of a site whose URLs are held, with a few of them
Held = tuple[Link, Origin | None]  # no origin: an errand


class Claims:
    """The claims that one rank has made, and those that it answers as a registrar."""

    def __init__(
        self, ranks: int, ownership: Ownership, outboxes: Outboxes, traffic: Traffic
    ) -> None:
        self._ownership = ownership
        self._outboxes = outboxes
        self._traffic = traffic
        self._ranks = ranks
        self._registrar = Registrar(ranks)
        # If the load of this rank is more than this, the other ranks are told.
        self.tell_at = _MORE if ownership.has_claims else inf
        self._held: defaultdict[str, list[Held]] = defaultdict(list)  # by site

    @property
    def holds(self) -> bool:
        """Whether URLs wait for the answers of registrars."""
        return bool(self._held)

    def awaits(self, site: str) -> bool:
        """Whether URLs of a site wait for the answer of its registrar."""
        return site in self._held

    @property
    def given(self) -> dict[str, int]:
        """The sites that this rank has given away, and their ranks."""
        return self._registrar.given

    def nbytes(self) -> int:
        """About how many bytes of memory the sites that were given away and the held URLs take."""
        return _GIVEN_BYTES * len(self.given) + _HELD_BYTES * len(self._held)

    def claim(self, link: Link, origin: Origin | None, load: int, now: float) -> int | None:
        """The owner of an unlisted site, if this rank is the registrar. Otherwise returns None.

        Then the link is held, and the site is claimed from its registrar. `load`: the number of
        URLs that this rank has had to fetch.
        """
        site = link.site
        registrar = self._ownership.registrar(site)
        if registrar == self._ownership.rank:
            self.grant(site, registrar, load)
            return self._ownership.owner(link)
        if site not in self._held:
            self._outboxes.open(registrar, now).claims.append(site)
            self._traffic.claims += 1
        self._held[site].append((link, origin))
        return None

    def grant(self, site: str, claimant: int, load: int) -> int:
        """As the registrar of a site, decide which rank owns it. Returns the part of the site."""
        self._registrar.hear(self._ownership.rank, load)
        owner = self._registrar.grant(site, claimant)
        part = self._ownership.rank_of_part.index(owner)
        self._ownership.learn(site, part)
        return part

    def learn(self, site: str, part: int) -> Sequence[Held]:
        """Note the part of a site, as its registrar says. Returns the links held for the site."""
        self._ownership.learn(site, part)
        return self._held.pop(site, ())

    def hear(self, sender: int, load: int) -> None:
        """Note the load of another rank. Its batches may come in any order."""
        self._registrar.hear(sender, load)

    def tell_load(self, load: int, now: float) -> None:
        """Tell all ranks the load of this rank, because it has grown since they were told.

        Registrars compare loads. Ranks with few links to each other exchange few batches, so
        without this they would compare loads of different times.
        """
        self.tell_at = load * _GROWTH + _MORE
        for rank in range(self._ranks):
            if rank != self._ownership.rank:
                self._outboxes.open(rank, now)  # each batch has the load

    def least_loaded(self, ranks: Iterable[int]) -> int:
        """The rank of these that has had to fetch the fewest URLs; it gets one more by this."""
        loads = self._registrar.loads
        rank = min(ranks, key=loads.__getitem__)
        loads[rank] += 1
        return rank

    def restore(self, given: Mapping[str, int]) -> None:
        """Note the sites that this rank gave away in an earlier run, with their owners."""
        for site, rank in given.items():
            self._registrar.grant_again(site, rank)

    def settle(self, claims: Mapping[str, int], claimant: int) -> dict[str, int]:
        """As their registrar, decide which ranks own sites of an earlier run. Returns their parts.

        `claims`: the parts of the sites in the earlier run. A site goes to the rank that holds this
        part now, or to `claimant` if there is no such part. If this rank is a seed server, the site
        goes to one of its clients: to that which fetched the pages, if it is still there.
        """
        table, tree = self._ownership.rank_of_part, self._ownership.tree
        clients = () if tree is None else tree.first_clients_of(self._ownership.rank)
        settled = {}
        for site, part in claims.items():
            if site in self.given:
                owner = self.given[site]
            elif tree is None:
                owner = table[part] if part < len(table) else claimant
            else:
                owner = part if part in clients else self.least_loaded(clients)
            self._registrar.grant_again(site, owner)
            settled[site] = table.index(owner)
            self._ownership.learn(site, settled[site])
        return settled


class Registrar:
    """Gives unlisted sites to ranks.

    The first rank to claim a site gets it, unless it has more than its share of the load
    (`partvector.grant`). One registrar alone decides about a site, so the answers never contradict
    each other.
    """

    def __init__(self, ranks: int) -> None:
        self.loads = [0] * ranks  # URLs that each rank has had to fetch, by its latest message
        self.given: dict[str, int] = {}  # the ranks of sites
        # An estimate of the URLs that each rank was given since it told its load: one for each
        # site that this registrar gave, and as many for each other registrar.
        self._more = [0] * ranks

    def hear(self, rank: int, load: int) -> None:
        """Note the load of a rank, as it says itself."""
        if load > self.loads[rank]:
            self.loads[rank] = load
            self._more[rank] = 0

    def grant_again(self, site: str, owner: int) -> int:
        """Note the owner of a site in an earlier run. Returns the owner that was noted first."""
        self.loads[owner] += site not in self.given
        return self.given.setdefault(site, owner)

    def grant(self, site: str, claimant: int) -> int:
        """The rank that owns the site from now on."""
        owner = self.given.get(site)
        if owner is None:
            loads = [load + more for load, more in zip(self.loads, self._more, strict=True)]
            owner = grant(loads, claimant)
            self._more[owner] += len(loads)
            self.given[site] = owner
        return owner
