"""Settings of a partition, chosen by the command line or by a caller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from partition import engines
from partition.arrays import Ids
from partition.models import Objective
from partition.network import Costs
from partition.partvector import PartVector
from partition.politeness import RANK_RATE, Politeness

Tolerances = tuple[float, float]  # the imbalance allowed: bytes, requests
DEFAULT_TOLERANCES: Final[Tolerances] = (0.05, 0.05)
MIGRATION: Final = 0.1
PINS_PER_RANK: Final = 50_000_000


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """Settings of a partition. The defaults are those of the command line."""

    tolerances: Tolerances = DEFAULT_TOLERANCES
    seed: int = 0
    tries: int = 1  # number of seeds, from `seed` on; the best result is kept
    engine: str | None = None  # None: METIS for graphs, multilevel for hypergraphs
    ranks: int = engines.RANKS  # number of ranks that Zoltan runs on
    objective: Objective | None = None  # of the hybrid model; None: messages and volume
    together: Mapping[str, str] = field(default_factory=dict)  # site -> address to keep in one part
    whole: frozenset[str] = frozenset()  # sites that the hybrid model doesn't split, however heavy
    politeness: Politeness | None = None  # of the sessions; None for a bare graph
    seeds: Ids = field(default_factory=lambda: np.zeros(0, np.int32))  # pages of the last session
    rank_rate: float = RANK_RATE  # pages a second; sites that allow more may be split by default
    previous: PartVector | None = None  # the part vector to start from
    migration: float = MIGRATION  # with `previous`: the share of bytes and requests that may move
    network: Costs | None = None  # (ranks, ranks): costs of messages, for placing the parts
    suffixes: Mapping[str, int] | None = None  # for hierarchical: suffix of hosts -> part
    pins_per_rank: int = PINS_PER_RANK  # more pins are coarsened on all ranks before the search
    progress: Callable[[str], None] = _silent
