"""Placing parts on ranks."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition import UserError, network


def square(top: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(0, top), min_size=5, max_size=5), min_size=5, max_size=5)


@given(square(9), square(9), st.permutations(range(5)))
def test_the_gain_of_a_swap_is_what_it_saves(
    rows: list[list[int]], price: list[list[int]], rank_of: list[int]
) -> None:
    traffic, costs = np.array(rows), np.array(price, float)
    np.fill_diagonal(traffic, 0)
    np.fill_diagonal(costs, 0)
    now = np.array(rank_of, np.int32)
    before = network.network_cost(traffic, costs, now)
    for p in range(5):
        gains = network._gains(traffic.astype(float), costs, now, p)
        for q in range(5):
            swapped = now.copy()
            swapped[[p, q]] = swapped[[q, p]]
            after = network.network_cost(traffic, costs, swapped)
            assert gains[q] == pytest.approx(before - after)


@settings(max_examples=30)
@given(square(9), square(9))
def test_a_placement_is_one_to_one_and_no_swap_betters_it(
    rows: list[list[int]], price: list[list[int]]
) -> None:
    traffic, costs = np.array(rows), np.array(price, float)
    np.fill_diagonal(traffic, 0)
    np.fill_diagonal(costs, 0)
    rank_of = network.place(traffic, costs, seed=1)
    assert sorted(rank_of.tolist()) == [0, 1, 2, 3, 4]
    assert rank_of.tolist() == network.place(traffic, costs, seed=1).tolist()
    cost = network.network_cost(traffic, costs, rank_of)
    every = [
        network.network_cost(traffic, costs, np.array(order)) for order in permutations(range(5))
    ]
    assert min(every) <= cost <= every[0]  # the first is the identity


def test_pairs_that_talk_are_placed_near() -> None:
    """Parts 0 and 3 talk, so do 1 and 2; ranks 0, 1 are in one place and 2, 3 in another."""
    traffic = np.zeros((4, 4), np.int64)
    traffic[0, 3] = traffic[1, 2] = 7
    costs = np.array([[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0]], float)
    rank_of = network.place(traffic, costs, seed=0)
    assert network.network_cost(traffic, costs, rank_of) == 14


def test_equal_links_leave_the_parts_where_they_are() -> None:
    costs = 1 - np.eye(4)
    traffic = np.arange(16).reshape(4, 4)
    assert network.place(traffic, costs, seed=0).tolist() == [0, 1, 2, 3]


def test_costs_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    path.write_text("costs = [[5, 1], [0.5, 0]]")
    assert network.read_costs(path).tolist() == [[0, 1], [0.5, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("costs = [[0, 1], [1]]", "costs: row 1; must be TOML with "),
        ("costs = [[0, -1], [1, 0]]", "costs: row 0"),
        ("costs = [[0, true], [1, 0]]", "costs: row 0"),
        ("costs = [[0, inf], [1, 0]]", "costs: row 0"),
        ("costs = [1, 2]", "costs: row 0"),
        ("costs = []", "no costs"),
        ("cost = 1", "no costs"),
        ("costs = ", "must be TOML with"),
    ],
)
def test_a_file_that_has_no_costs(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "costs.toml"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        network.read_costs(path)
