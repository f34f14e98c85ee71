"""Sessions that the last release wrote, one of each mode, are verified, reported and resumed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, MpiRun
from crawls import assert_sound, check_warc_files, forked, metrics_of, page_rows, run_here, sets
from old_web import HIDDEN, HOSTS, MODES, MOVED, PAGES, SEEDS, served
from servers import PageServer
from test_resume import resumed_from_snapshot

from crawler import session

_SESSIONS = Path(__file__).parent / "instances" / "sessions-50aa9cd"


@pytest.fixture(params=MODES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the session of a mode."""
    return shutil.copytree(_SESSIONS / request.param, tmp_path / request.param)


def test_an_old_session_is_half_done(old: Path) -> None:
    info = session.load(old)
    assert info.config.session.mode == old.name
    assert info.last.ranks == 2
    assert info.last.complete is False
    assert session.seeds(old) == list(SEEDS)
    assert sum(row["status"] is not None for row in page_rows(old)) == 20
    assert len(list(old.glob("rank-*/snapshot"))) == 2


def test_an_old_session_is_verified_and_reported(old: Path) -> None:
    assert_sound(old)
    before, rows = metrics_of(old), page_rows(old)
    reported = run_here("report", str(old))
    assert reported.returncode == 0, reported.stderr
    assert_sound(old)  # with the tables made anew
    assert_still_holds(before, metrics_of(old))
    sites = [row.pop("site").removeprefix("http://") for row in rows]
    assert_still_holds(rows, page_rows(old))
    assert [row["site"] for row in page_rows(old)] == sites


def assert_still_holds(before: Any, after: Any) -> None:
    """Check that all values of `before` are in `after`, which may have more names."""
    if isinstance(before, dict):
        for name, value in before.items():
            assert_still_holds(value, after[name])
    elif isinstance(before, list):
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            assert_still_holds(one, other)
    else:
        assert before == after


def settings_for(server: PageServer) -> list[str]:
    """What a resume is told, to crawl all of the web that this server has."""
    known = ", ".join(f'"{host}" = "127.0.0.1:{server.port}"' for host in HOSTS)
    return sets("session.max_pages=0", f"dns.hosts={{{known}}}", "politeness.delay_s=0")


def asked_of(server: PageServer) -> set[str]:
    """The URLs that this server was asked for."""
    asked = zip(server.hosts, server.paths, strict=True)
    return {f"http://{host}{path}" for host, path in asked}


def test_an_old_session_is_resumed_to_the_end(old: Path, mpirun: MpiRun) -> None:
    """From the logs: a snapshot of another program isn't used."""
    mode = old.name
    before = page_rows(old)
    with served() as server:
        done = mpirun(2, "-m", "crawler", "resume", str(old), *settings_for(server))
        asked = asked_of(server)
    assert done.returncode == 0, done.stderr
    assert_sound(old)
    check_warc_files(old)
    assert not any(resumed_from_snapshot(old, rank) for rank in (0, 1))
    metrics = metrics_of(old)
    assert metrics["complete"]
    assert metrics["runs"] == 2

    rows = page_rows(old)
    known_rows = {(row["url"], row["rank"]) for row in before}
    assert known_rows < {(row["url"], row["rank"]) for row in rows}
    assert len({(row["url"], row["rank"]) for row in rows}) == len(rows)
    by_status = {
        status: [row["url"] for row in rows if row["status"] == status] for status in (200, 302)
    }
    assert set(by_status[200]) == set(PAGES)
    assert set(by_status[302]) == set(MOVED)
    denied = {row["url"] for row in rows if row["error"] == "robots-denied"}
    assert denied == set(HIDDEN)
    assert not asked & set(HIDDEN)
    if mode in {"exchange", "firewall"}:
        assert len({row["url"] for row in rows}) == len(rows)
    if mode == "independent":  # each rank has met everything by itself
        assert len(by_status[200]) == 2 * len(PAGES)


def test_a_firewall_fetches_no_page_twice_when_sites_change_owners(
    tmp_path: Path, start_mpirun: Callable[..., subprocess.Popen[str]]
) -> None:
    """As they do when the user edits the table of suffixes."""
    old = shutil.copytree(_SESSIONS / "firewall", tmp_path / "firewall")
    table = tmp_path / "table.txt"
    table.write_text("a.example 0\nb.example 0\nc.example 0\nd.example 1\n")  # as none was
    about = old / "session.toml"
    text = about.read_text().replace('"site-hash"', '"hierarchical"', 1)
    text = text.replace("complete =", "site_names = 2\ncomplete =")  # else sites keep their parts
    about.write_text(text.replace('suffixes_file = ""', f'suffixes_file = "{table}"'))
    before = {row["url"] for row in page_rows(old)}
    with served() as server:
        words = [*forked(), "-m", "crawler", "resume", str(old), *settings_for(server)]
        _, errors = (done := start_mpirun(2, *words)).communicate(timeout=PATIENCE_S)
        assert done.returncode == 0, errors
        assert before.isdisjoint(asked_of(server))
    rows = page_rows(old)
    assert len({row["url"] for row in rows}) == len(rows)


def test_a_firewall_refuses_another_assignment(tmp_path: Path, mpirun: MpiRun) -> None:
    old = shutil.copytree(_SESSIONS / "firewall", tmp_path / "firewall")
    refused = mpirun(2, "-m", "crawler", "resume", str(old), *sets("assignment.scheme=url-hash"))
    assert refused.returncode == 2
    assert "[assignment] can't change within a session; start a new one" in refused.stderr
