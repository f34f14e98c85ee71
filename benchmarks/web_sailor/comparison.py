"""Static and dynamic assignment on the same web, in virtual time."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from harness import Row

from crawler import config
from crawler.core.core import Core
from crawler.core.schemes import make_scheme
from crawler.core.visits import Visit
from crawler.messages import Batch, Message, Relay
from crawler.report import measures
from crawler.simulate import Delays, Simulation, Web

SINGLE: Final = "one process"
UNLOCKED: Final = "unlocked"
STATIC: Final = ("site-hash", "site-hypergraph")
DYNAMIC: Final = ("page server", "site server", "dset server", "site own", "dset own")
# What the defaults of `page server` were chosen from: a smaller stock, and sites that don't stay.
VARIANTS: Final = ("page server, stock 8", "page server, rest_s 0")
KINDS: Final = (SINGLE, *STATIC, *DYNAMIC, *VARIANTS, UNLOCKED)
SHARES: Final = (0.012, 0.05, 0.2)  # of the pages, after which quality is measured
SITE_DELAYS_S: Final = (0.0, 0.5)
SEEDS: Final = 64
CONNECTIONS: Final = 4  # of each client
DELAYS: Final = Delays(fetch=(0.05, 0.5), message=(0.025, 0.025))
_BATCH_PAGES: Final = 16
_NEVER: Final = 1 << 50


@dataclass(frozen=True)
class Case:
    """One crawl, but for its graph."""

    kind: str
    clients: int
    site_delay_s: float
    repeat: int  # number of the repetition; each draws its own seeds


KEY: Final = [field.name for field in fields(Case)]


def cases(clients: Sequence[int], repeats: int) -> Iterator[Case]:
    """All crawls of a graph. The first repetition of all comes first."""
    for repeat, delay_s, count, kind in product(range(repeats), SITE_DELAYS_S, clients, KINDS):
        if not delay_s or kind not in (*VARIANTS, UNLOCKED):
            yield Case(kind, count, delay_s, repeat)


def settings(case: Case, vector: Path | None) -> config.Config:
    """The configuration of a crawl. `vector`: the part vector of a static assignment by a model."""
    sets = [f"traps.{key}=0" for key in config.Traps.all_keys]
    sets += ["frontier.order=backlinks", f"politeness.delay_s={case.site_delay_s}"]
    sets += [f"exchange.batch_pages={_BATCH_PAGES}", f"fetch.concurrency={connections(case)}"]
    if case.kind == UNLOCKED:
        sets.append(f"politeness.connections_per_site={_NEVER}")
    if vector is not None:
        sets += ["assignment.scheme=part-vector", f"assignment.part_vector={vector}"]
    elif case.kind in STATIC:
        sets.append(f"assignment.scheme={case.kind}")
    elif case.kind in (*DYNAMIC, *VARIANTS):
        granularity, follow = case.kind.partition(",")[0].split()
        sets += ["assignment.scheme=dynamic", f"dynamic.granularity={granularity}"]
        sets.append(f"dynamic.follow={follow}")
        if variant := case.kind.partition(", ")[2]:
            sets.append("dynamic." + "=".join(variant.split()))
    return config.load(None, sets)


def ranks(case: Case) -> int:
    if case.kind in (SINGLE, UNLOCKED):
        return 1
    return case.clients + (case.kind not in STATIC)


def connections(case: Case) -> int:
    """The connections of a rank; those of one process are all together."""
    return CONNECTIONS * (case.clients if case.kind in (SINGLE, UNLOCKED) else 1)


class Counted(Simulation):
    """A crawl in which messages, and what they carry, are counted."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.messages = 0
        self.moved_up = 0  # URLs and keys, from clients; without a server between all ranks
        self.moved_down = 0  # from a server

    def _arrives(self, rank: int, about: tuple[int, bytes | Message]) -> None:
        sender, message = about
        batch = message.message if isinstance(message, Relay) else message
        if isinstance(batch, Batch):
            moved = len(batch.urls) + sum(len(keys) // 8 for keys, _ in batch.known.values())
            tree = self.cores[rank].ownership.tree
            if tree is not None and tree.is_server(sender):
                self.moved_down += moved
            else:
                self.moved_up += moved
            self.messages += 1
        super()._arrives(rank, about)


class Noting:
    """A core whose visits are noted when they begin. (A method of a compiled core is fixed.)"""

    def __init__(self, core: Core, note: Callable[[Visit], None]) -> None:
        self._core, self._note = core, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def acquire(self, now: float) -> Visit | None:
        """See Core."""
        visit = self._core.acquire(now)
        if visit is not None:
            self._note(visit)
        return visit


class Shared(Counted):
    """A crawl by one process, whose connections are dealt to clients as if these took turns.

    Each connection that is free gets the best URL, whatever its site. So this is what clients
    would do that get the best URLs from a server without a lock on sites.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._free = list(range(self._concurrency))
        self._client_of = dict[int, int]()  # connections of the open visits, by key
        self._at = dict[str, list[int]]()  # clients at each site
        self.begun = self.crowded = 0  # visits; and those that met another client at their site
        self.cores = [Noting(core, self._begin) for core in self.cores]  # type: ignore[misc]

    def _begin(self, visit: Visit) -> None:
        connection = self._client_of[visit.found.key] = self._free.pop()
        there = self._at.setdefault(visit.found.site, [])
        client = connection // CONNECTIONS
        self.begun += 1
        self.crowded += any(other != client for other in there)
        there.append(client)

    def _fetch_done(self, rank: int, visit: Visit) -> None:
        connection = self._client_of.pop(visit.found.key)
        self._at[visit.found.site].remove(connection // CONNECTIONS)
        self._free.append(connection)
        super()._fetch_done(rank, visit)


def conduct(web: Web, case: Case, vector: Path | None) -> Row:
    """Crawl until a fifth of the web has been fetched. Returns the measures."""
    seeds = random.Random(case.repeat).sample(range(len(web)), min(SEEDS, len(web)))
    goal = round(len(web) * SHARES[-1])
    chosen = settings(case, vector)
    make = Shared if case.kind == UNLOCKED else Counted
    simulation = make(
        web,
        chosen,
        make_scheme(chosen, ranks(case)),
        ranks(case),
        seed=case.repeat,
        delays=DELAYS,
        concurrency=connections(case),
        encoded=False,
    )
    simulation.run(seeds, enough=goal)
    order, by = np.array(simulation.order[:goal]), np.array(simulation.by[:goal])
    goal = len(order)
    points = [round(len(web) * share) for share in SHARES]
    quality = measures.quality(order, web.reference.back_links, points)
    tree = simulation.cores[0].ownership.tree
    loads = np.bincount(by, minlength=ranks(case))[0 if tree is None else 1 :]
    sites = np.unique([web.links[page].site for page in order], return_inverse=True)[1]
    pairs = len(np.unique(sites * ranks(case) + by))
    row = {
        "pages": goal,
        "quality": list(map(float, quality)),
        "messages": simulation.messages / simulation.pages,
        "up": simulation.moved_up / simulation.pages,
        "down": simulation.moved_down / simulation.pages,
        "imbalance": float(loads.max() / loads.mean() - 1),
        "pages_per_s": goal / simulation.times[goal - 1],
        "clients_a_site": pairs / (int(sites.max()) + 1),
    }
    if isinstance(simulation, Shared):
        row["crowded"] = simulation.crowded / simulation.begun
    return row


def key(row: Row) -> tuple[Any, ...]:
    """What tells one crawl from another."""
    return (row["graph"], *(row[name] for name in KEY))


def named(graph: str, case: Case) -> Row:
    return {"graph": graph, **asdict(case)}
