"""Unequal links between ranks: places parts so that expensive pairs of ranks exchange least."""

import math
import tomllib
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from partition import UserError
from partition.arrays import Ids, Ints

Costs = npt.NDArray[np.float64]

_STARTS: Final = 8


def read_costs(path: Path) -> Costs:
    """Read the relative cost of a message from each rank to each other from TOML.

    The key `costs` is a square of numbers from 0 on, as a list of rows. The diagonal doesn't
    matter. Raises UserError for anything else.
    """
    allowed = 'must be TOML with "costs", a square of numbers from 0 on, one row for each rank'
    try:
        rows = tomllib.loads(path.read_text()).get("costs")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {allowed}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}; {allowed}") from None
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path}: no costs; {allowed}")
    for number, row in enumerate(rows):
        fits = isinstance(row, list) and len(row) == len(rows)
        if not (fits and all(_is_cost(cost) for cost in row)):
            raise UserError(f"{path}: costs: row {number}; {allowed}")
    costs = np.array(rows, np.float64)
    np.fill_diagonal(costs, 0)
    return costs


def _is_cost(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf  # type: ignore[operator]


def network_cost(traffic: Ints, costs: Costs, rank_of: Ids) -> float:
    """Return the sum over pairs of parts: messages times the cost between their ranks."""
    return float((traffic * costs[np.ix_(rank_of, rank_of)]).sum())


def place(traffic: Ints, costs: Costs, seed: int) -> Ids:
    """Return the rank of each part, one to one: swap two ranks while a swap lowers the cost.

    The result is a local optimum of the quadratic assignment problem, the best from several
    random starts. One start puts part i on rank i; this is also the result if all links cost
    the same.
    """
    parts = len(traffic)
    random = np.random.default_rng(seed)
    best = np.arange(parts, dtype=np.int32)
    best_cost = network_cost(traffic, costs, best)
    for number in range(_STARTS):
        start = random.permutation(parts) if number else np.arange(parts)
        rank_of = _swapped(traffic, costs, start.astype(np.int32))
        cost = network_cost(traffic, costs, rank_of)
        if cost < best_cost * (1 - 1e-12):
            best, best_cost = rank_of, cost
    return best


def _swapped(traffic: Ints, costs: Costs, rank_of: Ids) -> Ids:
    parts = len(traffic)
    t = traffic.astype(np.float64)
    np.fill_diagonal(t, 0)
    improved = True
    while improved:
        improved = False
        for p in range(parts - 1):
            gains = _gains(t, costs, rank_of, p)
            q = int(gains.argmax())
            if gains[q] > 1e-9 * (1 + t.sum()):
                rank_of[[p, q]] = rank_of[[q, p]]
                improved = True
    return rank_of


def _gains(t: Costs, costs: Costs, rank_of: Ids, p: int) -> Costs:
    """Return how much the cost falls if p swaps ranks with each part."""
    c = costs[np.ix_(rank_of, rank_of)]  # costs between the present ranks of the parts
    # A swap of p and q changes only what the two exchange with others and with each other.
    there_p = t[p] @ c.T + t[:, p] @ c  # cost of p's traffic from the rank of each q
    here_q = t @ c[p] + t.T @ c[:, p]  # cost of each q's traffic from the rank of p
    now = (t * c).sum(axis=1) + (t * c).sum(axis=0)
    # Both terms still assume that the other one hasn't moved: the traffic between p and q would
    # then be within one place, at no cost; after the swap it goes the other way round.
    between = t[p] * c[p] + t[:, p] * c[:, p]
    after = t[p] * c[:, p] + t[:, p] * c[p]
    saved = now[p] + now - between - (there_p + here_q + after)
    saved[p] = 0
    result: Costs = saved
    return result
