"""Logs read again: by shares, as arrays, and what a snapshot keeps instead."""

import asyncio
import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, link, run, settings
from crawls import demo_config, page_rows, run_here, sets
from fakes import World
from hypothesis import given
from hypothesis import strategies as st
from slow_seen import stores
from test_order import Memory
from test_session import page_row, write_log

from crawler import config, session, url
from crawler.agent.resume import Replay
from crawler.core import resumption
from crawler.core.order import make_order
from crawler.core.schemes import SiteHash
from crawler.core.snapshot import WaitingPiece
from crawler.core.visits import Visit
from crawler.core.workbench import Workbench
from crawler.demo.web import serve
from crawler.faults import Faults
from crawler.ports import OUT_OF_SCOPE, REDIRECT, CrawlUrl, Link, PageRow
from crawler.reading.declared import DeclaredSitemaps
from crawler.session import LogFile, LogShard
from crawler.session import shards as shards_module
from crawler.session.joined import joined_file


def test_each_rank_reads_its_own_logs_and_the_lightest_what_is_left() -> None:
    sizes = [(0, 50), (1, 10), (2, 30), (3, 5), (3, 7)]
    files = [LogFile(Path(f"{n}"), rank, size) for n, (rank, size) in enumerate(sizes)]
    assert session.shares(files, 2) == [
        [Path("0")],  # 50
        [Path("1"), Path("2"), Path("3"), Path("4")],  # 10, 40, 45, 52
    ]
    assert session.shares(files, 5)[3] == [Path("3"), Path("4")]
    assert session.shares(files, 5)[4] == []
    assert session.shares(files, 3)[1] == [Path("1"), Path("3"), Path("4")]  # 10, 15, 22


pages_of_logs = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 9),  # hops
            st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0, 1, OUT_OF_SCOPE]))),
            st.booleans(),  # a redirect
        ),
        max_size=12,
    ),
    min_size=1,
    max_size=3,
)


@given(pages_of_logs, st.sampled_from([0, 1, OUT_OF_SCOPE]), st.sampled_from([1, 3, 1 << 21]))
def test_a_share_is_what_a_loop_over_all_links_says(
    tmp_path_factory: pytest.TempPathFactory,
    logs: list[list[tuple[int, list[tuple[int, int]], bool]]],
    skipped: int,
    chunk: int,
) -> None:
    """Pages further than 5 hops lead nowhere, but by redirects."""
    tmp_path = tmp_path_factory.mktemp("logs")
    number, expected, first = 0, [], dict[int, int]()
    for pages in logs:
        entries: list[tuple[PageRow, list[Link]]] = []
        for hops, targets, redirect in pages:
            row = page_row(number)
            row = PageRow(row.url, row.key, row.site, 0, 0, hops, row.time, row.seconds)
            links = [Link(n, f"http://a.example/{n}", "", flags) for n, flags in targets]
            if redirect and links and links[0].key != number:  # else it would lead back
                links = [links[0]._replace(flags=links[0].flags | REDIRECT)]
            entries.append((row, links))
            for one in links:
                follows = hops < 5 or one.flags & REDIRECT
                if follows and not one.flags & skipped:
                    first.setdefault(one.key, number)
                    expected.append((number, one.key))
            number += 1
        write_log(tmp_path, *entries)

    rows: list[PageRow] = []

    def take(row: PageRow) -> bool:
        rows.append(row)
        return row.hops < 5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "_CHUNK", chunk)
        share = LogShard(sorted(tmp_path.iterdir()), take, skipped=skipped)
        for _ in share.read():
            pass
    assert [row.key for row in rows] == share.page_keys.tolist() == list(range(number))
    assert share.link_keys.tolist() == sorted(first)
    wanted = share.link_keys % 2 == 1
    found = [(page.key, key) for page, links, _ in share.links(wanted) for key, _, _ in links]
    # A page may have the same link twice; then both come.
    assert set(found) == {(page, key) for key, page in first.items() if key % 2}
    every = [
        (page.key, key) for page, links, _ in share.links(wanted, every=True) for key, _, _ in links
    ]
    assert set(every) >= {(page, key) for page, key in expected if key % 2}
    every_key = {(page.key, k) for page, _, keys in share.links(wanted, every=True) for k in keys}
    assert skipped != OUT_OF_SCOPE or every_key >= set(
        expected
    )  # also of pages whose links aren't followed
    texts = {text for _, links, _ in share.links(wanted) for _, text, _ in links}
    assert texts == {f"http://a.example/{key}" for key in first if key % 2}
    share.close()


def test_keys_are_dealt_to_one_asker_each() -> None:
    dice = random.Random(5)
    keys = [dice.randrange(2**64) for _ in range(3000)]
    asked = [np.sort(np.array(dice.sample(keys, n), np.uint64)) for n in (2000, 0, 1000, 2500)]
    given = [its[mine] for its, mine in zip(asked, session.deal(asked), strict=True)]
    assert np.array_equal(np.sort(np.concatenate(given)), np.unique(np.concatenate(asked)))
    assert min(len(its) for its in given if len(its)) > 300
    assert [len(mine) for mine in session.deal([np.zeros(0, np.uint64)] * 2)] == [0, 0]


# --- snapshots


def test_a_snapshot_counts_only_if_it_fits_the_logs_and_is_whole(tmp_path: Path) -> None:
    content = [b"content" * 99, b"more"]
    logs = [write_log(tmp_path / f"rank-{rank:05}" / "log", (page_row(1), [])) for rank in (0, 1)]
    snapshots = session.Snapshots(tmp_path, 2, "fingerprint")
    for rank in (0, 1):
        assert snapshots.leave(rank, 0, [logs[rank]], content, session.LogHashes())
        snapshots.replace(rank)

    def covered(ranks: int = 2, fingerprint: str = "fingerprint") -> frozenset[Path] | None:
        snapshots = session.Snapshots(tmp_path, ranks, fingerprint)
        return snapshots.covered(session.log_sizes(tmp_path))

    def fit() -> bool:
        return covered() is not None

    assert covered() == set(logs)
    assert list(snapshots.read(1, session.LogHashes()) or ()) == content
    assert covered(ranks=3) is None
    assert covered(fingerprint="other") is None
    later = logs[0].with_name("rank-00000-00001.log")
    shutil.copy(logs[0], later)
    assert covered() == set(logs)
    later.unlink()

    path = tmp_path / "rank-00001" / "snapshot"
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not fit() or snapshots.read(1, session.LogHashes()) is None, at
        path.write_bytes(whole[:at])
        assert not fit() or snapshots.read(1, session.LogHashes()) is None, at
    path.write_bytes(whole)
    assert fit()
    sites = joined_file(logs[1])
    sites.write_text("{}\n")
    assert snapshots.read(1, session.LogHashes()) is None
    sites.unlink()
    assert list(snapshots.read(1, session.LogHashes()) or ()) == content
    os.truncate(logs[0], logs[0].stat().st_size - 1)
    assert not fit()
    shutil.copytree(tmp_path / "rank-00001", tmp_path / "rank-00007")
    snapshots.remove()
    assert not list(tmp_path.rglob("snapshot"))


def test_without_room_there_is_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "rank-00000" / "log", (page_row(1), []))
    snapshots = session.Snapshots(tmp_path, 1, "fingerprint")
    assert snapshots.leave(0, 0, [log], [b"old"], session.LogHashes())
    snapshots.replace(0)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert not snapshots.leave(0, 1, [log], [b"new"], session.LogHashes())
    assert list(snapshots.read(0, session.LogHashes()) or ()) == [b"old"]
    assert {path.name for path in (tmp_path / "rank-00000").iterdir()} == {"log", "snapshot"}


def test_snapshots_of_different_runs_dont_count(tmp_path: Path) -> None:
    """A kill between two ranks may leave them."""
    logs = [write_log(tmp_path / f"rank-{rank:05}" / "log", (page_row(1), [])) for rank in (0, 1)]
    snapshots = session.Snapshots(tmp_path, 2, "fingerprint")
    sizes, hashes = session.log_sizes(tmp_path), session.LogHashes()
    for number in (0, 1):
        for rank in (0, 1):
            assert snapshots.leave(rank, number, [logs[rank]], [b"%d" % number], hashes)
            assert (snapshots.covered(sizes) is None) == (number == 0)
        for rank in (0, 1):
            snapshots.replace(rank)
            assert (snapshots.covered(sizes) is None) == (rank == 0)
    assert list(snapshots.read(1, session.LogHashes()) or ()) == [b"1"]


def restored(cluster: Cluster) -> Cluster:
    """Cores that go on with the states of others."""
    after = Cluster(
        cluster.scheme,
        cluster.ranks,
        cluster.settings,
        now=cluster.now,
        make_seen=cluster.make_seen,
    )
    for before, core in zip(cluster.cores, after.cores, strict=True):
        state = before.resumption.state()
        assert state is not None
        core.resumption.begin()
        for _ in core.resumption.restore(state):
            pass
        core.resumption.end(wholly=True)
    return after


WEB = {n: [(n * 7 + 3) % 60, (n * 5 + 1) % 60, (n + 1) % 60, (n + 6) % 60] for n in range(60)}


def page(n: int, sites: int = 6) -> Link:
    return link(f"http://{'abcdef'[n % sites]}.example/{n}")


def answer(visit: Visit) -> tuple[list[Link], bool]:
    return [page(n) for n in WEB[int(visit.found.url.rpartition("/")[2])]], True


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("mode", "order"),
    [
        *((mode, "breadth-first") for mode in ("exchange", "firewall", "cross-over")),
        *(("exchange", order) for order in ("backlinks", "opic", "depth-first", "random")),
        ("independent", "backlinks"),
    ],
)
def test_a_restored_core_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, mode: str, order: str, *, late: bool
) -> None:
    """A part of a web; stopped with visits open, which are dropped; the rest; nothing twice."""
    monkeypatch.setattr(resumption, "_PIECE", 3)
    monkeypatch.setattr(resumption, "_KEYS", 5)
    chosen = settings(f"session.mode={mode}", f"frontier.order={order}")
    seeds = [page(n) for n in range(6)]
    dice = random.Random(3)
    whole = Cluster(SiteHash(3), 3, chosen)
    whole.start(*(seed.url for seed in seeds))
    wanted = run(whole, dice, answer)

    cluster = Cluster(SiteHash(3), 3, chosen, make_seen=stores(dice, late=late))
    cluster.start(*(seed.url for seed in seeds))
    asked = list[tuple[int, str]]()
    while len(asked) < len(wanted) // 2:
        cluster.now += late
        rank = dice.randrange(3)
        cluster.acquire(rank)
        if cluster.visits[rank] and dice.random() < 0.7:
            visit = cluster.visits[rank][0]
            asked.append((rank, visit.found.url))
            cluster.end(rank, answer(visit)[0])
        cluster.settle()
    cluster.stop(0)
    cluster.settle()
    for rank, core in enumerate(cluster.cores):
        assert core.halt.stopping
        core.abandon(in_order=True)
        cluster.tick(rank)
    cluster.settle()
    for rank in [*range(3)] * 20 * late:  # until the stores have answered, in a hurry
        cluster.now += 1
        cluster.tick(rank)
        cluster.settle()
    assert cluster.ended
    assert not cluster.complete
    assert any(cluster.visits)

    after = restored(cluster)
    after.start(*(seed.url for seed in seeds))
    asked += run(after, dice, answer)
    assert sorted(asked) == sorted(wanted)
    assert after.complete


@pytest.mark.parametrize(
    ("order", "sites"),
    [
        ("breadth-first", 1),  # of several, another may have the first turn
        *((order, 6) for order in ("backlinks", "opic", "depth-first", "random")),
    ],
)
def test_a_restored_core_keeps_the_order(order: str, sites: int) -> None:
    def urls(pauses: int) -> list[str]:
        """In the order of the crawl, with so many stops."""
        cluster = Cluster(SiteHash(1), 1, settings(f"frontier.order={order}"))
        cluster.start(page(0, sites).url)
        asked: list[str] = []
        for n in range(60):
            if n % 10 == 5 and n < 10 * pauses:
                cluster.stop(0)
                cluster = restored(cluster)
            asked += filter(None, [cluster.acquire(0)])
            number = int(asked[-1].rpartition("/")[2])
            cluster.end(0, [page(target, sites) for target in WEB[number]])
        assert len(set(asked)) == 60
        return asked

    assert urls(0) == urls(1) == urls(4)


def test_pagerank_has_its_graph_again_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken up when all scores have just been computed, the crawl goes on in the same order."""
    monkeypatch.setattr(sys.modules["crawler.core.order.pagerank"], "_FIRST", 2)
    chosen = settings("frontier.order=pagerank")
    cluster, again = (Cluster(SiteHash(1), 1, chosen) for _ in range(2))

    def crawl(cluster: Cluster, pages: int) -> list[tuple[PageRow, list[Link]]]:
        entries = []
        for _ in range(pages):
            address = cluster.acquire(0)
            assert address is not None
            found = cluster.visits[0][0].found
            links, _ = answer(cluster.visits[0][0])
            cluster.end(0, links)
            row = PageRow(address, found.key, found.site, 0, 0, found.hops, 1.8e9, 0.5, status=200)
            entries.append((row, links))
        return entries

    cluster.start(page(0).url)
    before = crawl(cluster, 18)  # 2, 3, 4, 6, 8, 11, 14, 18: each time a quarter more
    share = LogShard([write_log(tmp_path, *before)], lambda row: True, skipped=OUT_OF_SCOPE)
    for _ in share.read():
        pass
    core = again.cores[0]
    core.resumption.note_fetched(share.page_keys.tolist(), (), ())
    waiting = ~session.among(share.link_keys, np.sort(share.page_keys))
    for source, links, targets in share.links(waiting, every=True):
        core.resumption.admit_again(source, [link(text) for _, text, _ in links], 0, targets)
    share.close()
    rest = [[row.url for row, _ in crawl(one, 42)] for one in (cluster, again)]
    assert rest[0] == rest[1]
    assert len({row.url for row, _ in before} | set(rest[0])) == 60


def test_what_comes_last_and_what_is_on_disk_is_drained_too() -> None:
    for order in ("breadth-first", "backlinks"):
        frontier = settings(f"frontier.order={order}").frontier
        benches = [
            Workbench(config.Politeness(), config.Retry(), make_order(frontier), Memory(), 200)
            for _ in range(2)
        ]
        for n in range(1000):
            found = CrawlUrl(n, f"http://a.example/{n}", "http://a.example", 1)
            benches[0].enqueue(found, 1 + n % 7, low=n % 50 == 0)
        for found, score in benches[0].backlog.drain():
            benches[1].restore(found, score)
        keys = [found.key for found, _ in benches[1].backlog.drain()]
        assert sorted(keys) == list(range(1000))
        if order == "backlinks":  # in the order in which they came
            assert keys == list(range(1000))
        else:
            last = [n for n in range(1000) if n % 50 == 0]
            assert keys == [n for n in range(1000) if n % 50] + last


@pytest.mark.parametrize("option", ["frontier.order=pagerank", "exchange.remember=cache"])
def test_some_cores_have_no_state(option: str) -> None:
    cluster = Cluster(SiteHash(1), 1, settings(option))
    cluster.start("http://a.example/")
    cluster.stop(0)
    assert cluster.cores[0].resumption.state() is None


def test_a_core_that_was_broken_off_has_no_state() -> None:
    cluster = Cluster(SiteHash(1), 1, settings())
    cluster.start("http://a.example/", "http://a.example/b")
    cluster.acquire(0)
    cluster.stop(0)
    cluster.cores[0].abandon(in_order=False)
    assert cluster.cores[0].resumption.state() is None


def test_the_state_keeps_chains_hops_and_counts() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("traps.max_urls_per_site=3"))
    cluster.start("http://a.example/")
    target = link("http://a.example/to", REDIRECT)
    cluster.fetch(0, "http://a.example/", target)
    cluster.stop(0)
    state = cluster.cores[0].resumption.state()
    assert state is not None
    (waiting,) = [piece for piece in state.pieces if isinstance(piece, WaitingPiece)]
    assert (waiting.urls, waiting.hops) == ([target.url], [0])
    assert waiting.chains == {0: (url.key("http://a.example/"),)}
    assert np.frombuffer(state.about.traps[0][1], np.int64).tolist() == [2]


def test_a_page_that_is_later_than_the_snapshot_counts_once_for_a_limit(tmp_path: Path) -> None:
    a, b, c = (f"http://a.example/{n}" for n in "abc")
    chosen = settings("traps.max_urls_per_site=3")
    cluster, again = (Cluster(SiteHash(1), 1, chosen) for _ in range(2))
    cluster.start(a, b)
    cluster.stop(0)
    state, core = cluster.cores[0].resumption.state(), again.cores[0]
    assert state is not None
    found = CrawlUrl(url.key(a), a, "a.example", 0)
    row = PageRow(a, found.key, found.site, 0, 0, 0, 1.8e9, 0.5, status=200)
    later = write_log(tmp_path / "rank-00000" / "log", (row, []))
    replay = Replay(
        *([later], chosen, core, World(1).groups[0], lambda row: None),
        *(DeclaredSitemaps(), Faults()),
        judges_again=False,
    )

    async def resume() -> None:
        assert await replay.adopt(state)
        assert await replay.read_logs() == 1

    asyncio.run(resume())
    for _ in replay._restoring:
        pass
    core.resumption.end(wholly=True)
    again.fetch(0, b, link(c))
    again.fetch(0, c)  # the third URL of the site
    assert core.complete


@pytest.mark.parametrize(("order", "restored"), [("opic", True), ("pagerank", False)])
def test_a_session_goes_on_in_its_order(tmp_path: Path, order: str, restored: bool) -> None:
    """From the snapshot of a stop; the graph of `pagerank` is in the logs only."""
    directory = tmp_path / "session"
    with serve(7, 100, 4) as (web, port):
        cfg = demo_config(tmp_path / "c.toml", web, port)
        words = ["crawl", str(cfg), "--session", str(directory), "--resume"]
        words += sets(f"frontier.order={order}", "session.mode=cross-over")
        assert run_here(*words, "--max-pages", "40").returncode == 0
        assert (directory / "rank-00000" / "snapshot").exists() == restored
        assert run_here(*words).returncode == 0
    log = (directory / "rank-00000" / "agent.log").read_text()
    assert log.count(f'"from_snapshot": {str(restored).lower()}') == 1
    rows = [row["url"] for row in page_rows(directory) if row["status"] is not None]
    assert sorted(rows) == sorted(web.requests)
