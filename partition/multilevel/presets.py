"""What the engine's walk depends on, as data. docs/results/engine.md has the figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """The numbers of a walk."""

    coarsest_per_part: int = 30  # vertices of the coarsest level, for each part,
    coarsest_vertices: int = 400  # but no fewer than these,
    coarsest_pins: int = 1_000_000  # and fewer if they have more pins than this
    cluster_share: float = 0.3  # of a part, that a cluster may weigh
    shrink: float = 2.5  # vertices of a level over those of the next, at most
    stalled: float = 0.97  # a level with more than this share of the one above ends the coarsening
    widest_tie: int = 300  # pins of the largest net that ties in coarsening
    modesty: float = 0.4  # power of what a vertex's nets cost, by which ties to it count less
    firsts: int = 4  # first partitions on the coarsest level, at most,
    first_effort: int = 400_000  # and no more than have so many pins together, but one
    halving_vertices: int = 60  # of the coarsest level when a level is halved
    halvings: int = 8  # tries at each halving
    sweeps: int = 20  # over the vertices, while the price of imbalance rises
    cheap: float = 0.1  # the lowest price that a round starts from,
    dear: float = 1.0  # the highest that it starts from,
    prohibitive: float = 100.0  # and the one that it ends with
    aim: float = 0.98  # of the caps, above which load has a price
    rounds: int = 30  # of bargaining on a level, at most,
    effort: int = 3_000_000  # and no more than this many pins in all, but one
    passes: int = 3  # of the last refinements
    patience: int = 300  # moves that a search makes without a new best
    worth: float = 5e-4  # of the cost, that a pass must gain for another to follow
    widest_touch: int = 400  # pins of the largest net along which a search spreads
    cycles: int = 3  # after the first descent
    worth_cycle: float = 2e-3  # of the cost, that a cycle must gain for another to follow
    mates: int = 3  # of the best of several partitions, at most


DEFAULT = Preset()
