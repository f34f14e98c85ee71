"""METIS with two weights: balance, defined results at the edges, and a child that may die."""

import contextlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import PATIENCE_S

from partition import UserError, engines, metis, models, zoltan
from partition.child import EngineError
from partition.engines import Partition, Start
from partition.evaluate import imbalance
from partition.hypergraph import Hypergraph, connectivity_minus_one
from partition.metis import Task
from partition.models import Graph

LOOSE = (0.05, 0.05)


def require(engine: str) -> None:
    """Skip the test where an optional engine isn't installed."""
    if engine == "mt-kahypar":
        pytest.importorskip("mtkahypar")
    elif engine == "zoltan":
        try:
            zoltan._driver(zoltan._compiler())
        except EngineError as error:
            pytest.skip(f"Zoltan: {error}")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zoltan's driver is compiled once for all tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def cut(graph: Graph, parts: int, **options: object) -> Partition:
    return engines.partition(graph, parts, **({"engine": "metis"} | options))


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
    found = cut(cliques(4, 6), 4, tolerances=LOOSE, seed=0)
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
    found = cut(graph, 4, tolerances=LOOSE, seed=0)
    assert max(imbalance(loads(graph, found.part, 4))) <= 0.05


def test_equal_seeds_give_equal_parts_and_others_don_t() -> None:
    graph = random_graph(200, 600)
    one, same, *others = (
        cut(graph, 8, tolerances=LOOSE, seed=seed).part.tolist() for seed in (1, 1, 0, 2)
    )
    assert one == same
    assert one not in others
    assert others[0] != others[1]


@pytest.mark.parametrize("seed", range(3))
def test_what_metis_overfills_is_brought_within_the_tolerances(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 parts of 3 heavy vertices and 40 light ones are even; the answer has all heavy ones in
    parts 0 to 2, and the first of a chain in part 0."""
    heavy, light = 24, 320
    chain = {(v, v + 1): 1 for v in range(heavy + light - 1)}
    graph = graph_of(chain, [(100, 90)] * heavy + [(1, 1)] * light)
    overfull = np.append(np.arange(heavy) // 8, np.arange(light) // 40).astype(np.int32)
    monkeypatch.setattr(engines, "_ask", lambda *_: Partition(overfull))
    found = cut(graph, 8, tolerances=LOOSE, seed=seed)
    assert max(imbalance(loads(graph, found.part, 8))) <= 0.05


def test_what_can_t_be_balanced_is_left_as_metis_cut_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of({(v, v + 1): 1 for v in range(9)}, [(100, 1)] + [(1, 1)] * 9)
    answer = np.append(0, np.ones(9)).astype(np.int32)
    monkeypatch.setattr(engines, "_ask", lambda *_: Partition(answer))
    assert cut(graph, 3, tolerances=LOOSE, seed=0).part.tolist() == answer.tolist()


def test_weights_may_be_zero_or_huge() -> None:
    graph = random_graph(300, 900)
    graph.weights[:100, 0] = 0
    graph.weights[100:, 0] *= 1 << 40
    graph.costs[:] = 1 << 40
    found = cut(graph, 4, tolerances=LOOSE, seed=0)
    assert max(imbalance(loads(graph, found.part, 4))) <= 0.05
    graph.weights[:, 0] = 0
    assert len(cut(graph, 4, tolerances=LOOSE, seed=0).part) == 300


def test_no_edges() -> None:
    graph = graph_of({}, [(1, 1)] * 40)
    found = cut(graph, 4, tolerances=LOOSE, seed=0)
    assert np.bincount(found.part).tolist() == [10] * 4


@pytest.mark.parametrize(
    ("vertices", "parts", "expected"),
    [(0, 4, []), (0, 1, []), (3, 1, [0, 0, 0]), (3, 5, [0, 1, 2]), (3, 3, [0, 1, 2])],
)
def test_small_cases_need_no_engine(vertices: int, parts: int, expected: list[int]) -> None:
    found = cut(graph_of({}, [(1, 1)] * vertices), parts, tolerances=LOOSE, seed=0)
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
        cut(random_graph(300, 900), 4, tolerances=LOOSE, seed=0)


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
        assert child.wait(PATIENCE_S) == 1


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_every_engine_cuts_a_graph(engine: str) -> None:
    require(engine)
    found = cut(cliques(4, 6), 4, engine=engine, tolerances=LOOSE, seed=0)
    assert np.bincount(found.part).tolist() == [6] * 4
    assert (found.part.reshape(4, 6) == found.part[::6, None]).all()
    assert found.constraints == (1 if engine == "mt-kahypar" else 2)


@pytest.mark.parametrize("engine", ["multilevel", "mt-kahypar", "zoltan"])
def test_hypergraph_engines_cut_nets_not_pins(engine: str) -> None:
    """Twelve nets of 8 pins in two camps, and one net of all: 1 is the least."""
    require(engine)
    random = np.random.default_rng(0)
    nets = [random.choice(20, 8, replace=False) + 20 * (n % 2) for n in range(24)]
    nets.append(np.arange(40))
    net = Hypergraph(
        xpins=np.cumsum([0, *map(len, nets)]),
        pins=np.concatenate(nets).astype(np.int32),
        costs=np.ones(len(nets), np.int64),
        weights=np.ones((40, 2), np.int64),
    )
    found = engines.partition(net, 2, engine=engine, tolerances=LOOSE, seed=0)
    assert connectivity_minus_one(net, found.part) == 1


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_a_weight_that_doesnt_matter(engine: str) -> None:
    """The first 20 vertices are heavy in bytes, so bytes could never be even with cheap cuts."""
    require(engine)
    graph = cliques(2, 20)
    graph.weights[:20, 0] = 1000
    found = cut(graph, 2, engine=engine, tolerances=(float("inf"), 0.0), seed=0)
    assert np.bincount(found.part).tolist() == [20, 20]
    assert len(set(found.part[:20])) == 1


def test_mt_kahypar_repeats_by_seed_and_takes_any_weight() -> None:
    require("mt-kahypar")
    graph = random_graph(200, 600)
    graph.weights[:50, 0] = 0
    graph.weights[50:, 0] *= 1 << 40
    graph.costs[:] = 1 << 40
    one, same = (
        cut(graph, 8, engine="mt-kahypar", tolerances=LOOSE, seed=1).part for _ in range(2)
    )
    assert one.tolist() == same.tolist()
    nothing = cut(graph_of({}, [(1, 1)] * 9), 2, engine="mt-kahypar", tolerances=LOOSE, seed=1)
    assert sorted(np.bincount(nothing.part).tolist()) == [4, 5]


def test_what_an_engine_cant_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = cliques(2, 4)
    start = Start(np.zeros(8, np.int32), 0.1)
    with pytest.raises(UserError, match="metis: can't start from a partition; multilevel can"):
        cut(graph, 2, tolerances=LOOSE, seed=0, start=start)
    with pytest.raises(UserError, match="metis: can't start from a partition; multilevel can"):
        cut(graph, 2, tolerances=LOOSE, seed=0, starts=[start.part])
    with pytest.raises(UserError, match="metis: cuts graphs only"):
        engines.partition(models.as_hypergraph(graph), 2, engine="metis", tolerances=LOOSE, seed=0)
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match="mt-kahypar: not installed; pip install mtkahypar"):
        cut(graph, 2, engine="mt-kahypar", tolerances=LOOSE, seed=0)
