"""METIS with two weights: balance, defined results at the edges, and a child that may die."""

import contextlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

from partition import engines, metis
from partition.engines import EngineError
from partition.evaluate import imbalance
from partition.graph import Graph
from partition.metis import Task

LOOSE = (0.05, 0.05)


def graph_of(edges: dict[tuple[int, int], int], weights: list[tuple[int, int]]) -> Graph:
    ends = sorted(
        [(*edge, cost) for edge, cost in edges.items()]
        + [(b, a, cost) for (a, b), cost in edges.items()]
    )
    rows = np.array([end[0] for end in ends], np.int64)
    return Graph(
        xadj=np.searchsorted(rows, np.arange(len(weights) + 1)),
        adj=np.array([end[1] for end in ends], np.int32),
        costs=np.array([end[2] for end in ends], np.int64),
        weights=np.array(weights, np.int64).reshape(-1, 2),
    )


def cliques(number: int, size: int) -> Graph:
    """Cliques of vertices in a ring, neighbours joined by one cheap edge."""
    edges = {}
    for clique in range(number):
        first = clique * size
        edges |= {(first + i, first + j): 10 for i in range(size) for j in range(i + 1, size)}
        edges[first, (first + size) % (number * size)] = 1
    return graph_of(edges, [(1, 1)] * (number * size))


def random_graph(vertices: int, edges: int) -> Graph:
    random = np.random.default_rng(3)
    ends = np.sort(random.integers(0, vertices, (edges, 2)), axis=1)
    return graph_of(
        {(int(a), int(b)): 1 for a, b in ends if a != b},
        random.integers(1, 100, (vertices, 2)).tolist(),
    )


def loads(graph: Graph, part: np.ndarray, parts: int) -> np.ndarray:
    columns = [np.bincount(part, weight, parts) for weight in graph.weights.T]
    return np.stack(columns, axis=1).astype(np.int64)


def test_cuts_where_it_is_cheap() -> None:
    found = engines.metis(cliques(4, 6), 4, tolerances=LOOSE, seed=0)
    assert found.constraints == 2
    assert found.peak_bytes > 0
    by_clique = found.part.reshape(4, 6)
    assert (by_clique == by_clique[:, :1]).all()
    assert len(set(by_clique[:, 0])) == 4


def test_both_weights_are_balanced() -> None:
    """The weights run against each other: by either alone, or by their sum, a half is 40:60."""
    graph = random_graph(400, 1600)
    graph.weights[:, 0] = np.where(np.arange(400) < 200, 60, 40)
    graph.weights[:, 1] = 100 - graph.weights[:, 0]
    found = engines.metis(graph, 4, tolerances=LOOSE, seed=0)
    assert max(imbalance(loads(graph, found.part, 4))) <= 0.05


def test_equal_seeds_give_equal_parts() -> None:
    graph = random_graph(200, 600)
    one, same, other = (
        engines.metis(graph, 8, tolerances=LOOSE, seed=seed).part.tolist() for seed in (1, 1, 2)
    )
    assert one == same != other


def test_weights_may_be_zero_or_huge() -> None:
    graph = random_graph(300, 900)
    graph.weights[:100, 0] = 0
    graph.weights[100:, 0] *= 1 << 40
    graph.costs[:] = 1 << 40
    found = engines.metis(graph, 4, tolerances=LOOSE, seed=0)
    assert max(imbalance(loads(graph, found.part, 4))) <= 0.05
    graph.weights[:, 0] = 0
    assert len(engines.metis(graph, 4, tolerances=LOOSE, seed=0).part) == 300


def test_no_edges() -> None:
    graph = graph_of({}, [(1, 1)] * 40)
    found = engines.metis(graph, 4, tolerances=LOOSE, seed=0)
    assert np.bincount(found.part).tolist() == [10] * 4


@pytest.mark.parametrize(
    ("vertices", "parts", "expected"),
    [(0, 4, []), (0, 1, []), (3, 1, [0, 0, 0]), (3, 5, [0, 1, 2]), (3, 3, [0, 1, 2])],
)
def test_small_cases_need_no_engine(vertices: int, parts: int, expected: list[int]) -> None:
    found = engines.metis(graph_of({}, [(1, 1)] * vertices), parts, tolerances=LOOSE, seed=0)
    assert found.part.tolist() == expected
    assert found.part.dtype == np.int32


def test_without_metis_for_two_weights_their_sum_is_balanced() -> None:
    graph = random_graph(400, 1600)
    task = Task(*graph, parts=4, tolerances=LOOSE, seed=1)
    part = metis.partition_by_sum(task)
    both = np.bincount(part, graph.weights.sum(axis=1), 4).astype(np.int64)
    assert imbalance(both[:, None])[0] <= 0.051


@pytest.mark.parametrize(
    ("child", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", r"METIS: ended by signal 11 \(300 vertices, "),
        ("import sys; sys.exit('out of luck')", "METIS: ended with code 1: out of luck"),
        ("pass", "METIS: ended with code 0"),
        ("import os; os.close(0); os.write(1, b'nonsense')", "METIS: ended with code 0"),
    ],
)
def test_a_child_that_dies_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, child: str, message: str
) -> None:
    monkeypatch.setattr(engines, "_METIS", (sys.executable, "-c", child))
    with pytest.raises(EngineError, match=message):
        engines.metis(random_graph(300, 900), 4, tolerances=LOOSE, seed=0)


def test_what_metis_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metis, "CUTS", 0)
    library = metis.find_library()
    assert library
    with pytest.raises(RuntimeError, match="METIS returned -2"):
        metis.partition(Task(*cliques(4, 6), parts=4, tolerances=LOOSE, seed=0), library)


def test_the_child_ends_when_its_parent_does() -> None:
    """A dead parent closes the child's standard input; here METIS has work for minutes."""
    graph = random_graph(5_000, 30_000)
    slow = "from partition import metis; metis.CUTS = 100_000; metis.serve()"
    with subprocess.Popen(
        [sys.executable, "-c", slow], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin
        pickle.dump(Task(*graph, parts=64, tolerances=LOOSE, seed=0), child.stdin)
        child.stdin.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.7)
        assert child.returncode is None
        child.stdin.close()
        assert child.wait(20) == 1
