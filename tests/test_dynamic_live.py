"""Dynamic assignment on real ranks: servers hand out URLs, or assign sites, to their clients."""

import itertools
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from crawls import assert_sound, demo_config, metrics_of, page_rows, run_here, sets
from dynamics import KINDS
from test_kill import CONCURRENCY, pids, wait_for_death
from test_lost_rank import await_pages, ended, kill, needs_ulfm, outliving

from crawler import config, session
from crawler.demo.web import DemoWeb, serve
from crawler.ports import PageRow
from crawler.report.summary import summary
from crawler.report.verify import verify

SLOW = pytest.mark.slow
THREE_SERVERS = sets("dynamic.servers=[0, 0, 0]")  # with 5 ranks, ranks 3 and 4 are clients


@pytest.fixture(scope="module")
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(18, 300, 14) as served:
        yield served


@pytest.fixture
def words(tmp_path: Path, demo_web: tuple[DemoWeb, int]) -> list[str]:
    """The words of a dynamic crawl with one server; its session is in `tmp_path`."""
    web, port = demo_web
    file = demo_config(tmp_path / "c.toml", web, port, scheme="dynamic")
    return ["-m", "crawler", "crawl", str(file), "--session", str(tmp_path / "session")]


def of_kind(kind: tuple[str, str]) -> list[str]:
    return sets(f"dynamic.granularity={kind[0]}", f"dynamic.follow={kind[1]}")


def assert_whole(directory: Path, web: DemoWeb) -> None:
    """Everything was fetched, and nothing twice."""
    rows = page_rows(directory)
    fetched = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests)
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert metrics_of(directory)["overlap"] == 0
    assert metrics_of(directory)["complete"]
    assert_sound(directory)


def pages_of(directory: Path) -> list[tuple[Any, ...]]:
    rows = page_rows(directory)
    return sorted((row["url"], row["status"] or 0, row["digest"] or "") for row in rows)


# --- whole crawls


# Simulated crawls try every kind (test_dynamic). On real ranks the commonest two stand for all.
@pytest.mark.parametrize(
    "kind",
    [
        one if one in {("page", "server"), ("site", "own")} else pytest.param(one, marks=SLOW)
        for one in KINDS
    ],
)
def test_each_page_is_fetched_once_by_a_client(
    tmp_path: Path,
    words: list[str],
    mpirun: MpiRun,
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
) -> None:
    directory = tmp_path / "session"
    done = mpirun(3, *words, *of_kind(kind))
    assert done.returncode == 0, done.stderr
    assert_whole(directory, demo_web[0])
    assert {row["rank"] for row in page_rows(directory)} == {1, 2}
    assert all(row["part"] == row["rank"] for row in page_rows(directory))

    static = tmp_path / "static"
    one_rank = [*words[2:4], "--session", str(static), *sets("assignment.scheme=site-hash")]
    assert run_here(*one_rank).returncode == 0
    assert pages_of(directory) == pages_of(static)

    metrics = metrics_of(directory)
    server, *clients = metrics["ranks"]
    assert [one["server"] for one in metrics["ranks"]] == [True, False, False]
    assert set(server["mpi_messages_to"]) == {"1", "2"}
    assert all(set(one["mpi_messages_to"]) == {"0"} for one in clients)
    assert all(
        sum(one["mpi_messages_to"].values()) == one["mpi_messages"] for one in metrics["ranks"]
    )
    most = max(one["pages"] for one in clients)
    assert metrics["imbalance_requests"] == most / (metrics["pages"] / 2) - 1
    facts = metrics["dynamic"]
    assert (facts["granularity"], facts["follow"]) == kind
    assert (facts["servers"], facts["clients"]) == ([0], [1, 2])
    assert {one["rank"] for one in facts["series"]} == {1, 2}
    assert facts["urls_up"] > 0
    if kind[1] == "server":
        assert facts["handed"] == len(page_rows(directory)) == facts["urls_down"]
        assert facts["returned"] == 0
    else:
        assert facts["handed"] == 0
    said = f"granularity {kind[0]}, follow {kind[1]}; servers: rank 0; clients: 2"
    printed = " ".join(summary(metrics).split())
    assert said in printed
    assert "MPI messages between 4 of 6 pairs of ranks" in printed
    assert "Seed servers, which fetch nothing: rank 0" in printed


@pytest.mark.parametrize("kind", [("page", "server"), pytest.param(("site", "own"), marks=SLOW)])
def test_three_servers_in_a_tree(
    tmp_path: Path,
    words: list[str],
    mpirun: MpiRun,
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
) -> None:
    done = mpirun(5, *words, *of_kind(kind), *THREE_SERVERS)
    assert done.returncode == 0, done.stderr
    assert_whole(tmp_path / "session", demo_web[0])
    metrics = metrics_of(tmp_path / "session")
    assert [one["pages"] > 0 for one in metrics["ranks"]] == [False, False, False, True, True]
    spoke_to = {one["rank"]: set(one["mpi_messages_to"]) for one in metrics["ranks"]}
    assert spoke_to == {0: {"1", "2"}, 1: {"0", "3"}, 2: {"0", "4"}, 3: {"1"}, 4: {"2"}}


def test_too_few_ranks_make_no_session(tmp_path: Path, words: list[str]) -> None:
    done = run_here(*words[2:])
    assert done.returncode == 2
    assert "1 ranks are too few for 1 servers and their clients" in done.stderr
    assert not (tmp_path / "session").exists()


def test_verify_finds_a_page_in_the_log_of_a_server(
    tmp_path: Path, words: list[str], mpirun: MpiRun
) -> None:
    directory = tmp_path / "session"
    assert mpirun(2, *words, *sets("assignment.scheme=site-hash")).returncode == 0
    about = directory / "session.toml"
    about.write_text(about.read_text().replace('scheme = "site-hash"', 'scheme = "dynamic"'))
    by_rank_0 = sum(row["rank"] == 0 for row in page_rows(directory))
    assert verify(directory).problems == {"server": by_rank_0}


# --- runs that end early


RUNS = (
    (3, 100, []),
    (3, 170, []),
    (5, 230, THREE_SERVERS),
    (2, 260, sets("dynamic.servers=[0]")),
    (2, 0, sets("assignment.scheme=site-hash")),
)


@pytest.mark.parametrize(
    ("kind", "remember", "runs"),
    [
        (("page", "server"), "all", (RUNS[0], RUNS[2], RUNS[4])),
        pytest.param(("site", "own"), "batch", RUNS, marks=SLOW),
        *(
            pytest.param(kind, remember, RUNS, marks=SLOW)
            for kind in KINDS
            for remember in ("all", "cache")
        ),
    ],
)
def test_a_session_in_pieces_is_the_whole(
    tmp_path: Path,
    words: list[str],
    mpirun: MpiRun,
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
    remember: str,
    runs: tuple[tuple[int, int, list[str]], ...],
) -> None:
    """With other numbers of clients and servers, at last without any server."""
    directory = tmp_path / "session"
    memory = sets(f"exchange.remember={remember}", "exchange.cache_urls=100")
    words = [*words, *of_kind(kind), *memory]
    for ranks, limit, more in runs:
        done = mpirun(ranks, *words, *more, "--max-pages", str(limit))
        assert done.returncode == 0, done.stderr
        words = ["-m", "crawler", "resume", str(directory)]
        if limit:
            assert metrics_of(directory)["pages"] == limit
            assert not metrics_of(directory)["complete"]
    assert_whole(directory, demo_web[0])


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (("page", "server"), "signal"),
        (("site", "own"), "kill"),
        pytest.param(("page", "server"), "kill", marks=pytest.mark.slow),
        pytest.param(("site", "own"), "signal", marks=pytest.mark.slow),
    ],
)
def test_a_stop_or_a_kill_loses_nothing(
    tmp_path: Path,
    words: list[str],
    start_mpirun: Callable[..., "subprocess.Popen[str]"],
    mpirun: MpiRun,
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
    how: str,
) -> None:
    directory = tmp_path / "session"
    slowly = sets("politeness.delay_s=0.1", "session.stop_grace=0")
    crawl = start_mpirun(3, *words, *of_kind(kind), *slowly)
    with crawl:
        assert await_pages(directory, crawl, 40)
        if how == "signal":
            crawl.send_signal(signal.SIGTERM)
            code, said = ended(crawl)
            assert code == 75, said
            assert session.load(directory).last.reason == "SIGTERM"
            assert verify(directory).sound
        else:
            for pid in pids(directory):
                kill(pid)
            wait_for_death(directory)
            crawl.kill()
    done = mpirun(4, "-m", "crawler", "resume", str(directory), *sets("politeness.delay_s=0"))
    assert done.returncode == 0, done.stderr
    assert_whole(directory, demo_web[0])


@needs_ulfm
@pytest.mark.slow
@pytest.mark.parametrize("kind", [("page", "server"), ("site", "own"), ("dset", "own")])
@pytest.mark.parametrize("lost", [0, 2])
def test_the_others_go_on_without_a_rank(
    tmp_path: Path,
    words: list[str],
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
    lost: int,
) -> None:
    """The server or a client is lost. The spare takes its place, for a client in the same run."""
    directory = tmp_path / "session"
    more = ["--spares", "1", *of_kind(kind), *sets("politeness.delay_s=0.05")]
    with outliving(4, *words, *more) as crawl:
        assert await_pages(directory, crawl, 40)
        kill(pids(directory)[lost])
        code, said = ended(crawl)
    assert code == 0, said
    assert_whole(directory, demo_web[0])
    assert metrics_of(directory)["lost_ranks"] == 1
    info = session.load(directory)
    assert (len(info.runs), info.config.dynamic.spares) == ((1, 1) if lost else (2, 0))


@needs_ulfm
@pytest.mark.slow
def test_a_server_alone_ends_the_crawl(
    tmp_path: Path, words: list[str], mpirun: MpiRun, demo_web: tuple[DemoWeb, int]
) -> None:
    directory = tmp_path / "session"
    with outliving(2, *words, *sets("politeness.delay_s=0.05")) as crawl:
        assert await_pages(directory, crawl, 40)
        kill(pids(directory)[1])
        code, said = ended(crawl)
    assert code == 2, said
    assert "1 ranks are too few for 1 servers and their clients" in said
    done = mpirun(2, "-m", "crawler", "resume", str(directory))
    assert done.returncode == 0, done.stderr
    assert_whole(directory, demo_web[0])


# --- clients that come and leave


def order(*words: str) -> str:
    done = run_here(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "servers", "store"),
    [
        (("page", "server"), "[0]", "auto"),
        pytest.param(("page", "server"), "[0, 0, 0]", "runs", marks=SLOW),
        pytest.param(("site", "own"), "[0]", "auto", marks=SLOW),
        pytest.param(("dset", "server"), "[0]", "auto", marks=SLOW),
        pytest.param(("dset", "own"), "[0]", "runs", marks=SLOW),
        pytest.param(("dset", "own"), "[0, 0, 0]", "auto", marks=SLOW),
    ],
)
def test_a_spare_comes_and_a_client_leaves(
    tmp_path: Path,
    words: list[str],
    start_mpirun: Callable[..., "subprocess.Popen[str]"],
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
    servers: str,
    store: str,
) -> None:
    """The spare is handed nothing before it has come, and everything is fetched once."""
    directory = tmp_path / "session"
    slowly = sets("politeness.delay_s=0.4", f"dynamic.servers={servers}", "dynamic.rest_s=0")
    slowly += sets(f"fetch.concurrency={CONCURRENCY}", f"seen.store={store}")
    ranks = 4 if servers == "[0]" else 7
    spare, leaving = ranks - 1, ranks - 3
    with start_mpirun(ranks, *words, "--spares", "1", *of_kind(kind), *slowly) as crawl:
        assert await_pages(directory, crawl, 20)
        assert not rows_of(directory, spare)
        assert "1 spares" in order("add-client", str(directory))
        await_event(directory, crawl, "come")
        assert f"rank {leaving} leaves" in order("retire-client", str(directory), str(leaving))
        await_event(directory, crawl, "leave")
        before = len(rows_of(directory, leaving))
        code, said = ended(crawl)
    assert code == 0, said
    assert_whole(directory, demo_web[0])
    if kind != ("site", "own"):  # then it gets only sites that are found from then on
        assert rows_of(directory, spare)
    if kind[1] == "server":
        assert len(rows_of(directory, leaving)) <= before + CONCURRENCY
    assert "has ended: complete" in order("add-client", str(directory))


def await_event(directory: Path, crawl: "subprocess.Popen[str]", word: str) -> None:
    """Wait until rank 0 has obeyed an order."""
    log = directory / "rank-00000" / "agent.log"
    while crawl.poll() is None and f'"{word}": ' not in log.read_text():
        time.sleep(0.05)


def rows_of(directory: Path, rank: int) -> list[PageRow]:
    """The rows in the logs of a rank so far."""
    entries = itertools.chain.from_iterable(
        map(session.read_log, (directory / f"rank-{rank:05}" / "log").glob("*.log"))
    )
    return [entry.row for entry in entries if isinstance(entry, session.LoggedPage)]


@pytest.mark.parametrize(
    ("change", "words", "what"),
    [
        (
            [],
            ["retire-client", "SESSION", "0"],
            "rank 0 is no client; clients are the ranks 1 to 2",
        ),
        ([], ["retire-client", "SESSION", "3"], "rank 3 is no client"),
        ([], ["add-client", "SESSION"], "has no spares; start the crawl with --spares N"),
        (["assignment.scheme=site-hash"], ["add-client", "SESSION"], "only 'dynamic' has clients"),
    ],
)
def test_an_order_that_cannot_be_obeyed_is_refused(
    tmp_path: Path, change: list[str], words: list[str], what: str
) -> None:
    chosen = config.load(None, ["assignment.scheme=dynamic", *change])
    session.create(tmp_path, chosen, 3, 3, ["http://a.example/"])
    done = run_here(*(str(tmp_path) if word == "SESSION" else word for word in words))
    assert done.returncode == 2
    assert what in done.stderr


def test_spares_need_a_server(tmp_path: Path, words: list[str]) -> None:
    done = run_here(*words[2:], *sets("assignment.scheme=site-hash"), "--spares", "1")
    assert done.returncode == 2
    assert "--spares 1: assignment.scheme = 'site-hash': only a seed server" in done.stderr
