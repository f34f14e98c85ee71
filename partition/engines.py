"""Engines: they cut a graph or a hypergraph into balanced parts.

`metis` cuts graphs, `multilevel` (ours) hypergraphs, both under two balance constraints. Where they
are installed, `mt-kahypar` cuts hypergraphs under one, and `zoltan` does so on several machines;
ours then refines under both what Zoltan found. A graph can go to any of them.
"""

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from partition import UserError, child, metis, models, multilevel, zoltan
from partition.child import EngineError, OneWeight
from partition.hypergraph import Hypergraph, connectivity_minus_one
from partition.models import Graph
from partition.webgraph import Ids, Ints

ENGINES: Final = ("metis", "multilevel", "mt-kahypar", "zoltan")
RANKS: Final = 2  # that Zoltan runs on, unless told otherwise

_METIS: Final = (sys.executable, "-c", "from partition.metis import serve; serve()")
_KAHYPAR: Final = (sys.executable, "-c", "from partition.kahypar import serve; serve()")
_TOTAL: Final = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """What an engine found, and how."""

    part: Ids  # of each vertex
    constraints: int = 2  # weights that were balanced; 1 where that was one, or only their sum
    peak_bytes: int = 0  # of the engine's own memory, where it is a process of its own


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """An earlier partition to start from."""

    part: Ids  # of each vertex; -1 where there was none
    migration: float | None = None  # the fraction of each weight that may move; None: all
    held: Ints | None = None  # vertices x 2: what moves with each vertex; None: all of its weight
    strayed: tuple[int, int] = (0, 0)  # of both weights, what has moved already


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
    """A partition that costs little, with each weight within its tolerance if the engine manages.

    `tolerances` are the imbalances allowed, for bytes and requests; math.inf where a weight doesn't
    matter. The result is only the engine's best, to be judged by whoever calls. Equal arguments
    give equal parts. Where there are no more vertices than parts, each gets a part of its own.
    `progress` concerns the multilevel engine, which alone can start from a partition: from `start`
    only, or beside its own from `starts`, and then the result is no worse than any of them. `ranks`
    are those that Zoltan runs on.
    Raises EngineError; UserError for an engine that can't do what is asked.
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
            progress(f"zoltan: connectivity - 1 {connectivity_minus_one(hypergraph, found.part)}")
        start, peak_bytes = Start(found.part), found.peak_bytes
    part = multilevel.partition(
        hypergraph,
        parts,
        tolerances=_bounds(tolerances, parts),
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
    """The partition that our engine makes of several: it is no worse than any of them."""
    return multilevel.combined(
        hypergraph,
        found,
        parts,
        tolerances=_bounds(tolerances, parts),
        seed=seed,
        progress=progress,
    )


def _metis(graph: Graph, parts: int, tolerances: Sequence[float], seed: int) -> Partition:
    """METIS overshoots where vertices are heavy; our engine then brings that within the bounds."""
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
    """A partition brought within the tolerances by few moves, beside vertices heavier than a part.

    Each of these gets a part that no other one is in.
    """
    return multilevel.rebalanced(
        models.as_hypergraph(net) if isinstance(net, Graph) else net,
        part,
        parts,
        tolerances=_bounds(tolerances, parts),
        seed=seed,
    )


def fit(weights: Ints, parts: int, tolerances: Sequence[float]) -> bool:
    """Whether each vertex alone weighs no more than a part may."""
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
    """The weights that matter made one, in which they count alike in total."""
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


def _bounds(tolerances: Sequence[float], parts: int) -> tuple[float, ...]:
    """The same, finite: one part could have all."""
    return tuple(min(bound, parts) for bound in tolerances)


def _finite(tolerances: Sequence[float]) -> list[int]:
    """The weights that matter; where neither does, requests."""
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
    """In the same proportions, summing to about _TOTAL, none 0.

    METIS divides by sums of weights, and may hold them in 32 bits; 1 in 2^30 is as good as 0.
    """
    factor = _TOTAL / max(int(numbers.sum()), 1)
    scaled: Ints = np.maximum(np.rint(numbers * factor), 1).astype(np.int64)
    return scaled
