"""Orders from outside while a crawl runs: pause, continue, add seeds."""

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cluster import Cluster, settings
from conftest import PATIENCE_S
from crawls import (
    assert_sound,
    demo_config,
    forked,
    metrics_of,
    page_rows,
    run_here,
    run_unverified,
    sets,
)
from dynamics import KINDS
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from test_dynamic import served
from webs import Setting, crawls, exact, reachable

from crawler import session
from crawler.core.core import Core
from crawler.core.schemes import SiteHash
from crawler.core.visits import Visit
from crawler.demo.web import serve
from crawler.ports import UserError
from crawler.session import State, read_status
from crawler.simulate import Simulation, Web

Order = Callable[[Core, float], None]
few = examples(max_examples=examples().max_examples // 5)


# --- in virtual time --------------------------------------------------------------------------


def orders(
    dice: random.Random, web: Web, lasts: float, added: list[int]
) -> list[tuple[float, int, Order]]:
    """Pauses, and seeds that come during the crawl. In the end the crawl isn't paused.

    The pages that were added while the crawl ran come into `added`.
    """

    def pausing(paused: bool) -> Order:
        return lambda core, now: core.halt.pause(now, paused=paused)

    def adding(pages: Sequence[int]) -> Order:
        def add(core: Core, now: float) -> None:
            if not core.ended:
                core.seeding.add([web.links[page].url for page in pages], now)
                added.extend(pages)

        return add

    moments = sorted(dice.uniform(0, 1.2 * lasts) for _ in range(6))
    chosen = [(at, 0, pausing(dice.random() < 0.6)) for at in moments]
    chosen.append((moments[-1] + dice.random(), 0, pausing(False)))
    for _ in range(dice.randint(0, 3)):
        pages = [dice.randrange(len(web)) for _ in range(dice.randint(1, 3))]
        chosen.append((dice.uniform(0, 1.2 * lasts), 0, adding(pages)))
    return chosen


def obeys(simulation: Simulation, again: Simulation, seeds: list[int], seed: int) -> set[int]:
    """Crawl the same web with and without orders; the pages that must have been fetched."""
    assert again.run(seeds)
    added: list[int] = []
    chosen = orders(random.Random(seed), simulation.web, again.now, added)
    assert simulation.run(seeds, orders=chosen)
    assert all(core.complete for core in simulation.cores)
    return reachable(simulation.web, [*seeds, *added])


@pytest.fixture
def paused_begin_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    acquire = Core.acquire

    def watched(core: Core, now: float) -> Visit | None:
        visit = acquire(core, now)
        assert visit is None or not core.halt.paused
        return visit

    monkeypatch.setattr(Core, "acquire", watched)


@pytest.mark.usefixtures("paused_begin_nothing")
class TestOrders:
    @few
    @given(crawls(), st.sampled_from(["exchange", "independent"]))
    def test_a_crawl_that_pauses_and_gets_seeds_misses_nothing(
        self, setting: Setting, mode: str
    ) -> None:
        more = [f"session.mode={mode}"]
        simulation, again = setting.simulation(*more), setting.simulation(*more)
        wanted = obeys(simulation, again, setting.seeds, setting.seed)
        assert set(simulation.order) == wanted
        if mode == "exchange" and exact(setting):
            assert len(simulation.order) == len(wanted)

    @few
    @given(st.integers(0, 2**32), st.sampled_from(KINDS))
    def test_so_does_one_that_seed_servers_lead(self, seed: int, kind: tuple[str, str]) -> None:
        crawl, again = (served(seed, kind, (0, 0, 1, 1, 0)) for _ in range(2))
        wanted = obeys(crawl.simulation, again.simulation, crawl.seeds, seed)
        assert sorted(crawl.simulation.order) == sorted(wanted)


# --- one event after the other ----------------------------------------------------------------


def test_a_visit_that_has_not_begun_waits_until_the_crawl_goes_on() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("politeness.delay_s=1"))
    cluster.start("http://a.example/", "http://a.example/2")
    cluster.fetch(0, "http://a.example/")
    core = cluster.cores[0]
    cluster.now += 1
    visit = core.acquire(cluster.now)
    assert visit is not None
    core.halt.pause(cluster.now, paused=True)
    assert not core.begin(visit, cluster.now)
    cluster.tick(0)
    assert not core.ended
    assert core.acquire(cluster.now) is None
    core.halt.pause(cluster.now, paused=False)
    assert cluster.acquire(0) == "http://a.example/2"


def test_a_pause_reaches_all_ranks_whichever_message_comes_first() -> None:
    cluster = Cluster(SiteHash(2), 2)
    cluster.start("http://a.example/", "http://b.example/", "http://c.example/")
    core = cluster.cores[0]
    for paused in (True, False, True):
        core.halt.pause(cluster.now, paused=paused)
        cluster.tick(0)
    while cluster.flights:
        cluster.deliver(cluster.flights[-1])  # the newest first
    assert cluster.cores[1].halt.paused
    cluster.stop(1)
    cluster.settle()
    assert cluster.ended


def test_seeds_that_come_while_the_ranks_agree_on_the_end_are_not_lost() -> None:
    """Rank 0 has reported that it has nothing to do, and the other rank hasn't yet."""
    for early in range(6):
        cluster = Cluster(SiteHash(2), 2)
        cluster.start()
        for _ in range(early):
            if cluster.flights:
                cluster.deliver(cluster.flights[0])
        if cluster.cores[0].ended:
            break
        cluster.cores[0].seeding.add(["http://a.example/", "http://b.example/"], cluster.now)
        cluster.tick(0)
        cluster.settle()
        assert not cluster.ended
        asked = [cluster.acquire(rank) for rank in (0, 1) for _ in range(2)]
        assert sorted(filter(None, asked)) == ["http://a.example/", "http://b.example/"]
    else:
        raise AssertionError("the ranks never end")
    assert early > 2


# --- files ------------------------------------------------------------------------------------


def test_seeds_are_read_on_from_where_they_were_read(tmp_path: Path) -> None:
    assert session.added_seeds(tmp_path) == ([], 0)
    session.add_seeds(tmp_path, ["http://a.example/", "http://b.example/"])
    seeds, read = session.added_seeds(tmp_path)
    assert seeds == ["http://a.example/", "http://b.example/"]
    path = tmp_path / "added-seeds.txt"
    path.write_text(path.read_text() + "http://torn.exam")
    assert session.added_seeds(tmp_path, read) == ([], read)
    path.write_text(path.read_text() + "ple/\n")
    assert session.added_seeds(tmp_path, read)[0] == ["http://torn.example/"]
    path.write_text("nonsense\n")
    with pytest.raises(UserError, match="'nonsense' is no URL; remove this line"):
        session.added_seeds(tmp_path)


# --- live -------------------------------------------------------------------------------------


def wait_for(session: Path, what: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not ((session / "status.json").exists() and what()):
        assert time.monotonic() < ends, (session / "status.json").read_text()
        time.sleep(0.1)


def order(command: str, session: Path, *words: str) -> str:
    done = run_unverified(command, str(session), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_crawl_is_steered_from_outside(
    tmp_path: Path, start_mpirun: Callable[..., object]
) -> None:
    """Seeds on a new site join the scope; a pause outlives a stop, and ends with continue."""
    directory = tmp_path / "s"
    with serve(5, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        text = config.read_text().replace(f"hosts = {json.dumps(web.hosts)}", "", 1)
        config.write_text(text)
        other = next(host for host in web.hosts if not any(host in seed for seed in web.seeds))
        words = ["crawl", str(config), "--session", str(directory)]
        words += sets("politeness.delay_s=1", "session.stop_grace=5")
        with start_mpirun(2, *forked(), "-m", "crawler", *words) as crawl:
            wait_for(directory, lambda: read_status(directory).pages > 0)
            assert "pauses" in order("pause", directory)  # from here on the crawl can't end
            wait_for(
                directory,
                lambda: (
                    read_status(directory).state is State.PAUSED
                    and not any(row.fetching for row in read_status(directory).rows)
                ),
            )
            refused = run_unverified("report", str(directory))
            assert refused.returncode == 2
            assert "is being crawled" in refused.stderr
            assert "python -m crawler watch" in refused.stderr
            assert "1 seed added" in order("add-seeds", directory, f"http://{other}/")
            log = directory / "rank-00000" / "agent.log"
            wait_for(directory, lambda: '"seeds added"' in log.read_text())
            before = read_status(directory)
            wait_for(directory, lambda: read_status(directory).time > before.time + 1)
            assert read_status(directory).pages == before.pages
            assert "is stopping" in order("stop", directory)
            _, errors = crawl.communicate(timeout=PATIENCE_S)
            assert crawl.returncode == 75, errors
        assert_sound(directory)
        words = ["resume", str(directory), *sets("politeness.delay_s=0")]
        with start_mpirun(3, *forked(), "-m", "crawler", *words) as crawl:
            wait_for(directory, lambda: read_status(directory).state is State.PAUSED)
            assert "goes on" in order("continue", directory)
            _, errors = crawl.communicate(timeout=PATIENCE_S)
            assert crawl.returncode == 0, errors
        assert f"{directory} is paused" in errors
    assert_sound(directory)
    assert metrics_of(directory)["complete"]
    assert any(other in row["url"] and row["status"] == 200 for row in page_rows(directory))
    assert f"http://{other}/" in session.seeds(directory)
    assert order("pause", directory) == f"{directory} has ended: complete\n"
    assert order("continue", directory) == f"{directory} isn't paused\n"


def test_seeds_for_a_crawl_that_has_ended_wait_for_a_resume(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    with serve(5, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        first = sets(f"session.seeds={json.dumps(web.seeds[:1])}", "scope.max_hops=1")
        run_here("crawl", str(config), "--session", str(directory), *first)
        seeds = tmp_path / "more.txt"
        seeds.write_text("\n".join(["# more", *web.seeds]))
        said = order("add-seeds", directory, "--file", str(seeds))
        assert said.startswith(f"{directory}: {len(web.seeds)} seeds added; resume the session")
        refused = run_unverified("add-seeds", str(directory), "http://elsewhere.example/")
        assert refused.returncode == 2
        assert "seed http://elsewhere.example/: out of scope" in refused.stderr
        assert run_unverified("add-seeds", str(directory)).returncode == 2
        assert run_here("resume", str(directory)).returncode == 0
    fetched = {row["url"] for row in page_rows(directory)}
    assert fetched.issuperset(web.seeds)
    assert session.seeds(directory) == list(web.seeds)
