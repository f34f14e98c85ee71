"""What a session says of a URL or a site: from its logs, and from the ranks while it is crawled."""

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, few_examples, link, run, settings
from crawls import crawl_here, demo_config, forked, sets
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer

from crawler import config, session
from crawler.__main__ import main
from crawler.asking import Found, ask, says
from crawler.core.outboxes import OrderedArrivals
from crawler.core.schemes import make_scheme
from crawler.core.visits import Visit
from crawler.demo.web import serve
from crawler.messages import Answer, Batch, Question, SiteFacts, UrlState
from crawler.ports import Link, PageRow, UserError
from crawler.session import Answers, State, rows_of_site, rows_of_url
from crawler.session.log import LogWriter

ROWS = st.lists(
    st.tuples(st.sampled_from(["a.example", "aa.example", "b.example:8080"]), st.integers(0, 9)),
    max_size=20,
)


def row(site: str, number: int, time: float, rank: int = 0) -> PageRow:
    address = f"http://{site}/{number}"
    return PageRow(address, number, site, rank, rank, 1, time, 0.5, status=200, bytes=100)


def links_of(number: int) -> list[Link]:
    """Links whose texts hold URLs of other rows, some compressed and some not."""
    return [link(f"http://aa.example/{other}") for other in range(number)]


@few_examples
@given(ROWS, st.integers(0, 40))
def test_the_rows_of_a_url_and_of_a_site(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], torn: int
) -> None:
    """They are those that a reader of the whole logs finds, also if the last row isn't whole."""
    directory = tmp_path_factory.mktemp("s")
    for rank in range(2):
        folder = directory / f"rank-{rank:05}" / "log"
        folder.mkdir(parents=True)
        log = LogWriter(folder)
        for at, (site, number) in enumerate(rows[rank::2]):
            log.write([log.frame(row(site, number, 2.0 * at + rank, rank), links_of(number))])
        log.close()
        whole = log.path.read_bytes()
        log.path.write_bytes(whole[: max(0, len(whole) - torn)] if rank else whole)
    read = [
        entry.row
        for path in session.log_files(directory)
        for entry in session.read_log(path)
        if isinstance(entry, session.LoggedPage)
    ]
    read.sort(key=lambda one: one.time)
    for site in ("a.example", "aa.example", "b.example:8080", "example"):
        assert rows_of_site(directory, site) == [one for one in read if one.site == site]
        for number in range(10):
            address = f"http://{site}/{number}"
            assert rows_of_url(directory, address) == [one for one in read if one.url == address]


# --- what the cores know ----------------------------------------------------------------------


SCHEMES = [
    (),
    pytest.param(("assignment.scheme=url-hash",), marks=pytest.mark.slow),
    pytest.param(("session.mode=independent",), marks=pytest.mark.slow),
    pytest.param(("assignment.scheme=dynamic",), marks=pytest.mark.slow),
    pytest.param(
        ("assignment.scheme=dynamic", "dynamic.follow=own", "dynamic.granularity=site"),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("overrides", SCHEMES)
@few_examples
@given(seed=st.integers(0, 2**32))
def test_ranks_know_each_url_until_it_is_fetched(overrides: tuple[str, ...], seed: int) -> None:
    """Some rank knows a URL that was found, one at most fetches it, and asking changes nothing."""

    def crawl(*, asks: bool) -> list[tuple[int, str]]:
        dice, curious = random.Random(seed), random.Random(seed)
        chosen = settings(*overrides)
        cluster = Cluster(make_scheme(chosen, 4), 4, chosen)
        urls = [f"http://h{number % 4}.example/{number}" for number in range(20)]
        cluster.start(urls[0])
        found = {urls[0]}

        def answer(visit: Visit) -> tuple[Iterable[Link], bool]:
            if asks:
                address = curious.choice(urls)
                site = address.split("/")[2]
                told = [
                    core.facts.answer(Question(1, site, address), cluster.now)
                    for core in cluster.cores
                ]
                states = [one.state for one in told]
                if overrides != ("session.mode=independent",):
                    assert states.count(UrlState.UNDER_WAY) <= 1
                batches = [batch for _, _, batch in cluster.batches()] + early(cluster)
                is_flying = any(address in batch.urls for batch in batches)
                if address in found and not is_flying:
                    assert set(states) != {UrlState.UNKNOWN}, (address, states)
                if address not in found:
                    assert set(states) == {UrlState.UNKNOWN}
            links = [link(dice.choice(urls)) for _ in range(4)]
            found.update(one.url for one in links)
            return links, True

        return [(rank, address) for rank, address in run(cluster, dice, answer)]

    assert crawl(asks=True) == crawl(asks=False)


def early(cluster: Cluster) -> list[Batch]:
    """Batches that have arrived, but wait for others that were sent before them."""
    arrivals = [arrived for core in cluster.cores for arrived in core._mail._arrivals]
    ordered = [one for one in arrivals if isinstance(one, OrderedArrivals)]
    return [batch for arrived in ordered for batch in arrived._early.values()]


# --- in words ---------------------------------------------------------------------------------


def found(url: str = "", **changes: Any) -> Found:
    values: dict[str, Any] = {"rows": [], "reason": "", "skipped": "", "state": State.CRAWLING}
    return Found("s", "a.example", url, **({"answers": None} | values | changes))


def answers(*some: Answer, ranks: int = 2) -> Answers:
    return Answers(ranks, dict(enumerate(some)))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (UrlState.UNDER_WAY, "being fetched by rank 1"),
        (UrlState.MET, "waits at rank 1"),
        (UrlState.HANDED_OUT, "handed to a client by the seed server at rank 1"),
        (UrlState.LEAVING, "about to be sent to its owner by rank 1"),
        (UrlState.CLAIMED, "held by rank 1, until the owner of its site is known"),
        (UrlState.UNTOLD, "not fetched; whether it waits isn't known: seen.store answers late"),
        (UrlState.UNKNOWN, "unknown: nothing has led to it"),
    ],
)
def test_the_state_of_a_url_in_words(state: UrlState, words: str) -> None:
    told = found("http://a.example/", answers=answers(Answer(1), Answer(1, state, 1)))
    assert dict(says(told))["state"] == words
    assert told.is_known is (state not in {UrlState.UNTOLD, UrlState.UNKNOWN})


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        ([1, 1, 1], "rank 1"),
        ([None, 1, None], "rank 1"),
        ([2, 0, 2], "rank 2"),  # a client that the server has assigned the site; rank 1 is late
        ([0, 1, 2], "each rank that finds it"),
        ([2, 2], "rank 2"),  # which hasn't answered
    ],
)
def test_the_owner_of_a_url_in_words(owners: list[int | None], words: str) -> None:
    told = answers(*(Answer(1, UrlState.MET, owner) for owner in owners), ranks=3)
    assert dict(says(found("http://a.example/", answers=told)))["owner"] == words


def test_the_queue_of_a_site_in_words() -> None:
    facts = SiteFacts(1200, 1, "waiting", 3.2, 2.0, failures={"http://a.example": 3})
    told = dict(says(found(answers=answers(Answer(1), Answer(1, site=facts), ranks=4))))
    assert told["queue"] == "1,200 URLs wait at rank 1, 1 under way"
    assert told["next"] == "in 3.2 s"
    assert told["delay"] == "2 s between requests, 1 at a time"
    assert told["back-off"].startswith("http://a.example has failed 3 times in a row")
    assert told["no answer"] == "from rank 2, 3; ask again"
    silent = dict(says(found(state=State.REPORTING)))
    assert silent["no answer"] == "from the ranks; state of the crawl: reporting"
    steered = found("http://a.example/\x1b[31m", skipped="robots-denied\x1b")
    assert "\x1b" not in str(says(steered))


# --- a session --------------------------------------------------------------------------------


def test_a_session_that_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {
        "/": Page(
            b"<a href=/a><a href=/gone><a href=/last>", headers={"Content-Type": "text/html"}
        ),
        "/a": b"a",
    }
    with PageServer(pages) as server:
        done = crawl_here(
            tmp_path / "s", server.url, "--max-pages", "3", *sets("politeness.delay_s=0")
        )
        assert done.returncode == 0, done.stderr
        here = server.url
    capsys.readouterr()
    directory = str(tmp_path / "s")
    assert main(["ask", directory, f"{here}/a"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "state fetched: status 200 rank 0" in said
    assert said.endswith("crawl ended: max_pages")
    (stored,) = rows_of_url(tmp_path / "s", f"{here}/a")
    assert f"/rank-00000/{stored.warc_file} at byte {stored.warc_offset:,} site" in said
    assert main(["ask", directory, f"{here}/last"]) == 0
    assert "known, and not fetched: waiting: max_pages" in capsys.readouterr().out
    assert main(["ask", directory, f"{here}/never"]) == 1
    assert "unknown: nothing has led to it" in capsys.readouterr().out
    assert main(["ask", directory, here.removeprefix("http://")]) == 0
    assert all(len(line) <= 80 or "://" in line for line in capsys.readouterr().out.splitlines())
    assert main(["ask", directory, "--json", here.removeprefix("http://")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fetched"]["urls"] == 3
    assert told["answers"] == {}
    assert main(["ask", directory, "a b"]) == 2
    assert "neither a URL with http:// or https://" in capsys.readouterr().err
    with pytest.raises(UserError):
        ask(tmp_path / "nowhere", "a.example")


def wait_for(directory: Path, about: str, wanted: Callable[[Found], bool]) -> Found:
    """Ask again and again until the answer is as wanted."""
    until = time.monotonic() + 100
    while True:
        try:
            told = ask(directory, about)
        except UserError:  # there is no session yet
            told = found()
        if wanted(told):
            return told
        assert time.monotonic() < until, says(told)
        time.sleep(0.3)


@pytest.mark.parametrize(
    "overrides", [(), pytest.param(("assignment.scheme=dynamic",), marks=pytest.mark.slow)]
)
def test_the_ranks_of_a_running_crawl_answer(
    tmp_path: Path,
    start_mpirun: Callable[..., "subprocess.Popen[str]"],
    overrides: tuple[str, ...],
) -> None:
    directory = tmp_path / "s"
    with serve(4, 120, 4) as (web, port):
        file = demo_config(tmp_path / "c.toml", web, port)
        words = ["crawl", str(file), "--session", str(directory), "-q"]
        words += sets("politeness.delay_s=1", "fetch.timeout_s=20", *overrides)
        seed = config.load(file).session.seeds[0]
        site = seed.split("/")[2]
        with start_mpirun(3, *forked(), "-m", "crawler", *words) as process:
            try:
                told = wait_for(directory, site, has_queue)
                assert told.answers is not None
                assert len(told.by_rank) == told.answers.ranks == 3
                assert "next" in dict(says(told))
                told = wait_for(directory, seed, lambda told: bool(told.rows and told.answers))
                assert told.rows[0].status == 200
                assert dict(says(told))["allowed"] == "yes, by robots.txt"
                assert not list((directory / "questions").iterdir())
                assert main(["stop", str(directory)]) == 0
                process.communicate(timeout=100)
                assert process.returncode == 75
            finally:
                process.kill()


def has_queue(told: Found) -> bool:
    return any(one.site is not None and one.site.waiting for one in told.by_rank.values())
