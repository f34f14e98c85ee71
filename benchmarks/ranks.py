"""What building a part vector takes on several ranks: seconds and memory, on a made-up session.

    python -m benchmarks ranks make DIR --pages 1000000 --sites 20000 --links 36
    python -m benchmarks ranks measure DIR
    mpirun -n 4 python -m benchmarks ranks measure DIR

`make` writes the tables of a session in which nine of ten pages were fetched. Of the links 86 %
stay within their site, and most others lead to 4 of the 40 sites of a group. `measure` makes the
parts of the sites, or of the units of another model (`--model`). Without mpirun, `measure` does
what `partition build` does in one process. For each step and each rank it prints the seconds, the
CPU seconds, and the peak of memory so far. A rank that waits for others uses next to no CPU time.
The last line has the messages, the volume, the larger imbalance, and a digest of the parts of all
pages. This line must be the same for each number of ranks. With `--pins N` the ranks coarsen until
one rank has N pins at most. Then the line is the same for two ranks or more.
"""

import hashlib
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Timer, show

from crawler import url
from crawler.commandline import has_other_ranks
from crawler.ports import Peers
from partition import graph, planning
from partition.evaluate import Evaluation
from partition.job import DEFAULT_MODEL
from partition.models import MODELS, Units
from partition.ranks import counting, merging, reading
from partition.ranks.dividing import divided
from partition.ranks.exchange import everywhere, gathered
from partition.ranks.linking import linked, share_of
from partition.ranks.searching import best
from partition.settings import PINS_PER_RANK, Settings

_FILES = 4  # of each table
_GROUP = 40  # sites
_LINKS = pa.schema(
    [
        ("source_key", pa.uint64()),
        ("target_key", pa.uint64()),
        ("target_url", pa.string()),
        ("flags", pa.uint8()),
    ]
)


def make(directory: Path, pages: int, sites: int, links: int) -> None:
    dice = np.random.default_rng(1)
    share = dice.lognormal(0, 1.2, sites)
    ends = np.rint(np.cumsum(share) / share.sum() * (pages - sites)).astype(np.int64)
    start = np.append(0, ends + np.arange(1, sites + 1))  # each site has a page at least
    size = np.diff(start)
    site = np.repeat(np.arange(sites), size)
    hosts = [f"www.site{number}.example" for number in range(sites)]
    texts = [f"http://{hosts[of]}/dir{at % 37}/page{at}.html" for at, of in enumerate(site)]
    keys = np.fromiter(map(url.key, texts), np.uint64, pages)
    urls, names = pa.array(texts), pa.array(hosts)
    del texts
    bytes_ = dice.lognormal(9, 1, pages).astype(np.int64)
    fetched = dice.random(pages) < 0.9
    for table in ("pages", "links"):
        (directory / "tables" / table).mkdir(parents=True)
    (directory / "session.toml").write_text('[assignment]\nsite = "authority"\n')
    for file in range(_FILES):
        own = dice.permutation(np.flatnonzero(fetched & (site % _FILES == file)))
        columns = {
            "url": urls.take(pa.array(own)),
            "key": keys[own],
            "site": names.take(pa.array(site[own])),
            "time": np.arange(len(own), dtype=float),
            "seconds": np.full(len(own), 0.1),
            "bytes": bytes_[own],
            "hops": np.ones(len(own), np.int32),
        }
        path = directory / "tables" / "pages" / f"{file:05}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=1 << 16)
        path = directory / "tables" / "links" / f"{file:05}.parquet"
        with pq.ParquetWriter(path, _LINKS, use_dictionary=["source_key", "flags"]) as writer:
            for low in range(0, len(own), 1 << 13):
                some = own[low : low + (1 << 13)]
                source = np.repeat(some, dice.poisson(links, len(some)))
                target = _targets(dice, site[source], start, size)
                rows = [keys[source], keys[target], urls.take(pa.array(target))]
                flags = np.zeros(len(source), np.uint8)
                writer.write_table(pa.table([*rows, flags], schema=_LINKS))


def _targets(
    dice: np.random.Generator, of: np.ndarray, start: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """Return a target for each link of a page of site `of`. Low numbers are popular."""
    n, sites = len(of), len(size)
    liked = (of * 2654435761 + dice.integers(0, 4, n) * 97) % _GROUP
    near = np.minimum(of // _GROUP * _GROUP + liked, sites - 1)
    far = (sites * dice.random(n) ** 3).astype(np.int64)
    other = np.where(dice.random(n) < 0.8, near, far)
    to = np.where(dice.random(n) < 0.86, of, other)
    return start[to] + (size[to] * dice.random(n) ** 3).astype(np.int64)


def measure_alone(directory: Path, parts: int, model: str) -> None:
    def told(what: str, work: Callable[[], object]) -> None:
        with Timer() as timer:
            made.append(work())
        show(_figures(what, timer) | {"ranks": 1, "rank": 0})

    made: list = []
    told("read", lambda: graph.read([directory]))
    told("search", lambda: planning.plan(made[0], model, parts, Settings()))
    _show_result(made[1].counts, made[0].key, made[1].part)


async def measure(directory: Path, parts: int, pins: int, model: str, peers: Peers) -> int:
    async def told(what: str, timer: Timer) -> None:
        for rank, one in enumerate(await everywhere(peers, _figures(what, timer))):
            if peers.rank == 0:
                show(one | {"ranks": peers.size, "rank": rank})

    folders, by = graph.tables([directory]), MODELS[model]
    with Timer() as timer:
        held = await reading.read(folders, peers, inside=by.units is not Units.SITES)
    await told("read", timer)
    with Timer() as timer:
        sites = await merging.numbered(held, peers)
        kept = np.zeros(len(sites.weights), bool)
        division = await divided(folders, held, sites, by.units, parts, kept, peers)
        links = await linked(held, sites, division, by.units, peers)
        share = [await share_of(held, links, division, by, peers)]
    await told("merge", timer)
    number = sum(await everywhere(peers, len(links.source)))
    settings = Settings(pins_per_rank=pins)
    with Timer() as timer:
        part = await best(share.pop(), division.site, number, parts, by, settings, peers)
    await told("search", timer)
    with Timer() as timer:
        counts = await counting.count(held, links, division.weights, part, parts, peers)
    await told("count", timer)
    rows = (held.pages()[0], part[division.of_page])
    keys, of_page = await gathered(peers, rows)
    if counts is not None:
        _show_result(counts, keys, of_page)
    return 0


def _figures(what: str, timer: Timer) -> dict[str, object]:
    return {
        "what": what,
        "seconds": round(timer.wall_s, 2),
        "cpu_seconds": round(timer.cpu_s, 2),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _show_result(counts: Evaluation, keys: np.ndarray, part: np.ndarray) -> None:
    by_key = part[np.argsort(keys)].astype(np.int32)
    shown = {
        "messages": counts.messages_page_part,
        "volume_bytes": counts.volume_bytes,
        "imbalance": max(counts.imbalances),
        "pages": len(part),
        "digest": hashlib.sha256(by_key.tobytes()).hexdigest()[:16],
    }
    show(shown)


def run(
    what: Literal["make", "measure"],
    directory: Path,
    *,
    pages: int = 1_000_000,
    sites: int = 20_000,
    links: int = 36,
    parts: int = 16,
    pins: int = PINS_PER_RANK,
    model: str = DEFAULT_MODEL,
) -> int:
    if what == "make":
        make(directory, pages, sites, links)
        return 0
    if not has_other_ranks():
        measure_alone(directory, parts, model)
        return 0
    from crawler import mpi  # noqa: PLC0415  importing mpi starts MPI

    return mpi.run(lambda group: measure(directory, parts, pins, model, group))
