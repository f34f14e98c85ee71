"""Damage to the files of a session between two runs: nothing is fetched twice, nothing is missing,
and no small file ends in a traceback."""

import itertools
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import (
    check_warc_files,
    demo_config,
    metrics_of,
    page_rows,
    run_here,
    run_unverified,
)
from test_resume import resumed_from_snapshot

from crawler import session
from crawler.demo.web import DemoWeb, serve
from crawler.ports import UserError
from crawler.report.reference import Web
from crawler.report.verify import verify
from crawler.simulate import load_web
from partition import UserError as PartitionError
from partition import graph, politeness
from partition.partvector import PartVector

Stopped = tuple[DemoWeb, Path]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A session that one rank has begun in two runs, each stopped in good order."""
    folder = tmp_path_factory.mktemp("stopped")
    with serve(7, 60, 4) as (web, port):
        config = demo_config(folder / "c.toml", web, port)
        crawl = ["crawl", str(config), "--session", str(folder / "s"), "--resume", "--max-pages"]
        for pages in ("20", "30"):
            assert run_here(*crawl, pages).returncode == 0
        yield web, folder / "s"


@pytest.fixture
def copy(stopped: Stopped, tmp_path: Path) -> Path:
    shutil.copytree(stopped[1], tmp_path / "s")
    return tmp_path / "s"


def flip(path: Path, at: float, bits: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= bits
    path.write_bytes(content)


def zero(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    start = int(at * len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    path.write_bytes(content)


def cut(path: Path, at: float) -> None:
    path.write_bytes(path.read_bytes()[: int(at * path.stat().st_size)])


def logged(directory: Path) -> int:
    return sum(
        isinstance(entry, session.LoggedPage)
        for path in session.log_files(directory)
        for entry in session.read_log(path)
    )


def assert_all_is_fetched_once(directory: Path, web: DemoWeb) -> None:
    fetched = [row["url"] for row in page_rows(directory) if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests)
    check_warc_files(directory)


SOME = {(0, 0.0, flip), (1, 0.3, flip), (0, 0.95, flip), (0, 0.3, zero), (1, 0.6, cut)}


@pytest.mark.parametrize(
    ("number", "at", "harm"),
    [
        pytest.param(*one, marks=[] if one in SOME else pytest.mark.slow)
        for one in itertools.product([0, 1], [0.0, 0.3, 0.6, 0.95], [flip, zero, cut])
    ],
)
def test_a_snapshot_does_not_cover_what_a_damaged_log_has_lost(
    stopped: Stopped, copy: Path, number: int, at: float, harm: Callable[[Path, float], None]
) -> None:
    before = logged(copy)
    path = session.log_files(copy)[number]
    harm(path, at)
    lost = before - logged(copy)
    assert lost > 0
    done = run_unverified("resume", str(copy), "--max-pages", "0")
    assert done.returncode == 0, done.stderr
    assert not resumed_from_snapshot(copy, 0)
    if harm is not cut:
        assert f"{path}: " in done.stderr
        assert "pages that stood there are fetched again" in done.stderr
    assert_all_is_fetched_once(copy, stopped[0])
    assert metrics_of(copy)["complete"]
    verdict = verify(copy)
    assert set(verdict.problems) <= {"log", "warc"}  # it names the damage, and nothing else
    assert harm is cut or any(str(path) in line for line in verdict.lines)


@pytest.mark.slow
def test_every_byte_of_the_logs(stopped: Stopped, tmp_path: Path) -> None:
    """Every 97th in turn: a flipped bit is seen, or makes another format of the file."""
    for path in session.log_files(stopped[1]):
        for at in range(0, path.stat().st_size, 97):
            shutil.rmtree(tmp_path / "s", ignore_errors=True)
            shutil.copytree(stopped[1], tmp_path / "s")
            damaged = tmp_path / "s" / path.relative_to(stopped[1])
            content = bytearray(damaged.read_bytes())
            content[at] ^= 1 << random.Random(at).randrange(8)
            damaged.write_bytes(content)
            done = run_unverified("resume", str(tmp_path / "s"), "--max-pages", "0")
            assert done.returncode == 0 or (8 <= at < 12 and done.returncode == 2), (
                at,
                done.stderr,
            )
            if done.returncode == 0:
                assert_all_is_fetched_once(tmp_path / "s", stopped[0])


def test_a_log_that_is_gone(stopped: Stopped, copy: Path) -> None:
    session.log_files(copy)[0].unlink()
    done = run_unverified("resume", str(copy), "--max-pages", "0")
    assert done.returncode == 0, done.stderr
    assert_all_is_fetched_once(copy, stopped[0])


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_damage_to_the_log_of_any_rank(
    tmp_path: Path, stopped: Stopped, mpirun: MpiRun, rank: int
) -> None:
    with serve(7, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        directory = tmp_path / "s"
        crawl = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        assert mpirun(2, *crawl, "--max-pages", "30").returncode == 0
        flip(session.log_files(directory)[rank], 0.4)
        with pytest.raises(AssertionError, match="damaged at"):  # `mpirun` verifies
            mpirun(2, "-m", "crawler", "resume", str(directory), "--max-pages", "0")
        assert not any(resumed_from_snapshot(directory, one) for one in (0, 1))
        assert_all_is_fetched_once(directory, web)


# --- small files


def junk(path: Path) -> None:
    path.write_bytes(b"\xff\x00junk")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def gone(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    """To a file that is precious."""
    path.unlink(missing_ok=True)
    path.symlink_to(path.parents[len(path.parts) - 1 - path.parts.index("s")].parent / "precious")


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "precious"
    content = bytes(range(256)) * 40
    path.write_bytes(content)
    yield path
    assert path.read_bytes() == content


SMALL = [
    "session.toml", "seeds.txt", "replicated.txt", "stop", "lock", "lock-ranks",
    "session.toml.new", "seeds.txt.new",
    "report/counters.json", "report/site_part.npz", "report/reachable.npy", "report/metrics.json",
    "report/metrics.json.new", "tables/pages/00000.parquet", "tables/pages/.00000.parquet.new",
    "rank-00000/agent.log", "rank-00000/snapshot", "rank-00000/snapshot.new",
    "rank-00000/snapshot.next",
    "rank-00000/frontier", "rank-00000/log/00000.log", "rank-00000/log/00001.log",
    "rank-00000/log/x.log", "rank-x", "rank-00007", "rank-00000/abc-x.warc.gz",
]  # fmt: skip


HARMS = [junk, empty, folder, gone, link, flip]
OFTEN = [HARMS[number % len(HARMS)] for number in range(len(SMALL))]  # one for each file


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        pytest.param(name, harm, marks=[] if harm is often else pytest.mark.slow)
        for name, often in zip(SMALL, OFTEN, strict=True)
        for harm in HARMS
    ],
)
def test_a_small_file_that_is_damaged_ends_in_a_line_or_in_a_whole_session(
    stopped: Stopped, copy: Path, precious: Path, name: str, harm: Callable[..., None]
) -> None:
    path = copy / name
    if harm is flip and path.exists():
        flip(path, 0.5)
    elif harm is not flip and (harm is not gone or path.exists()):
        harm(path)
    for words in (["report"], ["resume", "--max-pages", "0"], ["verify"]):
        done = run_unverified(words[0], str(copy), *words[1:])
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode == 2:
            assert done.stderr.startswith("error: ")
            assert done.stderr.count("\n") == 1, done.stderr
        elif words[0] != "verify":
            assert done.returncode == 0, done.stderr
        if words[0] == "resume" and done.returncode == 0:
            for stray in copy.rglob("abc-x.warc.gz"):
                shutil.rmtree(stray) if stray.is_dir() else stray.unlink()
            assert_all_is_fetched_once(copy, stopped[0])


# --- what isn't a file


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


OPENED = [
    "session.toml", "seeds.txt", "replicated.txt",
    "report/counters.json", "report/site_part.npz", "report/metrics.json.new",
    "tables/pages/00000.parquet", "tables/links/.00000.parquet.new",
    "rank-00000/agent.log", "rank-00000/snapshot", "rank-00000/snapshot.next",
    "rank-00000/log/00001.log",
    "rank-00000/log/00000.joined", "rank-00000/requests/00000.log", "rank-00000/*.warc.gz",
]  # fmt: skip


@pytest.mark.parametrize("harm", [fifo, folder, device])
@pytest.mark.parametrize("name", OPENED)
def test_what_is_no_file_is_refused_before_it_is_opened(
    copy: Path, name: str, harm: Callable[[Path], None]
) -> None:
    path = next(copy.glob(name), copy / name)
    harm(path)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: is a") as refusal:
        verify(copy)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["report", "tables", "rank-00000/log", "rank-00000/requests"])
def test_a_file_in_place_of_a_directory_is_refused(copy: Path, name: str) -> None:
    shutil.rmtree(copy / name)
    empty(copy / name)
    with pytest.raises(UserError, match=f"^{re.escape(str(copy / name))}: must be a directory"):
        verify(copy)


@pytest.mark.parametrize(
    ("name", "harm"), [("session.toml", fifo), ("tables/pages/00000.parquet", folder)]
)
def test_commands_refuse_what_is_no_file_before_they_write(
    copy: Path, name: str, harm: Callable[[Path], None]
) -> None:
    harm(copy / name)
    before = sorted((path, path.lstat().st_mtime_ns) for path in copy.rglob("*"))
    for words in (["report"], ["resume", "--max-pages", "0"], ["verify"]):
        done = run_unverified(words[0], str(copy), *words[1:])
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"error: {copy / name}: is a")
        assert done.stderr.count("\n") == 1, done.stderr
    assert sorted((path, path.lstat().st_mtime_ns) for path in copy.rglob("*")) == before


def test_a_new_crawl_refuses_a_file_in_place_of_its_directories(
    stopped: Stopped, tmp_path: Path
) -> None:
    directory = tmp_path / "new"
    directory.mkdir()
    empty(directory / "tables")
    done = run_unverified("crawl", str(stopped[1].parent / "c.toml"), "--session", str(directory))
    assert done.returncode == 2, done.stderr
    assert (
        done.stderr == f"error: {directory / 'tables'}: must be a directory; move the file away\n"
    )
    assert [path.name for path in directory.iterdir()] == ["tables"]


@pytest.mark.parametrize("harm", [fifo, folder, device])
def test_other_readers_of_a_session_refuse_what_is_no_file(
    copy: Path, harm: Callable[[Path], None]
) -> None:
    harm(copy / "tables" / "pages" / "00000.parquet")
    for read in (lambda path: session.alone(Web.read(path, session.Alone())), load_web):
        with pytest.raises(UserError, match=r"is a.*pages/00000\.parquet"):
            read(copy)
    for read_paths in (graph.read, politeness.read):
        with pytest.raises((PartitionError, OSError), match="is a"):
            read_paths([copy])
    harm(copy / "tables" / "sites" / "00000.parquet")
    with pytest.raises(PartitionError, match="is a"):
        graph.addresses(copy)
    harm(copy / "x.part")
    with pytest.raises(OSError, match="is a"):
        PartVector.open(copy / "x.part")


def test_what_stands_in_place_of_the_frontier_is_removed(copy: Path, stopped: Stopped) -> None:
    fifo(copy / "rank-00000" / "frontier")
    assert run_here("resume", str(copy), "--max-pages", "0").returncode == 0
    assert not (copy / "rank-00000" / "frontier").exists()
    assert_all_is_fetched_once(copy, stopped[0])


@pytest.mark.parametrize(
    "name", ["agent.log", "log/00000.log", "abc-20270101000000-00000-00009.warc.gz"]
)
def test_links_are_not_followed_when_files_are_cut(
    stopped: Stopped, copy: Path, precious: Path, name: str
) -> None:
    link(copy / "rank-00000" / name)
    run_unverified("resume", str(copy), "--max-pages", "0")


def test_a_resume_runs_a_module_only_if_the_user_names_it(
    stopped: Stopped, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign_order.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "def first(found): return 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    toml = copy / "session.toml"
    order = 'order = "breadth-first"'
    assert order in toml.read_text()
    toml.write_text(toml.read_text().replace(order, 'order = "foreign_order:first"'))
    for words in (["report"], ["verify"], ["stop"], ["resume"]):
        done = run_unverified(words[0], str(copy))
        assert done.returncode == (2 if words == ["resume"] else 0), done.stderr
    assert "names a module. A resume runs it only if you name it, too" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()
    said = ["--set", "frontier.order=foreign_order:first", "--max-pages", "0"]
    assert run_here("resume", str(copy), *said).returncode == 0
    assert (tmp_path / "ran").exists()
    assert_all_is_fetched_once(copy, stopped[0])


@pytest.mark.parametrize("files", [40, 150])
def test_few_files_may_be_open(copy: Path, files: int) -> None:
    words = ["resume", str(copy), "--max-pages", "0"]
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'ulimit -n {files}; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "crawler",
            *words,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert f"a process may have {files} files open (ulimit -Hn); this crawl needs" in done.stderr
    assert done.stderr.count("\n") == 1


# Root may write everywhere, but for this capability.
_AS_A_USER = [] if os.geteuid() else ["setpriv", "--bounding-set", "-dac_override"]


@pytest.mark.parametrize(
    "folder",
    [
        *("", "tables/pages", "rank-00000/log"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("report", "rank-00000")),
    ],
)
def test_a_folder_that_can_only_be_read(copy: Path, folder: str) -> None:
    (copy / folder).chmod(0o555)
    try:
        for command in (["report"], ["resume", "--max-pages", "0"]):
            done = subprocess.run(
                [*_AS_A_USER, sys.executable, "-m", "crawler", *command, str(copy)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Traceback" not in done.stderr, done.stderr
            assert done.returncode == 0 or done.stderr.count("\n") == 1, done.stderr
        assert done.returncode == 2
    finally:
        (copy / folder).chmod(0o755)
