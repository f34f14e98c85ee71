"""Tables that several processes write together: the same files for each number of processes."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from conftest import MpiRun
from crawls import run_unverified
from hypothesis import given, settings
from hypothesis import strategies as st
from tabled import check_tables, together, write_tables
from test_session import link, page_row, write_log

from crawler import config, session
from crawler.ports import Asked, CrawlDelay, NoRoomError, Peers
from crawler.session import checked, tables
from crawler.session.requests import Manners, RequestLog

Rank = tuple[list[tuple[int, str, int | None]], list[tuple[str, int, str | None]], bool]
SITES = ("a.example", "b.example", "c.example:81", "d.example")

_page = st.tuples(st.integers(0, 40), st.sampled_from(SITES), st.sampled_from([200, 404, None]))
_request = st.tuples(
    st.sampled_from(SITES), st.integers(0, 50), st.sampled_from(["10.0.0.1", "10.0.0.2", None])
)
_rank = st.tuples(st.lists(_page, max_size=12), st.lists(_request, max_size=12), st.booleans())
_session = st.lists(_rank, min_size=1, max_size=5)


def make(directory: Path, ranks: list[Rank]) -> None:
    for rank, (pages, requests, by_address) in enumerate(ranks):
        folder = directory / f"rank-{rank:05}"
        rows = []
        for number, site, status in pages:
            row = msgspec.structs.replace(
                page_row(number),
                site=site, rank=rank, part=rank % 2, status=status,
                error=None if status else "timeout", address=f"10.0.0.{number % 3}", bytes=number,
            )  # fmt: skip
            rows.append((row, [link(f"http://a.example/{n}") for n in range(number % 4)]))
        write_log(folder / "log", *rows)
        per = "address" if by_address else "site"
        boot = "abc"[rank % 3 : rank % 3 + 1]
        manners = Manners(0, rank, "host", boot, rank / 7, per, 1.0, 1, 60.0, 1.0, 1.0, 9.0, 3)
        log = RequestLog(folder / "requests" / "00000.log", manners)
        for number, (site, start, address) in enumerate(requests):
            authority = f"http://{site}"
            key = 100 * rank + number
            log.note(
                Asked(start + key / 1000, 0.5, site, authority, "page", key, 200, None, address)
            )
            if start % 5 == 0:
                log.note(CrawlDelay(float(start), authority, 2.0))
        log.close()


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in (directory / "tables").rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


@settings(max_examples=20)
@given(_session, st.integers(1, 6))
def test_the_files_do_not_depend_on_the_number_of_processes(
    ranks: list[Rank], processes: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawler.session.judged._ROUND", 3)
        patch.setattr("crawler.session.tables._SENT_SITES", 2)
        directory = Path(name)
        make(directory, ranks)
        totals = write_tables(directory)
        assert totals[0].pages == sum(one.pages for one in totals[1])
        expected = files(directory)
        shutil.rmtree(directory / "tables")
        found = together(processes, lambda peers: tables.write_tables(directory, peers))
        assert found == [totals] * processes
        assert files(directory) == expected
        assert together(processes, lambda peers: checked.check_tables(directory, peers)) == (
            [[]] * processes
        )
        path = max((directory / "tables" / "pages").glob("*"))
        path.unlink()
        told = together(processes, lambda peers: checked.check_tables(directory, peers))
        assert told == [check_tables(directory)] * processes
        assert any(line.startswith(f"pages/{path.name}: ") for line in told[0])


def test_a_full_disk_is_told_to_all_and_the_old_tables_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, [([(n, "a.example", 200)], [], False) for n in range(3)])
    write_tables(tmp_path)
    before = files(tmp_path)
    write = tables._write

    def full(*arguments: object) -> list[Path]:
        if arguments[1] == "00002":
            raise NoRoomError("no room")
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "_write", full)
    told = []

    async def work(peers: Peers) -> None:
        with pytest.raises(NoRoomError, match="no room"):
            await tables.write_tables(tmp_path, peers)
        told.append(peers.rank)

    together(3, work)
    assert sorted(told) == [0, 1, 2]
    assert files(tmp_path) == before


def test_tables_of_an_earlier_version_are_replaced(tmp_path: Path) -> None:
    make(tmp_path, [([(1, "a.example", 200)], [], False)])
    write_tables(tmp_path)
    for name in ("pages", "links", "sites"):
        folder = tmp_path / "tables" / name
        (folder / "00000.parquet").rename(tmp_path / "tables" / f"{name}.parquet")
        folder.rmdir()
    (tmp_path / "tables" / "pages").mkdir()  # a kill has left it
    (tmp_path / "tables" / "pages" / ".00000.parquet.new").touch()
    assert check_tables(tmp_path) == []
    os.truncate(tmp_path / "tables" / "links.parquet", 9)
    assert any(line.startswith("links.parquet: ") for line in check_tables(tmp_path))
    write_tables(tmp_path)
    assert {path.is_dir() for path in (tmp_path / "tables").iterdir()} == {True}


WRITING = """
import os, signal, sys
from msgspec.structs import astuple
from pathlib import Path
from crawler import mpi
from crawler.session import checked, tables

async def main(group):
    directory = Path(sys.argv[1])
    if group.rank == group.size - 1 and sys.argv[2:]:
        tables.finish_file = lambda path: os.kill(os.getpid(), signal.SIGKILL)
    totals = await tables.write_tables(directory, group)
    assert await checked.check_tables(directory, group) == []
    if group.rank == 0:
        print([astuple(one) for one in (totals[0], *totals[1])])
    return 0

sys.exit(mpi.run(main))
"""


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_ranks_write_the_tables_together_also_after_a_kill(
    mpirun: MpiRun, tmp_path: Path, ranks: int
) -> None:
    pages = [(n, SITES[n % 4], 200) for n in range(40)]
    make(tmp_path, [(pages[rank::5], [(SITES[rank % 4], rank, None)], False) for rank in range(5)])
    write_tables(tmp_path)
    expected = files(tmp_path)
    shutil.rmtree(tmp_path / "tables")
    killed = mpirun(ranks, "-c", WRITING, str(tmp_path), "kill")
    assert killed.returncode not in {0, 1}
    assert files(tmp_path) != expected
    done = mpirun(ranks, "-c", WRITING, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == expected


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_ranks_report_together(mpirun: MpiRun, tmp_path: Path, ranks: int) -> None:
    directory = tmp_path / "s"
    settings = config.load(None, ["scope.domains=['example']", "fetch.contact=nobody@example.org"])
    session.create(directory, settings, 5, 5, [f"http://a.example/{n}" for n in range(3)])
    pages = [(n, SITES[n % 4], 200 if n % 3 else 404) for n in range(40)]
    make(directory, [(pages[rank::5], [(SITES[0], 7 * rank, None)], False) for rank in range(5)])
    session.finish(directory, True, "complete")
    alone = run_unverified("report", str(directory), "--json")
    assert alone.returncode == 0, alone.stderr
    expected = files(directory)
    done = mpirun(ranks, "-m", "crawler", "report", str(directory), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(alone.stdout)
    assert files(directory) == expected
    refused = mpirun(ranks, "-m", "crawler", "report", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.count("error: ") == 1


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_ranks_verify_together(mpirun: MpiRun, tmp_path: Path, ranks: int) -> None:
    """The session has problems of all kinds, because nobody has crawled it."""
    directory = tmp_path / "s"
    settings = config.load(None, ["scope.domains=['example']", "fetch.contact=nobody@example.org"])
    session.create(directory, settings, 5, 5, [f"http://a.example/{n}" for n in range(3)])
    pages = [(n % 30, SITES[n % 4], 200 if n % 3 else 404) for n in range(60)]
    requests = [(SITES[0], start, None) for start in range(30)]
    make(directory, [(pages[rank::5], requests[rank:], False) for rank in range(5)])
    session.finish(directory, True, "complete")
    assert run_unverified("report", str(directory)).returncode == 0
    os.truncate(directory / "tables" / "sites" / "00003.parquet", 9)
    alone = run_unverified("verify", str(directory), "--json")
    assert alone.returncode == 1, alone.stderr
    problems = json.loads(alone.stdout)["problems"]
    assert set(problems) >= {"log", "twice", "link", "politeness", "table"}
    done = mpirun(ranks, "-m", "crawler", "verify", str(directory), "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout) == json.loads(alone.stdout)
