"""The other shell: cores over a known web and in virtual time, any number of ranks in one process.

Fetches and messages take random virtual time, so messages overtake each other; the core must be
right whatever the order. The papers' experiments and the randomised tests run here, on the same
decisions as a live crawl.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, product
from math import inf
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crawler import config, url
from crawler.core import Core
from crawler.exchange import decode, encode
from crawler.ownership import Ownership, Scheme, make_scheme, place_parts
from crawler.ports import OUT_OF_SCOPE, Failure, Link, UserError
from crawler.scope import Sites
from crawler.seen import MemorySeen
from crawler.workbench import Visit


class Web:
    """A web graph: `urls`, and the out-links of page i at `targets[offsets[i]:offsets[i+1]]`.

    Self-links and repeated links count for nothing and are dropped.
    """

    def __init__(self, urls: Sequence[str], links: NDArray[np.integer]) -> None:
        """`links`: shape (n, 2), source and target as indices into `urls`."""
        links = np.unique(links[links[:, 0] != links[:, 1]].reshape(-1, 2), axis=0)
        self.urls = list(urls)
        self.offsets = np.searchsorted(links[:, 0], np.arange(len(urls) + 1))
        self.targets = links[:, 1].astype(np.int64)
        sites = Sites("authority")
        self.links = [Link(url.key(address), address, sites.of(address), 0) for address in urls]
        self.number = {link.key: page for page, link in enumerate(self.links)}

    def __len__(self) -> int:
        return len(self.urls)

    def out_links(self, page: int) -> list[Link]:
        links = self.links
        return [links[t] for t in self.targets[self.offsets[page] : self.offsets[page + 1]]]

    def reachable(self, seeds: Iterable[int]) -> set[int]:
        """The pages that can be reached from the seeds."""
        reached = set(seeds)
        todo = list(reached)
        while todo:
            page = todo.pop()
            for target in self.targets[self.offsets[page] : self.offsets[page + 1]].tolist():
                if target not in reached:
                    reached.add(target)
                    todo.append(target)
        return reached

    def most_linked(self, pages: int) -> set[int]:
        """The `pages` pages with the most back-links; the lower number first among equals."""
        back_links = np.bincount(self.targets, minlength=len(self))
        return set(np.argsort(-back_links, kind="stable")[:pages].tolist())


def load_web(path: Path) -> Web:
    """A web from a session, its tables, or a graph directory of the partitioning job.

    Pages without a URL are given one on their site. Raises UserError for anything else.
    """
    tables = path / "tables" if (path / "tables").is_dir() else path
    try:
        pages = pq.read_table(tables / "pages.parquet")
        links = pq.read_table(tables / "links.parquet")
        web = _from_session(pages, links) if "key" in pages.column_names else _graph(pages, links)
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else "unusable"
        raise UserError(
            f"{path}: {what}: {str(error).splitlines()[0]}; a session or a graph is needed, with"
            " pages.parquet (id, url or site) and links.parquet (src, dst)"
        ) from None
    if not len(web):
        raise UserError(f"{path}: has no pages")
    return web


def _graph(pages: pa.Table, links: pa.Table) -> Web:
    ids = pages["id"].to_pylist()
    if "url" in pages.column_names:
        urls = [url.normalise(address) for address in pages["url"].to_pylist()]
    else:
        sites = pages["site"].to_pylist() if "site" in pages.column_names else ["0"] * len(ids)
        urls = [
            f"{site if '//' in site else 'http://' + site}/{page}"
            for site, page in zip(sites, ids, strict=True)
        ]
    web_urls = dict.fromkeys(urls)  # pages of the same URL are one
    position = {address: number for number, address in enumerate(web_urls)}
    number = {page: position[address] for page, address in zip(ids, urls, strict=True)}
    pairs = [
        (number[source], number[target])
        for source, target in zip(links["src"].to_pylist(), links["dst"].to_pylist(), strict=True)
    ]
    return Web(list(web_urls), np.array(pairs, np.int64).reshape(-1, 2))


def _from_session(pages: pa.Table, links: pa.Table) -> Web:
    links = links.filter((links["flags"].to_numpy() & OUT_OF_SCOPE) == 0)
    number: dict[int, int] = {}
    urls: list[str] = []
    for keys, texts in (
        (pages["key"].to_pylist(), pages["url"].to_pylist()),
        (links["target_key"].to_pylist(), links["target_url"].to_pylist()),
    ):
        for key, text in zip(keys, texts, strict=True):
            if number.setdefault(key, len(urls)) == len(urls):
                urls.append(text)
    pairs = [
        (number[source], number[target])
        for source, target in zip(
            links["source_key"].to_pylist(), links["target_key"].to_pylist(), strict=True
        )
    ]
    return Web(urls, np.array(pairs, np.int64).reshape(-1, 2))


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds of virtual time, each drawn evenly from (shortest, longest)."""

    fetch: tuple[float, float] = (0.05, 0.5)
    message: tuple[float, float] = (0.001, 0.05)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measures of a simulated crawl; names and definitions as in metrics.json."""

    mode: str
    scheme: str
    procs: int
    seeds: int
    repeat: int
    pages: int
    unique_pages: int
    coverage: float
    overlap: float
    quality: float
    communication_overhead: float
    inter_part_urls: int
    inter_part_links: int
    messages: int  # (page, other rank) pairs, as messages_page_part
    messages_site_part: int
    batches: int
    virtual_seconds: float


class Simulation:
    """One crawl of a web by `ranks` cores. `fetched[r]` lists the pages that rank r fetched."""

    def __init__(
        self,
        web: Web,
        settings: config.Config,
        scheme: Scheme,
        ranks: int,
        *,
        seed: int = 0,
        delays: Delays | None = None,
        concurrency: int = 16,
        addresses: Mapping[str, str] | None = None,
        trouble: Callable[[str, float], Failure | None] = lambda url, now: None,
    ) -> None:
        """`addresses`: of the sites, for politeness.per = "address". `trouble`: how a fetch of a
        URL that ends at a time fails, if it does."""
        self.web = web
        self.now = 0.0
        self.fetched: list[list[int]] = [[] for _ in range(ranks)]
        sites = Sites("authority")
        rank_of_part = place_parts(scheme, ranks)
        self.cores = [
            Core(
                settings,
                ranks,
                Ownership(rank, scheme, rank_of_part, settings.assignment.unlisted),
                sites,
                MemorySeen(),
            )
            for rank in range(ranks)
        ]
        self._random = random.Random(seed)
        self._delays = delays or Delays()
        self._concurrency = concurrency
        self._addresses = addresses
        self._trouble = trouble
        self._under_way = [0] * ranks
        self._wake = [inf] * ranks
        self._events: list[tuple[float, int, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = count()

    def run(self, seeds: Iterable[int], stop_at: tuple[float, int] | None = None) -> None:
        """Crawl until every core knows that the crawl is over.

        `stop_at`: a time and a rank; what a signal does there and then. Raises RuntimeError if the
        cores wait for something that can't come.
        """
        links = [self.web.links[page] for page in seeds]
        if stop_at is not None:
            time, rank = stop_at
            self._at(time, rank, lambda: self.cores[rank].stop(self.now))
        for rank, core in enumerate(self.cores):
            core.start(links, self.now)
            self._advance(rank)
        while not all(core.ended for core in self.cores):
            if not self._events:
                raise RuntimeError(f"stuck at {self.now}: {[core.bench for core in self.cores]}")
            self.now, _, rank, happen, about = heappop(self._events)
            happen(*about)
            self._advance(rank)

    def _advance(self, rank: int) -> None:
        """Let a core do all that it can do at this moment."""
        core = self.cores[rank]
        while self._under_way[rank] < self._concurrency and (visit := core.acquire(self.now)):
            found = visit.found
            if core.refusal(visit) is not None:
                core.bench.release(visit, self.now, requested=False)
                core.finish(response=False)
                continue
            if self._addresses and not core.locate(visit, self._addresses[found.site], self.now):
                continue
            self._under_way[rank] += 1
            self._at(self.now + self._draw(self._delays.fetch), rank, self._fetch_done, rank, visit)
        for receiver, message in core.tick(self.now):
            arrival = self.now + self._draw(self._delays.message)
            # Through the codec, as between real ranks: what it can't carry must not work here.
            data = encode(message, compress=False)
            self._at(arrival, receiver, self._message_arrives, receiver, rank, data)
        for time in (core.bench.next_time(), core.next_time()):
            if time is not None and self.now < time < self._wake[rank]:
                self._wake[rank] = time
                self._at(time, rank, self._awake, rank)

    def _at(self, time: float, rank: int, happen: Callable[..., None], *about: object) -> None:
        heappush(self._events, (time, next(self._order), rank, happen, about))

    def _draw(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds)

    def _fetch_done(self, rank: int, visit: Visit) -> None:
        core = self.cores[rank]
        page = self.web.number[visit.found.key]
        self._under_way[rank] -= 1
        failure = self._trouble(visit.found.url, self.now)
        if failure is not None:
            if core.fail(visit, failure, self.now):
                core.finish(response=False)
            return
        self.fetched[rank].append(page)
        core.bench.release(visit, self.now, requested=True)
        core.discovered(visit.found, self.web.out_links(page), self.now)
        core.finish(response=True)

    def _message_arrives(self, rank: int, sender: int, data: bytes) -> None:
        self.cores[rank].received(sender, decode(data), self.now)

    def _awake(self, rank: int) -> None:
        self._wake[rank] = inf


def measure(simulation: Simulation, seeds: Sequence[int], name: dict[str, object]) -> Outcome:
    """The measures of a finished simulation (Cho and Garcia-Molina 2002, section 4).

    Overlap (N-I)/I and coverage I/U, with N pages fetched, I different ones, U reachable from the
    seeds; quality |A_N n P_N|/|P_N| with P_N the N most linked-to pages of the web; communication
    overhead as URLs exchanged per page fetched.
    """
    web = simulation.web
    unique = set().union(*simulation.fetched)
    pages = sum(map(len, simulation.fetched))
    reachable = web.reachable(seeds)
    important = web.most_linked(len(unique))
    traffic = [core.traffic for core in simulation.cores]
    urls = sum(one.inter_part_urls for one in traffic)
    return Outcome(
        **name,  # type: ignore[arg-type]
        pages=pages,
        unique_pages=len(unique),
        coverage=len(unique) / len(reachable),
        overlap=(pages - len(unique)) / len(unique),
        quality=len(unique & important) / len(important),
        communication_overhead=urls / pages,
        inter_part_urls=urls,
        inter_part_links=sum(one.inter_part_links for one in traffic),
        messages=sum(one.messages_page_part for one in traffic),
        messages_site_part=len(set().union(*(one.site_part for one in traffic))),
        batches=sum(one.batches_sent for one in traffic),
        virtual_seconds=simulation.now,
    )


def experiments(
    web: Web,
    settings: config.Config,
    *,
    procs: Sequence[int],
    seeds: int,
    repeat: int,
) -> Iterator[Outcome]:
    """One simulated crawl for each number of processes and repetition.

    Each repetition draws its own seed pages, `seeds` for each process.
    """
    for ranks, number in product(procs, range(repeat)):
        chooser = random.Random(f"{number} {ranks}")
        start = chooser.sample(range(len(web)), min(len(web), seeds * ranks))
        simulation = Simulation(
            web, settings, make_scheme(settings.assignment, ranks), ranks, seed=number
        )
        simulation.run(start)
        yield measure(
            simulation,
            start,
            {
                "mode": settings.session.mode,
                "scheme": settings.assignment.scheme,
                "procs": ranks,
                "seeds": seeds,
                "repeat": number,
            },
        )
