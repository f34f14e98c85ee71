"""Building on several ranks: sites, weights, nets and part vector are those of one process."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
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
from partition import UserError, evaluate, graph, job, models
from partition.arrays import Ids
from partition.evaluate import Evaluation
from partition.hypergraph import Hypergraph
from partition.models import Graph
from partition.ranks import SitePlan, build, collecting, counting, merging, reading, shares
from partition.ranks.building import MODEL
from partition.ranks.exchange import gathered, routed
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
URLS = [f"http://{site}.example/{page}" for site in "abcdefg" for page in range(4)]


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


def counts_by_one(paths: Sequence[Path]) -> dict[str, object]:
    web = graph.read(paths)
    return evaluate.evaluate(web, parts_of(web.sites)[web.site], 3).row()


def parts_of(names: Sequence[str]) -> Ids:
    """Some part of three for each site."""
    return np.array([crc32(name.encode()) % 3 for name in names], np.int32)


def by_one(paths: Sequence[Path]) -> tuple[list[str], Hypergraph, Graph]:
    """The sites with pages, and their hypergraph and graph, as one process makes them."""
    web = graph.read(paths)
    unit = models.units(web, models.Units.SITES, 2, {})
    names = [web.sites[site] for site in np.unique(web.site)]
    return names, models.hypergraph(web, unit), models.graph(web, unit)


def by_ranks(
    paths: Sequence[Path], ranks: int
) -> tuple[merging.Sites, shares.Whole, dict[str, object]]:
    """The sites as several ranks make them, and the counts of an assignment of theirs."""

    async def work(
        peers: Peers,
    ) -> tuple[merging.Sites, shares.Whole | None, Evaluation | None]:
        held = await reading.read(graph.tables(paths), peers)
        sites = await merging.numbered(held, peers)
        whole = await shares.whole(await merging.merge(held, sites, peers), peers)
        part = await peers.bcast(parts_of(sites.names))
        return sites, whole, await counting.count(held, sites, part, 3, peers)

    (sites, whole, counts), *others = together(ranks, work)
    assert whole is not None
    assert counts is not None
    assert [(one.names, *rest) for one, *rest in others] == [([], None, None)] * (ranks - 1)
    return sites, whole, counts.row()


def assert_same(paths: Sequence[Path], ranks: int) -> None:
    """Compare what some ranks make with what one process makes."""
    names, hypergraph, edges = by_one(paths)
    sites, found, counts = by_ranks(paths, ranks)
    assert counts == counts_by_one(paths)
    assert sites.names == names
    for name in ("xpins", "pins", "costs", "weights"):
        assert np.array_equal(getattr(found.hypergraph, name), getattr(hypergraph, name)), name
    for name in edges._fields:
        assert np.array_equal(getattr(found.graph, name), getattr(edges, name)), name


@examples(max_examples=examples().max_examples // 5)  # each writes and reads many files
@given(st.lists(webs(), min_size=1, max_size=2), st.integers(1, 4))
def test_sites_are_those_of_one_process(web: list[Web], ranks: int) -> None:
    with TemporaryDirectory() as folder:
        assert_same([session(Path(folder) / str(at), one) for at, one in enumerate(web)], ranks)


@examples(max_examples=examples().max_examples // 5)
@given(st.lists(webs(), min_size=1, max_size=2), st.integers(1, 4), st.sampled_from([1, 5, 1000]))
def test_rank_0_collects_the_links_of_one_process(web: list[Web], ranks: int, rows: int) -> None:
    async def work(peers: Peers) -> collecting.Collected | None:
        folders = graph.tables(paths)
        held = await reading.read(folders, peers)
        return await collecting.collected(folders, held, await merging.numbered(held, peers), peers)

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
    assert np.array_equal(found.seeds, seeds)


@pytest.mark.parametrize("ranks", [2, 3])
def test_nets_have_the_order_of_one_process(tmp_path: Path, ranks: int) -> None:
    """Each rank holds several of many different nets."""
    path = session(tmp_path / "one", dense(28))
    assert by_one([path])[1].nets > 10
    assert_same([path], ranks)


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
    assert "of a" in by_one([path])[0]
    for ranks in (1, 2, 3):
        assert_same([path], ranks)


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
    paths: Sequence[Path], ranks: int, out: Path, settings: Settings, parts: int | None
) -> list[SitePlan]:
    async def work(peers: Peers) -> list[SitePlan]:
        return await build(paths, parts, out, settings, peers)

    first, *others = together(ranks, work)
    assert others == [[]] * (ranks - 1)
    return first


@pytest.mark.parametrize(
    ("ranks", "tries", "parts"),
    [(1, 1, 3), (2, 2, 3), (3, 1, None), (3, 5, 3)],
)
@pytest.mark.slow
def test_the_part_vector_is_that_of_one_process(
    tmp_path: Path, ranks: int, tries: int, parts: int | None
) -> None:
    """Without a number of parts, it is that from which on more ranks hardly help."""
    paths = [session(tmp_path / "one", dense(28))]
    settings = Settings(tries=tries, seed=5, rank_rate=1.0)
    one, _, by_site = job.build(
        paths, parts, tmp_path / "one.parts", model=MODEL, settings=settings
    )
    plan, hashed = built(paths, ranks, tmp_path / "ranks.parts", settings, parts)
    assert plan.parts > 1
    assert (tmp_path / "ranks.parts").read_bytes() == (tmp_path / "one.parts").read_bytes()
    for ours, its in ((plan, one), (hashed, by_site)):
        row = its.row()
        assert {name: row[name] for name in SAME} == {name: ours.row()[name] for name in SAME}


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
            await build([folder], 2, tmp_path / "parts", Settings(), peers)
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


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_under_mpirun(tmp_path: Path, mpirun: MpiRun, ranks: int) -> None:
    folder = session(tmp_path / "one", dense(28))
    settings = Settings(tries=2)
    one, _, by_site = job.build([folder], 3, tmp_path / "one.parts", model=MODEL, settings=settings)
    out = tmp_path / "ranks.parts"
    done = mpirun(
        ranks, *BUILD, str(folder), "-k", "3", "--tries", "2", "--out", str(out), "--json"
    )
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
                ("{session} -k 2 --out {out} --model hybrid", 2, "--model hybrid: only one"),
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
