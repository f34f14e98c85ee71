"""The numbers that steer the multilevel engine. docs/results/engine.md has the measurements."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """The numbers that steer one run of the engine.

    A pin bound on repeated work means: repeat while all repetitions together visit at most this
    many pins, but do it at least once.
    """

    # Coarsening
    coarsest_per_part: int = 30  # wanted vertices of the coarsest level, for each part
    coarsest_vertices: int = 400  # the least that the coarsest level aims at
    coarsest_pins: int = 1_000_000  # a level with more pins is coarsened further
    cluster_share: float = 0.3  # the most that a cluster may weigh, as a share of a part
    max_shrink: float = 2.5  # the most by which one level may have fewer vertices than the last
    stall_ratio: float = 0.97  # coarsening ends if a level keeps more than this share of vertices
    max_tie_pins: int = 300  # larger nets tie no vertices together in coarsening
    hub_exponent: float = 0.4  # a tie to a vertex is divided by (cost of its nets) ** hub_exponent
    # Initial partitions
    initial_tries: int = 4  # the most partitions of the coarsest level
    initial_pins: int = 400_000  # pin bound on these tries
    bisection_vertices: int = 60  # wanted vertices of the coarsest level of a bisection
    bisection_tries: int = 8  # tries at each bisection
    # Refinement
    round_passes: int = 20  # passes over the vertices in a round, as the price of imbalance rises
    min_start_price: float = 0.1  # the lowest price that a round starts from
    max_start_price: float = 1.0  # the highest price that a round starts from
    end_price: float = 100.0  # the price that a round ends with
    aim: float = 0.98  # a load above this share of its cap has a price
    rounds: int = 30  # the most rounds on a level
    round_pins: int = 3_000_000  # pin bound on these rounds
    passes: int = 3  # the most passes of the last refinement
    patience: int = 300  # a local search ends after this number of moves without a new best
    min_pass_gain: float = 5e-4  # after a pass that gains a smaller share of the cost, none follows
    max_search_pins: int = 400  # a local search doesn't spread along larger nets
    # Cycles
    cycles: int = 3  # the most cycles after the first uncoarsening
    min_cycle_gain: float = 2e-3  # after a cycle that gains a smaller share, none follows
    mates: int = 3  # how many partitions the best one is combined with, at most


DEFAULT = Preset()
