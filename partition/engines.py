"""Runs the engines that partition a graph or a hypergraph under balance constraints.

| engine | partitions | balance constraints |
|---|---|---|
| `metis` | graphs | two |
| `multilevel` (ours) | hypergraphs, graphs | two |
| `mt-kahypar`, if installed | hypergraphs, graphs | one |
| `zoltan`, if installed, on several machines | hypergraphs, graphs | one |

Our engine then refines Zoltan's partition under both constraints.
"""

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from partition import UserError, child, metis, models, multilevel, zoltan
from partition.arrays import Ids, Ints
from partition.child import EngineError, OneWeight
from partition.hypergraph import Hypergraph, connectivity_minus_one
from partition.models import Graph

ENGINES: Final = ("metis", "multilevel", "mt-kahypar", "zoltan")
RANKS: Final = 2  # default number of ranks for Zoltan

_METIS: Final = (sys.executable, "-c", "from partition.metis import serve; serve()")
_KAHYPAR: Final = (sys.executable, "-c", "from partition.kahypar import serve; serve()")
_TOTAL: Final = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A partition, and how an engine made it."""

    part: Ids  # of each vertex
    constraints: int = 2  # number of weights balanced; 1 may be their sum
    peak_bytes: int = 0  # memory of the engine, if it is a process of its own


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A previous partition to start from."""

    part: Ids  # of each vertex; -1 for a new vertex
    migration: float | None = None  # fraction of each weight that may move; None for all
    held: Ints | None = None  # vertices x 2: weights that move with it; None for all
    strayed: tuple[int, int] = (0, 0)  # amounts of both weights that have moved already


Progress = Callable[[str], None]


def partition(
    net: Graph | Hypergraph,
    parts: int,
    *,
    engine: str,
    tolerances: Sequence[float],
    seed: int,
    ranks: int = RANKS,
    start: Start | None = None,
    starts: Sequence[Ids] = (),
    progress: Progress | None = None,
) -> Partition:
    """Partition a graph or hypergraph at low cost, within the tolerances if the engine can.

    `tolerances` are the allowed imbalances of bytes and requests; math.inf means that a weight
    doesn't matter. The result may exceed them, so the caller must check it. If there are no
    more vertices than parts, each vertex gets a part of its own. Equal arguments give equal
    results.

    Only the multilevel engine can start from partitions, and only this engine uses `progress`.
    With `start`, it starts from this partition alone. With `starts`, it also makes partitions
    of its own, and the result is no worse than any of these. `ranks` is the number of ranks for
    Zoltan.

    Raises EngineError, and UserError for an engine that can't do what is asked.
    """
    if (start is not None or len(starts)) and engine != "multilevel":
        raise UserError(f"engine {engine}: can't start from a partition; multilevel can")
    vertices = len(net.weights)
    if parts == 1:
        return Partition(np.zeros(vertices, np.int32))
    if vertices <= parts and start is None and not len(starts):
        return Partition(np.arange(vertices, dtype=np.int32))
    if engine == "metis":
        if not isinstance(net, Graph):
            raise UserError("engine metis: cuts graphs only; a hypergraph model needs another")
        return _metis(net, parts, tolerances, seed)
    hypergraph = models.as_hypergraph(net) if isinstance(net, Graph) else net
    if engine == "mt-kahypar":
        return _kahypar(_one_weight(hypergraph, parts, tolerances, seed))
    peak_bytes = 0
    if engine == "zoltan":
        found = _zoltan(_one_weight(hypergraph, parts, tolerances, seed), ranks)
        if progress is not None:
            progress(f"zoltan: cost {connectivity_minus_one(hypergraph, found.part):,}")
        start, peak_bytes = Start(found.part), found.peak_bytes
    part = multilevel.partition(
        hypergraph,
        parts,
        tolerances=bounds(tolerances, parts),
        seed=seed,
        starts=starts,
        previous=None if start is None else start.part,
        max_migration=None if start is None else start.migration,
        held=None if start is None else start.held,
        strayed=(0, 0) if start is None else start.strayed,
        progress=progress,
    )
    return Partition(part, peak_bytes=peak_bytes)


def combined(
    hypergraph: Hypergraph,
    found: Sequence[Ids],
    parts: int,
    *,
    tolerances: Sequence[float],
    seed: int,
    progress: Progress | None = None,
) -> Ids:
    """Combine several partitions into one that is no worse than any of them, with our engine."""
    return multilevel.combined(
        hypergraph,
        found,
        parts,
        tolerances=bounds(tolerances, parts),
        seed=seed,
        progress=progress,
    )


def _metis(graph: Graph, parts: int, tolerances: Sequence[float], seed: int) -> Partition:
    """Partition with METIS. It overfills parts if vertices are heavy; our engine mends that."""
    columns = _finite(tolerances)
    task = metis.Task(
        xadj=graph.xadj,
        adj=graph.adj,
        costs=_scaled(graph.costs),
        weights=np.stack([_scaled(graph.weights[:, at]) for at in columns], axis=1),
        parts=parts,
        tolerances=tuple(min(tolerances[at], parts) for at in columns),
        seed=seed,
    )
    found = _ask(
        "METIS", _METIS, task, f"{len(graph.weights)} vertices, {len(graph.adj) // 2} edges"
    )
    if not fit(graph.weights, parts, tolerances):
        return found
    return replace(found, part=rebalanced(graph, found.part, parts, tolerances, seed))


def rebalanced(
    net: Graph | Hypergraph, part: Ids, parts: int, tolerances: Sequence[float], seed: int
) -> Ids:
    """Return a partition brought within the tolerances by few moves.

    Each vertex that is heavier than a part gets a part with no other such vertex.
    """
    return multilevel.rebalanced(
        models.as_hypergraph(net) if isinstance(net, Graph) else net,
        part,
        parts,
        tolerances=bounds(tolerances, parts),
        seed=seed,
    )


def fit(weights: Ints, parts: int, tolerances: Sequence[float]) -> bool:
    """Return whether each vertex alone weighs no more than a part may."""
    shares = weights.max(axis=0, initial=0) * parts / np.maximum(weights.sum(axis=0), 1)
    return bool((shares <= 1 + np.array(tolerances)).all())


def _kahypar(task: OneWeight) -> Partition:
    if importlib.util.find_spec("mtkahypar") is None:
        raise UserError("engine mt-kahypar: not installed; pip install mtkahypar")
    return _ask("Mt-KaHyPar", _KAHYPAR, task, _size(task))


def _zoltan(task: OneWeight, ranks: int) -> Partition:
    try:
        part, peak_bytes = zoltan.partition(task, ranks)
    except EngineError as error:
        raise EngineError(f"Zoltan: {error} ({_size(task)})") from None
    return Partition(part, constraints=1, peak_bytes=peak_bytes)


def _one_weight(
    hypergraph: Hypergraph, parts: int, tolerances: Sequence[float], seed: int
) -> OneWeight:
    """Return a task with one weight: the sum of the weights that matter, scaled to equal totals."""
    columns = _finite(tolerances)
    combined: Ints = np.sum([_scaled(hypergraph.weights[:, at]) for at in columns], axis=0)
    return OneWeight(
        xpins=hypergraph.xpins,
        pins=hypergraph.pins,
        costs=hypergraph.costs,
        weights=combined,
        parts=parts,
        tolerance=min(min(tolerances[at], parts) for at in columns),
        seed=seed,
    )


def bounds(tolerances: Sequence[float], parts: int) -> tuple[float, ...]:
    """Return the tolerances with each infinite one replaced by the number of parts."""
    return tuple(min(bound, parts) for bound in tolerances)


def _finite(tolerances: Sequence[float]) -> list[int]:
    """Return the indices of the weights that matter; requests if none does."""
    return [at for at, bound in enumerate(tolerances) if math.isfinite(bound)] or [1]


def _size(task: OneWeight) -> str:
    return f"{len(task.weights)} vertices, {len(task.costs)} nets"


def _ask(name: str, command: tuple[str, ...], task: object, size: str) -> Partition:
    try:
        answer = child.ask(command, task)
    except EngineError as error:
        raise EngineError(f"{name}: {error} ({size})") from None
    return Partition(*answer)


def _scaled(numbers: Ints) -> Ints:
    """Scale positive numbers in proportion so that their sum is about _TOTAL; each is at least 1.

    METIS divides by the sum of the weights, which may have only 32 bits. A share of 1 in 2^30
    is negligible.
    """
    factor = _TOTAL / max(int(numbers.sum()), 1)
    scaled: Ints = np.maximum(np.rint(numbers * factor), 1).astype(np.int64)
    return scaled
