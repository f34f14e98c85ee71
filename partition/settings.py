"""How to partition: what the command line, or a caller, decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from partition import engines
from partition.models import Objective
from partition.network import Costs
from partition.partvector import PartVector
from partition.politeness import RANK_RATE, Politeness

Tolerances = tuple[float, float]  # the imbalance allowed: bytes, requests
DEFAULT_TOLERANCES: Final[Tolerances] = (0.05, 0.05)


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """How to partition. The defaults are those of the command line."""

    tolerances: Tolerances = DEFAULT_TOLERANCES
    seed: int = 0
    tries: int = 1  # seeds, from the first on, of which the best counts
    engine: str | None = None  # None: METIS for graphs, multilevel for hypergraphs
    ranks: int = engines.RANKS  # that Zoltan runs on
    objective: Objective | None = None  # of the hybrid model; None: messages and volume, see assign
    together: Mapping[str, str] = field(default_factory=dict)  # site -> address to keep in one part
    whole: frozenset[str] = frozenset()  # sites that the hybrid model doesn't split, however heavy
    politeness: Politeness | None = None  # of the sessions; None: of a bare graph
    rank_rate: float = RANK_RATE  # pages a second; sites that allow more may be split by default
    previous: PartVector | None = None  # to start from
    migration: float = 0.1  # the fraction of bytes, and of requests, that may then move
    network: Costs | None = None  # ranks x ranks; parts are placed accordingly
    suffixes: Mapping[str, int] | None = None  # of hosts -> part, for hierarchical
    progress: Callable[[str], None] = _silent
