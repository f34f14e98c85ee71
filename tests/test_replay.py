"""Logs read again: by shares, as arrays, and what a snapshot keeps instead."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, link, run, settings
from hypothesis import given
from hypothesis import strategies as st
from test_session import page_row, write_log

from crawler import session, url
from crawler.ownership import SiteHash
from crawler.ports import OUT_OF_SCOPE, REDIRECT, Link, PageRow
from crawler.session import LogFile, Share
from crawler.session import replay as replay_module
from crawler.workbench import Visit


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


@given(pages_of_logs, st.booleans(), st.sampled_from([1, 3, 1 << 21]))
def test_a_share_is_what_a_loop_over_all_links_says(
    tmp_path_factory: pytest.TempPathFactory,
    logs: list[list[tuple[int, list[tuple[int, int]], bool]]],
    with_all: bool,
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
            if redirect and links:
                links = [links[0]._replace(flags=links[0].flags | REDIRECT)]
            entries.append((row, links))
            for one in links:
                follows = hops < 5 or one.flags & REDIRECT
                if follows and (with_all or not one.flags & OUT_OF_SCOPE):
                    first.setdefault(one.key, number)
                    expected.append((number, one.key))
            number += 1
        write_log(tmp_path, *entries)

    rows: list[PageRow] = []

    def take(row: PageRow) -> bool:
        rows.append(row)
        return row.hops < 5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_module, "_CHUNK", chunk)
        share = Share(sorted(tmp_path.iterdir()), take, with_all=with_all)
        for _ in share.read():
            pass
    assert [row.key for row in rows] == share.page_keys.tolist() == list(range(number))
    assert share.link_keys.tolist() == sorted(first)
    wanted = share.link_keys % 2 == 1
    found = [(page.source.key, key) for page in share.links(wanted) for key, _, _ in page.links]
    # A page may have the same link twice; then both come.
    assert set(found) == {(page, key) for key, page in first.items() if key % 2}
    every = [
        (page.source.key, key)
        for page in share.links(wanted, every=True)
        for key, _, _ in page.links
    ]
    assert set(every) >= {(page, key) for page, key in expected if key % 2}
    texts = {text for page in share.links(wanted) for _, text, _ in page.links}
    assert texts == {f"http://a.example/{key}" for key in first if key % 2}
    share.close()


# --- snapshots


def test_a_snapshot_counts_only_if_it_fits_the_logs_and_is_whole(tmp_path: Path) -> None:
    content = b"content" * 99
    logs = [write_log(tmp_path / f"rank-{rank:05}" / "log", (page_row(1), [])) for rank in (0, 1)]
    for rank in (0, 1):
        session.write_snapshot(tmp_path, rank, "basis", [logs[rank]], content)

    def fit(ranks: int = 2, basis: str = "basis") -> bool:
        return session.snapshots_fit(tmp_path, ranks, basis, session.log_sizes(tmp_path))

    assert fit()
    assert session.read_snapshot(tmp_path, 1) == content
    assert not fit(ranks=1)  # one log isn't covered
    assert not fit(ranks=3)
    assert not fit(basis="other")

    path = tmp_path / "rank-00001" / "snapshot"
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not fit() or session.read_snapshot(tmp_path, 1) is None, at
        path.write_bytes(whole[:at])
        assert not fit() or session.read_snapshot(tmp_path, 1) is None, at
    path.write_bytes(whole)
    assert fit()
    os.truncate(logs[0], logs[0].stat().st_size - 1)
    assert not fit()


def test_without_room_there_is_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "rank-00000" / "log", (page_row(1), []))
    session.write_snapshot(tmp_path, 0, "basis", [log], b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    session.write_snapshot(tmp_path, 0, "basis", [log], b"new")
    assert [path.name for path in (tmp_path / "rank-00000").iterdir()] == ["log"]


def restored(cluster: Cluster) -> Cluster:
    """Cores that go on with the states of others."""
    after = Cluster(cluster.scheme, cluster.ranks, cluster.settings)
    for before, core in zip(cluster.cores, after.cores, strict=True):
        state = before.state()
        assert state is not None
        core.resume()
        for _ in core.restore(state):
            pass
        core.resumed(wholly=True)
    return after


def test_a_restored_core_goes_on_where_it_was() -> None:
    """Half a web; stopped with visits open, which are dropped; the other half; nothing twice."""
    web = {n: [(n * 7 + 3) % 60, (n * 5 + 1) % 60, (n + 1) % 60] for n in range(60)}

    def page(n: int) -> Link:
        return link(f"http://{'abcdef'[n % 6]}.example/{n}")

    number = {page(n).url: n for n in web}

    def answer(visit: Visit) -> tuple[list[Link], bool]:
        return [page(n) for n in web[number[visit.found.url]]], True

    dice = random.Random(3)
    cluster = Cluster(SiteHash(3), 3, settings())
    cluster.start(page(0).url)
    asked = []
    while len(asked) < 30:
        rank = dice.randrange(3)
        cluster.acquire(rank)
        if cluster.visits[rank] and dice.random() < 0.7:
            visit = cluster.visits[rank][0]
            asked.append(visit.found.url)
            cluster.end(rank, answer(visit)[0])
        cluster.settle()
    cluster.stop(0)
    cluster.settle()
    for rank, core in enumerate(cluster.cores):
        assert core.stopping
        core.abandon(in_order=True)
        cluster.tick(rank)
    cluster.settle()
    assert cluster.ended
    assert not cluster.complete
    assert any(cluster.visits)

    after = restored(cluster)
    after.start(page(0).url)
    asked += [address for _, address in run(after, dice, answer)]
    assert sorted(asked) == sorted(number)
    assert after.complete


def test_a_core_that_was_broken_off_has_no_state() -> None:
    cluster = Cluster(SiteHash(1), 1, settings())
    cluster.start("http://a.example/", "http://a.example/b")
    cluster.acquire(0)
    cluster.stop(0)
    cluster.cores[0].abandon(in_order=False)
    assert cluster.cores[0].state() is None


def test_the_state_keeps_chains_hops_and_counts() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("traps.max_urls_per_site=3"))
    cluster.start("http://a.example/")
    target = link("http://a.example/to", REDIRECT)
    cluster.fetch(0, "http://a.example/", target)
    cluster.stop(0)
    state = cluster.cores[0].state()
    assert state is not None
    assert (state.urls, state.hops) == ([target.url], [0])
    assert state.chains == {0: (url.key("http://a.example/"),)}
    assert np.frombuffer(state.watch[0][1], np.int64).tolist() == [2]
