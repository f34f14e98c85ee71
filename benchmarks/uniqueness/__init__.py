"""Time, bytes and memory of a cycle of URL uniqueness on disk, for DRUM and VEUNIQ.

    python benchmarks uniqueness [--stores S,..] [--millions N,..] [--cycles N] --work DIR --out DIR
    python benchmarks uniqueness --model --work DIR --out DIR
    python benchmarks uniqueness --plots --out DIR

A cycle has 1 million URLs of a made-up crawl (`stream`): 100,000 pages and 900,000 links. A store
is drum (merged in each cycle), drum-native (merged when a bucket is full, about every 8th cycle),
veuniq-N (keys in N repositories) or veuniq-N-texts. With `-any` behind it, the pages of a cycle
may be of any site; else they are of the sites of the repository at hand. Stores are prefilled with
--millions of URLs. Each run is a process of its own, and a line in OUT/uniqueness.jsonl; no run is
repeated. --model counts bytes beside the papers' equations instead, in small cycles. --plots makes
the tables and the plot anew.
"""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from harness import Numbers, Row, Timer, Words, alone, append_rows, read_rows, resident_bytes

from crawler.stores.batch_store import BatchStore
from crawler.stores.drum import Drum
from crawler.stores.folder import NewFile
from crawler.stores.veuniq import Veuniq

from . import model as equations
from .stream import LINKS_A_PAGE, Stream

STORES = (
    *("drum", "drum-native"),
    *("veuniq-16", "veuniq-64", "veuniq-256"),
    *("veuniq-16-any", "veuniq-64-any", "veuniq-256-any"),
    *("veuniq-16-texts", "veuniq-64-texts", "veuniq-256-texts"),
)
SITES = 200_000
CYCLE = 1_000_000
NATIVE = 8  # cycles that fill a bucket
BUCKET_BITS = 6
RECORD = 16  # bytes of a key with its value
_CHUNK = 1 << 20
LOG = "uniqueness.jsonl"


def make(name: str, path: Path, cycle: int = CYCLE) -> BatchStore:
    """Make a store from its name."""
    kind, *rest = name.split("-")
    if kind == "drum":
        full = NATIVE * cycle * RECORD >> BUCKET_BITS
        return Drum(path, BUCKET_BITS, bucket_bytes=int(full * 0.98) if rest else 0)
    records = "texts" if "texts" in rest else "keys"
    return Veuniq(path, int(rest[0]), records=records, in_turn=True)


def prefill(store: BatchStore, stream: Stream) -> None:
    """Put all known URLs of a stream into an empty store."""
    sites = np.arange(len(stream.hashes))
    if isinstance(store, Drum):  # in one go, as a million merges would take too long
        keys = np.concatenate([entries.keys for entries, _ in stream.prefill(sites)])
        keys.sort()
        file = NewFile(store.folder, "r-prefilled")
        for first in range(0, len(keys), _CHUNK):
            pairs = np.ones((len(keys[first : first + _CHUNK]), 2), np.uint64)
            pairs[:, 0] = keys[first : first + _CHUNK]
            file.write(pairs, len(pairs))
        list(file.finish())
        store._names["r"] = file.name
        list(store.folder.commit([]))
        return
    assert isinstance(store, Veuniq)
    parts = store.repository_of(stream.hashes)
    for part in range(int(parts.max()) + 1):
        for entries, hashes in stream.prefill(sites[parts == part]):
            store.submit(entries, hashes, 0)
        list(store.cycle(0))


def pages_of(store: BatchStore, stream: Stream, name: str) -> np.ndarray:
    """Return the sites whose pages the next cycle has."""
    if isinstance(store, Veuniq) and not name.endswith("-any"):
        return np.flatnonzero(store.repository_of(stream.hashes) == store.turn)
    return np.arange(len(stream.hashes))


def measure(name: str, known: int, cycles: int, work: Path) -> Row:
    """Return the means of some cycles, after a first one that isn't measured."""
    path = work / name
    shutil.rmtree(path, ignore_errors=True)
    stream = Stream(known, SITES)
    store = make(name, path)
    prefill(store, stream)
    wall_s = cpu_s = longest_s = peak = answers = new = cross = 0
    for cycle in range(cycles + 1):
        if cycle == 1:
            wall_s = cpu_s = longest_s = peak = answers = new = cross = 0
            store.folder.read.clear()
            store.folder.written.clear()
        turn = store.turn if isinstance(store, Veuniq) else -1
        entries, hashes = stream.cycle(CYCLE // (1 + LINKS_A_PAGE), pages_of(store, stream, name))
        if isinstance(store, Veuniq):
            cross += int((store.repository_of(hashes) != turn).sum())
        before = resident_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        with Timer() as timer:
            store.submit(entries, hashes, cycle)
            del entries, hashes
            steps = store.cycle(cycle)
            while True:
                with Timer() as step:
                    given = next(steps, store)
                longest_s = max(longest_s, step.wall_s)
                if given is store:
                    break
                if given is not None:
                    answers += len(given.new)
                    new += int(given.new.sum())
        wall_s += timer.wall_s
        cpu_s += timer.cpu_s
        peak = max(peak, peak_bytes() - before)
    read, written = (sum(each.values()) for each in (store.folder.read, store.folder.written))
    store.close()
    shutil.rmtree(path)
    return {
        "store": name,
        "millions": known / 1e6,
        "cycles": cycles,
        "wall_s": wall_s / cycles,
        "cpu_s": cpu_s / cycles,
        "longest_step_s": longest_s,
        "read_mb": read / cycles / 1e6,
        "written_mb": written / cycles / 1e6,
        "added_mib": peak / 2**20,
        "cross": cross / cycles / CYCLE,
        "new": new / max(1, answers),
    }


def peak_bytes() -> int:
    """Return the largest resident set since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


# --- the model --------------------------------------------------------------------------------


def against_model(name: str, work: Path, cycle: int = 50_000) -> Row:
    """Count the bytes of five whole rounds of 16 repositories, beside the equations.

    `cycle`: the number of URLs in a cycle.
    """
    known, rounds, sites = 8 * cycle, 5, 20_000
    path = work / name
    shutil.rmtree(path, ignore_errors=True)
    stream = Stream(known, sites)
    store = make(name, path, cycle)
    prefill(store, stream)
    store.folder.read.clear()
    store.folder.written.clear()
    links = texts = cross = new = 0
    known = int(stream.known.sum())
    for _ in range(16 * rounds):
        turn = store.turn if isinstance(store, Veuniq) else 0
        entries, hashes = stream.cycle(cycle // (1 + LINKS_A_PAGE), pages_of(store, stream, name))
        if isinstance(store, Veuniq):
            cross += int((store.repository_of(hashes) != turn).sum())
        links += len(entries.keys)
        texts += len(entries.data)
        store.submit(entries, hashes, 0)
        for given in store.cycle(0):
            new += 0 if given is None else int(given.new.sum())
    counted = store.folder.read + store.folder.written
    state = [store.folder.state(file) for file in store.repositories()]
    record = sum(one.bytes for one in state) / sum(one.records for one in state)
    store.close()
    bucketed = texts / links + 6  # an entry in a bucket of texts has two lengths before its text
    load = equations.Load(links, known, bucketed, new / links)
    if isinstance(store, Drum):
        every = NATIVE if name == "drum-native" else 1
        # New URLs go on to the frontier, which stores their texts: the equation's p isn't counted.
        overhead = equations.drum_overhead(load, RECORD, cycle * every * RECORD) - load.new_share
        predicted, found = overhead * links * bucketed, sum(counted.values())
    else:
        # The repositories hold other records than TMP does, so they are predicted apart.
        in_tmp = bucketed + RECORD
        memory = equations.Memory(cycle * record, pointer=0)
        merged = replace(load, url_bytes=record)
        predicted = equations.veuniq_overhead(merged, memory, 16, 0) * links * record
        predicted += 2 * cross * in_tmp
        found = counted["r"] + counted["t"]
    return {
        "store": name,
        "cycles": 16 * rounds,
        "b": texts / links,
        "p": load.new_share,
        "cross": cross / links,
        "predicted_mb": predicted / 1e6,
        "counted_mb": found / 1e6,
        "difference": found / predicted - 1,
    }


# --- all runs ---------------------------------------------------------------------------------


def run(
    *,
    stores: Words = STORES,
    millions: Numbers = (1, 10),
    cycles: Annotated[int, "for each run, after a first one"] = 16,
    model: bool = False,
    plots: bool = False,
    work: Annotated[Path, "a folder on the disk to be measured"] = Path("uniqueness-work"),
    out: Annotated[Path, "a folder for the results"] = Path("docs/results"),
) -> None:
    if not plots:
        log = out / ("uniqueness-model.jsonl" if model else LOG)
        done = {(row["store"], row.get("millions")) for row in read_rows(log)}
        if model:
            names = ("drum", "drum-native", "veuniq-16", "veuniq-16-texts")
            calls = {(name, None): partial(against_model, name, work) for name in names}
        else:
            calls = {
                (name, float(number)): partial(measure, name, number * 1_000_000, cycles, work)
                for number in millions
                for name in stores
            }
        rows = (alone(call)[0] for case, call in calls.items() if case not in done)
        append_rows(log, rows, str)
    from .page import write  # noqa: PLC0415 (the plots need more packages)

    write(out)
