"""Time, bytes and memory of a cycle of URL uniqueness: DRUM, VEUNIQ, and stores beside them.

    python benchmarks uniqueness [--stores S,..] [--millions N,..] [--cycles N] --work DIR --out DIR
    python benchmarks uniqueness --model --work DIR --out DIR
    python benchmarks uniqueness --plots --out DIR

A cycle has 1 million URLs of a made-up crawl (`stream`): 100,000 pages and 900,000 links. A store
is drum (merged in each cycle), drum-native (merged when a bucket is full, about every 8th cycle),
veuniq-N (keys in N repositories), memory, runs, rocksdb or lmdb. `-texts` behind veuniq-N stands
for texts instead of keys. With `-any` the pages of a cycle may be of any site; else they are of the
sites of the repository at hand. Stores are filled with --millions of URLs (`stores`). Each run is a
process of its own, and a line in OUT/uniqueness.jsonl; no run is repeated. --model counts bytes
beside the papers' equations instead, in small cycles. --plots makes the tables and the plot anew.
rocksdb and lmdb need `pip install rocksdict lmdb`.
"""

import ctypes
import gc
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from harness import (
    Numbers,
    Row,
    Timer,
    alone,
    append_rows,
    one_of,
    provenance,
    read_rows,
    resident_bytes,
)

from crawler.stores.drum import Drum

from . import model as equations
from .stores import CYCLE, NATIVE, RECORD, STORES, Late, Subject, drum, veuniq
from .stream import LINKS_A_PAGE, Stream

SITES = 200_000
PAGES = CYCLE // (1 + LINKS_A_PAGE)
LEAST_CYCLES = {"drum-native": NATIVE, "rocksdb": 8, "runs": 12}  # that hold a whole period
LOG = "uniqueness.jsonl"


def measure(name: str, known: int, cycles: int, work: Path) -> Row:
    """Return the means of some cycles, after a first one that isn't measured."""
    shutil.rmtree(work / name, ignore_errors=True)
    rehearse(name, work / f"{name}-small")
    stream = Stream(known, SITES)
    empty = held_bytes()
    subject = STORES[name](work / name)
    subject.fill(stream, cycles + 1)
    one_cycle(subject, stream)
    read, written = transferred()
    cpu_s = -time.process_time()
    rows = [one_cycle(subject, stream) for _ in range(cycles)]
    cpu_s += time.process_time() - sum(row["input_s"] for row in rows)
    end = transferred()
    held = held_bytes() - empty
    subject.close()
    shutil.rmtree(work / name, ignore_errors=True)
    return {
        "store": name,
        "millions": known / 1e6,
        "cycles": cycles,
        "wall_s": sum(row["wall_s"] for row in rows) / cycles,
        "cpu_s": cpu_s / cycles,
        "longest_step_s": max(row["longest_step_s"] for row in rows),
        "read_mb": (end[0] - read) / cycles / 1e6,
        "written_mb": (end[1] - written) / cycles / 1e6,
        "held_mib": held / 2**20,
        "added_mib": max(row["added"] for row in rows) / 2**20,
        "cross": sum(row["cross"] for row in rows) / cycles,
        "new": sum(row["new"] for row in rows) / cycles / CYCLE,
        **provenance(),
    }


def rehearse(name: str, path: Path) -> None:
    """Let a small store of this kind do a cycle, so that all its code is loaded and compiled."""
    shutil.rmtree(path, ignore_errors=True)
    subject, stream = STORES[name](path), Stream(20_000, 2_000)
    subject.fill(stream, 1)
    for _ in range(2):
        subject.prepare(*stream.cycle(100, subject.pages(stream)))
        list(subject.check(0))
    subject.close()
    shutil.rmtree(path, ignore_errors=True)  # `runs` has removed its own


def one_cycle(subject: Subject, stream: Stream) -> Row:
    """Let a store do one cycle. `cross`: the share of URLs of other repositories."""
    began = time.thread_time()
    entries, hashes = stream.cycle(PAGES, subject.pages(stream))
    cross = subject.share_elsewhere(hashes)
    subject.prepare(entries, hashes)
    del entries, hashes
    before = held_bytes()
    input_s = time.thread_time() - began
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    new, longest_s, done = 0, 0.0, False
    with Timer() as timer:
        steps = subject.check(0)
        while not done:
            with Timer() as step:
                given = next(steps, None)
            longest_s = max(longest_s, step.wall_s)
            done = given is None
            new += given or 0
    return {
        "wall_s": timer.wall_s,
        "input_s": input_s,
        "longest_step_s": longest_s,
        "added": peak_bytes() - before,
        "cross": cross,
        "new": new,
    }


def held_bytes() -> int:
    """Return the resident set, without memory that is free but not given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


def transferred() -> tuple[int, int]:
    """Return how many bytes this process has read and written so far, in calls to the system."""
    lines = Path("/proc/self/io").read_text().splitlines()
    read, written = (int(line.split()[1]) for line in lines[:2])
    return read, written


def peak_bytes() -> int:
    """Return the largest resident set since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


# --- the model --------------------------------------------------------------------------------


def against_model(name: str, work: Path, cycle: int = 50_000) -> Row:
    """Count the bytes of five whole rounds of 16 repositories, beside the equations.

    `cycle`: the number of URLs in a cycle.
    """
    rounds, repositories = 5, 16
    path = work / name
    shutil.rmtree(path, ignore_errors=True)
    stream = Stream(8 * cycle, sites=20_000)
    subject = small(name, path, cycle)
    pages = cycle // (1 + LINKS_A_PAGE)
    subject.fill(stream, repositories, pages)
    store = subject.store
    links = texts = cross = new = 0
    known = int(stream.known.sum())
    for _ in range(repositories * rounds):
        entries, hashes = stream.cycle(pages, subject.pages(stream))
        cross += round(subject.share_elsewhere(hashes) * len(hashes))
        links += len(entries.keys)
        texts += len(entries.data)
        subject.prepare(entries, hashes)
        new += sum(subject.check(0))
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
        predicted = equations.veuniq_overhead(merged, memory, repositories, 0) * links * record
        predicted += 2 * cross * in_tmp
        found = counted["r"] + counted["t"]
    return {
        "store": name,
        "cycles": repositories * rounds,
        "b": texts / links,
        "p": load.new_share,
        "cross": cross / links,
        "predicted_mb": predicted / 1e6,
        "counted_mb": found / 1e6,
        "difference": found / predicted - 1,
    }


def small(name: str, path: Path, cycle: int) -> Late:
    """Return DRUM or VEUNIQ for small cycles."""
    kind, _, suffix = name.partition("-")
    if kind == "drum":
        make = partial(drum, cycle=cycle, native=bool(suffix))
        return Late(path, make, prefers=False)
    number, _, suffix = suffix.partition("-")
    return veuniq(int(number), suffix)(path)


# --- all runs ---------------------------------------------------------------------------------


def run(
    *,
    stores: Annotated[Sequence[str], one_of(STORES)] = tuple(STORES),
    millions: Numbers = (1, 10, 25, 50, 100),
    cycles: Annotated[int, "for each run, after a first one; some stores have more"] = 4,
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
                (name, float(number)): partial(
                    measure,
                    name,
                    number * 1_000_000,
                    max(cycles, LEAST_CYCLES.get(name, 0)),
                    work,
                )
                for number in millions
                for name in stores
            }
        rows = (alone(call)[0] for case, call in calls.items() if case not in done)
        append_rows(log, rows, str)
    from .page import write  # noqa: PLC0415 (the plots need more packages)

    write(out)
