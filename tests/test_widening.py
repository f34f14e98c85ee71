"""Sites that join the scope, as redirects of seeds end there: in every order, and live."""

import random
import struct
from collections.abc import Iterator

from cluster import AUTHORITIES, Cluster, Listed, settings
from fetches import response
from hypothesis import given
from hypothesis import strategies as st

from crawler.ownership import Scheme, SiteHash, UrlHash
from crawler.ports import Failure, Fetched, PageRow, Response
from crawler.reading import MAX_REDIRECTS, Reader, make_scope
from crawler.session import Correction, LoggedPage
from crawler.widening import admit_late
from crawler.workbench import Visit

# --- in any order -----------------------------------------------------------------------------


class World:
    """A random web. The seeds' redirects go through pages that nothing else leads to."""

    def __init__(self, dice: random.Random) -> None:
        sites = [f"http://s{number}.example" for number in range(dice.randint(2, 6))]
        inside = dice.sample(sites, dice.randint(1, len(sites) - 1))  # of the seeds
        self.pages = [f"{dice.choice(sites)}/{n}" for n in range(dice.randint(1, 30))]
        self.targets = {page: dice.choices(self.pages, k=dice.randint(0, 5)) for page in self.pages}
        # Other redirects: one hop, so that no chain is too long.
        self.moved: dict[str, str] = {}
        for number in range(dice.randint(0, 3)):
            moved = f"{dice.choice(sites)}/moved{number}"
            self.moved[moved] = dice.choice(self.pages)
            self.targets[dice.choice(self.pages)].append(moved)
        self.denied: set[str] = set()
        self.seeds: list[str] = []
        self.chains: list[list[str]] = []
        for number in range(dice.randint(1, 5)):
            chain = [f"{dice.choice(inside)}/seed{number}"]
            self.seeds.append(chain[0])
            hops = range(dice.randint(0, MAX_REDIRECTS - 1))
            chain += [f"{dice.choice(sites)}/hop{number}-{hop}" for hop in hops]
            end = dice.choice([*self.pages, f"{dice.choice(sites)}/denied{number}", chain[0]])
            if "denied" in end:
                self.denied.add(end)
            self.moved |= dict(zip(chain, [*chain[1:], end], strict=True))
            self.chains.append(chain)

    def answer(self, address: str) -> Response | Failure:
        if address in self.denied:
            return Failure.ROBOTS_DENIED
        if address in self.moved:
            location = [(b"Location", self.moved[address].encode())]
            return response(address, b"", headers=location, status=302)
        links = "".join(f"<a href={target}>x</a>" for target in self.targets[address])
        return response(address, links.encode())

    def joined(self) -> set[str]:
        """The sites where the seeds' redirects end, but for those of the seeds."""
        ends = {self.moved[chain[-1]] for chain in self.chains}
        sites = map(AUTHORITIES.of, ends - set(self.seeds))  # a seed at the end is a loop
        return set(sites) - set(map(AUTHORITIES.of, self.seeds))

    def reachable(self) -> set[str]:
        """The pages that can be reached in the scope as it is in the end."""
        scope = self.joined() | set(map(AUTHORITIES.of, self.seeds))
        reached = {page for chain in self.chains for page in chain}
        reached |= {self.moved[chain[-1]] for chain in self.chains}
        todo = list(reached)
        while todo:
            page = todo.pop()
            out = [self.moved[page]] if page in self.moved else self.targets.get(page, [])
            new = {target for target in out if AUTHORITIES.of(target) in scope} - reached
            reached |= new
            todo += new
        return reached


class Ranks:
    """Cores with what stands around them in an agent: a scope, a reader and a log each."""

    def __init__(self, world: World, scheme: Scheme, ranks: int, dice: random.Random) -> None:
        options = settings(
            f"exchange.batch_pages={dice.choice([1, 3, 64])}",
            f"assignment.unlisted={dice.choice(['claim', 'site-hash'])}",
            f"exchange.remember={dice.choice(['all', 'batch'])}",
        )
        self.world = world
        self.cluster = Cluster(scheme, ranks, options)
        self.scopes = [make_scope(options, world.seeds, 2027) for _ in range(ranks)]
        self.readers = [Reader(options, scope) for scope in self.scopes]
        self.logs: list[list[LoggedPage]] = [[] for _ in range(ranks)]
        self.fetched: list[str] = []
        self._dice = dice
        self._reading: list[tuple[Fetched, Iterator[None]] | None] = [None] * ranks
        self._joining: list[tuple[int, Iterator[None]] | None] = [None] * ranks

    def run(self) -> None:
        cluster, dice = self.cluster, self._dice
        cluster.start(*self.world.seeds)
        for _ in range(100_000):
            if cluster.ended:
                return
            rank = dice.randrange(cluster.ranks)
            kind = dice.choice(["acquire", "read", "join", "message", "time"])
            if kind == "acquire" and len(cluster.visits[rank]) < 3:
                cluster.acquire(rank)
            elif kind == "read":
                self._read(rank)
            elif kind == "join":
                self._join(rank)
            elif kind == "message" and cluster.flights:
                cluster.deliver(dice.choice(cluster.flights))
            elif kind == "time":
                cluster.now += 1
                cluster.tick(rank)
        raise AssertionError("no end")

    def _read(self, rank: int) -> None:
        """Begin to read a page, or go on, or store it: the parse stage."""
        cluster, reading = self.cluster, self._reading[rank]
        if reading is None:
            if cluster.visits[rank]:
                visit = self._dice.choice(cluster.visits[rank])
                fetched = self._fetched(visit)
                self._reading[rank] = fetched, self.readers[rank].read(fetched)
            return
        fetched, steps = reading
        if next(steps, self) is None or self._dice.random() < 0.5:  # the disk may be full
            return
        self._reading[rank] = None
        reader, core, found = self.readers[rank], cluster.cores[rank], fetched.found
        reader.renew(fetched)
        self.logs[rank].append(logged(fetched, rank))
        self.fetched.append(found.url)
        if fetched.joins is not None:
            core.join(*fetched.joins, found.url, cluster.now)
        (index,) = [i for i, visit in enumerate(cluster.visits[rank]) if visit.found is found]
        cluster.end(rank, fetched.links, index=index)

    def _fetched(self, visit: Visit) -> Fetched:
        answer = self.world.answer(visit.found.url)
        if isinstance(answer, Failure):
            return Fetched(visit.found, 0.0, failure=answer)
        return Fetched(visit.found, 0.0, answer)

    def _join(self, rank: int) -> None:
        """Begin to take sites into the scope of a rank, or go on: crawler.widening."""
        core, joining = self.cluster.cores[rank], self._joining[rank]
        if joining is None:
            if core.joining:
                sites = {site for site, _, _ in core.joining}
                for site in sites:
                    self.scopes[rank].join(site)
                scope, reader, log = self.scopes[rank], self.readers[rank], list(self.logs[rank])
                steps = admit_late(core, scope, reader, sites, log, lambda: self.cluster.now)
                self._joining[rank] = len(sites), steps
            return
        count, steps = joining
        if next(steps, self) is not None:
            self._joining[rank] = None
            del core.joining[:count]
            core.joined(count, wholly=True)
        self.cluster.tick(rank)


def logged(fetched: Fetched, rank: int) -> LoggedPage:
    found, links = fetched.found, fetched.links
    return LoggedPage(
        PageRow(found.url, found.key, found.site, 0, rank, found.hops, 0.0, 0.0),
        struct.pack(f"<{len(links)}Q", *[link.key for link in links]),
        bytes([link.flags for link in links]),
        "".join(f"{link.url}\n" for link in links).encode(),
        False,
        found.chain,
        judged_with=fetched.judged_with,
    )


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_what_is_fetched_is_what_the_final_scope_reaches(seed: int, count: int) -> None:
    dice = random.Random(seed)
    world = World(dice)
    listed = {f"s{n}.example": n % count for n in range(6) if dice.random() < 0.5}
    scheme = dice.choice([UrlHash(count), SiteHash(count), Listed(count, listed)])
    ranks = Ranks(world, scheme, count, dice)
    ranks.run()
    assert sorted(ranks.fetched) == sorted(world.reachable())
    assert ranks.cluster.complete
    for scope, reader, log in zip(ranks.scopes, ranks.readers, ranks.logs, strict=True):
        assert scope.joined == world.joined()
        correct = Correction(scope.joined, reader.brings_in)
        for page in log:  # the logs say the same, wherever the pages were read
            for address, flags in zip(page.urls, correct(page).flags, strict=True):
                followed = scope.judge(address).allowed or address in world.reachable()
                assert bool(flags & 128) != followed or flags & 2, (page, address)
