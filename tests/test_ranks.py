"""Building on several ranks: sites, weights, nets and part vector are those of one process."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MpiRun
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tabled import together

from crawler import url
from crawler.ports import OUT_OF_SCOPE, Peers
from partition import UserError, graph, job, models
from partition.arrays import Ids
from partition.assign import Linked
from partition.assign.linked import Pages
from partition.hypergraph import Hypergraph
from partition.models import MESSAGES, MODELS, SITE_MESSAGES, VOLUME, Model, Objective, Units
from partition.ranks import (
    UnitPlan,
    build,
    collecting,
    counting,
    merging,
    reading,
    shares,
)
from partition.ranks.atoms import atoms_of
from partition.ranks.dividing import divided
from partition.ranks.exchange import gathered, routed
from partition.ranks.linking import linked, share_of
from partition.settings import Settings

Web = tuple[list[tuple[int, int, float]], list[tuple[int, int, bool]]]

# What a plan of several ranks says of the same partition.
SAME = (
    "model", "k", "imbalance_bytes", "imbalance_requests", "messages_page_part",
    "messages_site_part", "transmissions_target_part", "transmission_bytes", "volume_bytes",
    "inter_part_links", "loads_bytes", "loads_requests", "feasible", "reason", "giants",
    "bounding_site", "bounding_pages", "bounding_seconds",
    "crawl_seconds", "crawl_limit", "busiest_rank", "busiest_rank_seconds",
)  # fmt: skip
URLS = [f"http://{site}.example/{page // 2}/{page}" for site in "abcdefg" for page in range(4)]


def webs() -> st.SearchStrategy[Web]:
    """Pages (number of the URL, bytes, time), and links (page, number of the target, in scope)."""
    numbers = st.integers(0, len(URLS) - 1)
    pages = st.lists(
        st.tuples(numbers, st.integers(0, 1000), st.floats(0, 10)),
        min_size=1,
        unique_by=lambda p: p[::2],
    )
    return pages.flatmap(
        lambda pages: st.tuples(
            st.just(pages),
            st.lists(
                st.tuples(st.sampled_from([p[0] for p in pages]), numbers, st.booleans()),
                max_size=60,
            ),
        )
    )


def session(folder: Path, web: Web) -> Path:
    """A session whose tables have two files each, and row groups of three rows."""
    pages, links = web
    folder.mkdir()
    (folder / "session.toml").write_text("")

    key = {text: url.key(text) for text in URLS}
    rows = [(URLS[number], size, time) for number, size, time in pages]
    table = pa.table(
        {
            "url": pa.array([text for text, _, _ in rows], pa.string()),
            "key": pa.array([key[text] for text, _, _ in rows], pa.uint64()),
            "site": pa.array([url.site(text) for text, _, _ in rows], pa.string()),
            "time": pa.array([time for _, _, time in rows], pa.float64()),
            "bytes": pa.array([size for _, size, _ in rows], pa.int64()),
            "seconds": pa.array([size / 16 for _, size, _ in rows], pa.float64()),
            "hops": pa.array([size % 3 for _, size, _ in rows], pa.int32()),
            "error": pa.array([None if size % 4 else "timeout" for _, size, _ in rows]),
        }
    )
    ends = [(URLS[source], URLS[target]) for source, target, _ in links]
    linked = pa.table(
        {
            "source_key": pa.array([key[source] for source, _ in ends], pa.uint64()),
            "target_key": pa.array([key[target] for _, target in ends], pa.uint64()),
            "target_url": pa.array([target for _, target in ends], pa.string()),
            "flags": pa.array([0 if ok else OUT_OF_SCOPE for _, _, ok in links], pa.uint8()),
        }
    )
    for name, rows_of in (("pages", table), ("links", linked)):
        (folder / "tables" / name).mkdir(parents=True)
        half = len(rows_of) // 2
        for at, piece in enumerate((rows_of[:half], rows_of[half:])):
            pq.write_table(piece, folder / "tables" / name / f"{at:05}.parquet", row_group_size=3)
    return folder


class Found(NamedTuple):
    """What ranks make of a model. Units are those of the pages in the order of their keys."""

    names: list[str]
    unit: Ids
    atoms: Linked
    counts: dict[str, object]


def parts_of(names: Sequence[str]) -> Ids:
    """Some part of three for each name."""
    return np.array([crc32(name.encode()) % 3 for name in names], np.int32)


def by_ranks(paths: Sequence[Path], ranks: int, model: Model, parts: int) -> Found:
    """The units as several ranks make them, and the counts of an assignment of theirs."""

    async def work(peers: Peers) -> Found | None:
        folders, kind = graph.tables(paths), model.units
        held = await reading.read(folders, peers, inside=kind is not Units.SITES)
        sites = await merging.numbered(held, peers)
        kept = np.arange(len(sites.weights)) % 4 == 1
        division = await divided(folders, held, sites, kind, parts, kept, peers)
        links = await linked(held, sites, division, kind, peers)
        share = await share_of(held, links, division, model, peers)
        whole = await shares.whole(share, peers)
        part = parts_of([str(unit) for unit in range(len(division.weights))])
        counts = await counting.count(held, links, division.weights, part, 3, peers)
        keys, unit = await gathered(peers, (held.pages()[0], division.of_page))
        if whole is None or counts is None:
            return None
        of_key = unit[np.argsort(keys)]
        atoms = atoms_of(whole, division.site, len(links.source), model)
        return Found(sites.names, of_key, atoms, counts.row())

    first, *others = together(ranks, work)
    assert others == [None] * (ranks - 1)
    assert first is not None
    return first


def assert_same(paths: Sequence[Path], ranks: int, model: Model, parts: int = 2) -> Hypergraph:
    """Compare what some ranks make with what one process makes. Returns the nets."""
    web = graph.read(paths)
    found = by_ranks(paths, ranks, model, parts)
    names = [web.sites[site] for site in np.unique(web.site)]
    assert found.names == names
    atoms = Pages(web, {})
    unit = models.units(web, model.units, parts, {}, names[1::4])
    assert np.array_equal(found.unit, unit)
    part = parts_of([str(number) for number in range(unit.max() + 1)])
    counts = atoms.counts(part[unit], 3)
    assert found.counts == counts.row()
    one = np.arange(len(part), dtype=np.int32)
    whole = found.atoms.whole()
    assert whole is not None
    objectives = [MESSAGES, VOLUME, Objective(0.3, 0.7)] if model.hyper else [VOLUME]
    if model.objective.by_site:
        objectives = [SITE_MESSAGES]
    for ours, its in ((one, unit), (whole, atoms.whole())):
        assert np.array_equal(ours[found.unit], its)
        pairs = [(found.atoms.graph(ours), atoms.graph(its))]
        assert np.array_equal(found.atoms.weights(ours), atoms.weights(its))
        for mine, other in pairs:
            for name in mine._fields:
                assert np.array_equal(getattr(mine, name), getattr(other, name)), name
        for objective in objectives:
            nets = [found.atoms.hypergraph(ours, objective), atoms.hypergraph(its, objective)]
            for name in ("xpins", "pins", "costs", "weights"):
                assert np.array_equal(*(getattr(h, name) for h in nets)), (objective, name)
    sums = found.atoms.counts(part, 3)
    assert sums.volume_bytes == counts.volume_bytes
    assert list(sums.imbalances) == list(counts.imbalances)
    if model.hyper:
        by_site = model.objective.by_site
        messages = counts.messages_site_part if by_site else counts.messages_page_part
        assert sums.messages_page_part == messages
    return found.atoms.hypergraph(one, objectives[0])


@examples(max_examples=examples().max_examples // 3)  # each writes and reads many files
@given(
    st.lists(webs(), min_size=1, max_size=2),
    st.integers(1, 4),
    st.sampled_from(list(MODELS.values())),
    st.integers(2, 20),
)
def test_units_are_those_of_one_process(
    web: list[Web], ranks: int, model: Model, parts: int
) -> None:
    with TemporaryDirectory() as folder:
        paths = [session(Path(folder) / str(at), one) for at, one in enumerate(web)]
        assert_same(paths, ranks, model, parts)


@examples(max_examples=examples().max_examples // 5)
@given(st.lists(webs(), min_size=1, max_size=2), st.integers(1, 4), st.sampled_from([1, 5, 1000]))
def test_rank_0_collects_the_links_of_one_process(web: list[Web], ranks: int, rows: int) -> None:
    async def work(peers: Peers) -> collecting.Collected | None:
        folders = graph.tables(paths)
        held = await reading.read(folders, peers)
        sites = await merging.numbered(held, peers)
        unit = sites.of(held.pages()[1])
        return await collecting.collected(folders, held, sites, unit, peers)

    with TemporaryDirectory() as folder, patch.object(collecting, "_ROWS", rows):
        paths = [session(Path(folder) / str(at), one) for at, one in enumerate(web)]
        one = graph.read(paths)
        seeds = graph.seeds(paths, one)
        found, *others = together(ranks, work)
    assert others == [None] * (ranks - 1)
    assert found is not None
    names = [[web.sites[site] for site in web.site] for web in (found.links, one)]
    assert names[0] == names[1]
    assert np.array_equal(found.links.xadj, one.xadj)
    assert np.array_equal(found.links.adj, one.adj)
    assert np.array_equal(found.unit, found.links.site)
    assert np.array_equal(found.seeds, seeds)


@pytest.mark.parametrize("ranks", [2, 3])
def test_nets_have_the_order_of_one_process(tmp_path: Path, ranks: int) -> None:
    """Each rank holds several of many different nets."""
    path = session(tmp_path / "one", dense(28))
    for model in MODELS.values():
        assert assert_same([path], ranks, model).nets > 2


@pytest.mark.parametrize("kind", [None, "domain", "authority"])
def test_all_ranks_know_the_sites_that_pages_say(tmp_path: Path, kind: str | None) -> None:
    """One rank reads the site of a page, and another a link to the page or its neighbour.

    Page 3 wasn't fetched. What its site is, its neighbours 0 to 2 say.
    """
    web: Web = (
        [(number, 5, 0.0) for number in (0, 1, 2, 4, 5, 6, 8, 9)],
        [(4, 3, True), (8, 3, True), (4, 0, True), (8, 9, True), (9, 6, True), (0, 27, True)] * 2,
    )
    path = session(tmp_path / "one", web)
    tell_sites(path, kind)
    assert "of a" in graph.read([path]).sites
    for ranks in (1, 2, 3):
        assert_same([path], ranks, MODELS["site-hypergraph"])


def tell_sites(path: Path, kind: str | None) -> None:
    """Let the pages of a session say sites that their URLs don't tell."""
    (path / "session.toml").unlink()
    if kind is not None:
        (path / "session.toml").write_text(f'[assignment]\nsite = "{kind}"\n')
    for file in (path / "tables" / "pages").glob("*.parquet"):
        table = pq.read_table(file)
        sites = [f"of {text[7]}" for text in table["url"].to_pylist()]
        at = table.column_names.index("site")
        table = table.set_column(at, "site", pa.array(sites, pa.string()))
        pq.write_table(table, file, row_group_size=3)


def built(
    paths: Sequence[Path],
    ranks: int,
    out: Path,
    model: str | None,
    settings: Settings,
    parts: int | None,
) -> list[UnitPlan]:
    async def work(peers: Peers) -> list[UnitPlan]:
        return await build(paths, parts, out, model, settings, peers)

    first, *others = together(ranks, work)
    assert others == [[]] * (ranks - 1)
    return first


def assert_built(path: Path, ranks: int, model: str | None, tries: int, parts: int | None) -> str:
    """Compare the part vectors of some ranks and of one process. Returns the model."""
    settings = Settings(tries=tries, seed=5, rank_rate=1.0)
    outs = [path / "one.parts", path / "ranks.parts"]
    one, _, by_site = job.build([path / "one"], parts, outs[0], model=model, settings=settings)
    plan, hashed = built([path / "one"], ranks, outs[1], model, settings, parts)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    for ours, its in ((plan, one), (hashed, by_site)):
        row = its.row()
        assert {name: row[name] for name in SAME} == {name: ours.row()[name] for name in SAME}
    assert plan.parts > 1
    return plan.model


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("ranks", "tries", "parts"),
    [(1, 1, 3), (2, 2, 3), (3, 1, None), (3, 5, 3)],
)
@pytest.mark.slow
def test_the_part_vector_is_that_of_one_process(
    tmp_path: Path, model: str, ranks: int, tries: int, parts: int | None
) -> None:
    """Without a number of parts, it is that from which on more ranks hardly help."""
    session(tmp_path / "one", dense(28))
    assert_built(tmp_path, ranks, model, tries, parts)


@pytest.mark.parametrize("size", [5, pytest.param(17, marks=pytest.mark.slow)])
def test_sites_are_divided_if_that_is_useful(tmp_path: Path, size: int) -> None:
    """Site a allows more pages a second than a rank can fetch, and is heavier than a part.

    If site b is as heavy, it is too slow to be divided.
    """
    sizes = [15] * 4 + [size] * 4 + [5] * 4
    pages = [(number, own, 0.0) for number, own in enumerate(sizes)]
    path = session(tmp_path / "one", (pages, dense(12)[1]))
    (path / "session.toml").write_text("[politeness]\ndelay_s = 0.0\n")
    assert assert_built(tmp_path, 2, None, 1, 3) == "hybrid"


def dense(pages: int) -> Web:
    """A web in which each page links to several others."""
    links = [(page, page * step % pages, True) for page in range(pages) for step in (3, 5, 11)]
    return [(page, 10 + page % 7, 0.0) for page in range(pages)], links


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_an_error_of_one_rank_is_raised_on_all(tmp_path: Path, ranks: int) -> None:
    """Only one rank reads the row group with the stranger, and only one would hold it."""
    folder = session(tmp_path / "one", ([(0, 1, 0.0)], [(0, 4, True)]))
    file = folder / "tables" / "links" / "00001.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("source_key")
    pq.write_table(table.set_column(at, "source_key", pa.array([7], pa.uint64())), file)

    async def work(peers: Peers) -> str:
        with pytest.raises(UserError) as caught:
            await build([folder], 2, tmp_path / "parts", None, Settings(), peers)
        return str(caught.value)

    said = together(ranks, work)
    assert said == [f"{file.parent}: a source_key isn't in the table pages; each must be"] * ranks
    assert not (tmp_path / "parts").exists()


def test_an_error_while_rows_are_made_is_raised_on_all() -> None:
    def rounds(rank: int) -> Iterator[list[int]]:
        yield [rank] * 3
        if rank == 1:
            raise UserError("broken")
        yield [rank] * 3

    async def work(peers: Peers) -> list[list[int]]:
        received: list[list[int]] = []

        async def receive() -> None:
            async for numbers in routed(peers, rounds(peers.rank)):
                received.append(numbers)  # noqa: PERF401  must be kept if the loop raises

        with pytest.raises(UserError, match="broken"):
            await receive()
        return received

    assert together(3, work) == [[[0, 1, 2]]] * 3


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), min_size=1, max_size=4))
def test_gathering_keeps_the_order_of_ranks(rows: list[list[int]]) -> None:
    async def work(peers: Peers) -> list[int]:
        own = np.array(rows[peers.rank], np.int64)
        return list((await gathered(peers, (own, own + 1), rows=2))[1])

    first, *others = together(len(rows), work)
    assert first == [number + 1 for of_rank in rows for number in of_rank]
    assert not any(others)


BUILD = ("-m", "partition", "build")


@pytest.mark.parametrize(
    ("ranks", "model"),
    [
        (2, "hybrid"),
        pytest.param(3, "site-messages", marks=pytest.mark.slow),
        pytest.param(3, "page-hypergraph", marks=pytest.mark.slow),
    ],
)
def test_under_mpirun(tmp_path: Path, mpirun: MpiRun, ranks: int, model: str) -> None:
    folder = session(tmp_path / "one", dense(28))
    settings = Settings(tries=2)
    one, _, by_site = job.build([folder], 3, tmp_path / "one.parts", model=model, settings=settings)
    out = tmp_path / "ranks.parts"
    words = ["-k", "3", "--model", model, "--tries", "2", "--out", str(out), "--json"]
    done = mpirun(ranks, *BUILD, str(folder), *words)
    assert done.returncode == 0, done.stderr
    assert f"with 3 ranks, {one.forecast}" in done.stderr
    assert out.read_bytes() == (tmp_path / "one.parts").read_bytes()
    assert [row["messages_page_part"] for row in json.loads(done.stdout)] == [
        one.counts.messages_page_part,
        by_site.counts.messages_page_part,
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("{session} -k 2 --out {out}", 2, "{links}/00001.parquet: not a Parquet file"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("{out} -k 2 --out {out}", 2, "{out}: must be a session that has ended"),
                ("{session} -k 2 --out {out} --bogus", 2, "unrecognized arguments: --bogus"),
                ("{session} -k 2 --out {session}", 2, "must be a file in a folder that exists"),
                ("{session} -k 2 --out {out} --engine-ranks 2", 2, "only for --engine zoltan"),
                ("{session} -k 2 --out {out} --replicate 1", 2, "--replicate: only one"),
                ("{whole} -k 2 --out /proc/parts", 1, "/proc/"),
            ]
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(
    tmp_path: Path, mpirun: MpiRun, words: str, code: int, said: str
) -> None:
    paths = {
        "session": session(tmp_path / "one", dense(8)),
        "whole": session(tmp_path / "two", dense(8)),
        "links": tmp_path / "one" / "tables" / "links",
        "out": tmp_path / "parts",
    }
    (paths["links"] / "00001.parquet").write_bytes(b"PAR1")
    given = [word.format(**paths) for word in words.split()]
    done = mpirun(2, *BUILD, *given)
    assert done.returncode == code, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("partition: ")]
    assert len(told) == 1, done.stderr
    assert said.format(**paths) in told[0]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_only_build_runs_on_several_ranks(mpirun: MpiRun) -> None:
    done = mpirun(2, "-m", "partition", "synthesize", "--pages", "9", "--sites", "3", "--out", "x")
    assert done.returncode == 2
    assert done.stderr == "partition: synthesize: runs in one process; leave mpirun out\n"


def test_one_process_starts_no_mpi() -> None:
    words = "import sys, partition.__main__; print('mpi4py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_the_benchmark_makes_a_session(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "ranks", "make", str(tmp_path / "session")]
    command += ["--pages", "300", "--sites", "20", "--links", "5"]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
    web = graph.read([tmp_path / "session"])
    assert (web.pages <= 300, len(web.sites)) == (True, 20)
    assert web.links > 500
