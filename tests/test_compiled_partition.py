"""The partitioner's compiled functions: kept where that is possible, announced, and not counted."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest

import partition
from crawler.compiled import compiled

ROOT = Path(partition.__file__).parent.parent
pytestmark = pytest.mark.timeout(600)  # each compiles everything, on a shared machine


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the program beside which nothing can be written, not even by root."""
    for package in ("partition", "crawler"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / "installed" / package, ignore=ignored)
    for directory, _, _ in list(os.walk(tmp_path / "installed")):
        (Path(directory) / "__pycache__").touch()  # a file where a folder would have to be
    lines = [
        f"http://a{i % 7}.example/{i}\thttp://a{i * 3 % 7}.example/{i + 1}\n" for i in range(60)
    ]
    (tmp_path / "edges.tsv").write_text("".join(lines))
    return tmp_path


def run(
    installed: Path, *words: str, python: Sequence[str] = ("-m", "partition"), **more: str
) -> "subprocess.CompletedProcess[str]":
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA")}
    environment |= {
        "HOME": "/dev/null",
        "PYTHONPATH": str(installed / "installed"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [sys.executable, *python, *words],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


BUILD = ("build", "graph", "-k", "2", "--model", "site-hypergraph", "--out", "p", "--json")


ONE_FUNCTION = """
import numpy as np
from crawler.core.registry import heap, records
print(heap.meld(np.zeros(2, records.URL), None, 0, 1))
"""


def test_a_read_only_installation_keeps_a_cache_among_the_temporary_files(installed: Path) -> None:
    folder = installed / "temporary"
    folder.mkdir()

    def compile_one(_: int) -> "subprocess.CompletedProcess[str]":
        return run(installed, python=("-c", ONE_FUNCTION), TMPDIR=str(folder))

    with ThreadPool(2) as pool:  # as two ranks do
        both = pool.map(compile_one, range(2), chunksize=1)
    assert "".join(one.stderr for one in both).count("compiling, once: ") == 1
    [cache] = folder.iterdir()
    assert cache.stat().st_mode & 0o777 == 0o700
    assert any(cache.rglob("*.nbi"))
    again = compile_one(0)
    assert again.stderr == ""
    assert {one.stdout for one in both} == {again.stdout}


@pytest.mark.slow
def test_compiling_counts_in_no_time_of_a_partition(installed: Path) -> None:
    folder = installed / "temporary"
    folder.mkdir()
    run(installed, "import", "edges", "edges.tsv", "--out", "graph", TMPDIR=str(folder))
    first = run(installed, *BUILD, TMPDIR=str(folder))
    assert first.stderr.count("compiling, once: ") == 1
    plans = json.loads(first.stdout)
    assert all(plan["seconds"] < 5 for plan in plans)  # compiling takes longer than that
    again = run(installed, *BUILD, TMPDIR=str(folder))
    assert "compiling" not in again.stderr


def test_a_cached_function_notices_that_what_it_calls_has_changed(tmp_path: Path) -> None:
    """numba alone looks only at the file of the caller."""
    (tmp_path / "high.py").write_text(
        "from crawler.compiled import compiled\n"
        "from low.callee import LAST, callee\n"
        "@compiled\ndef caller(x):\n    return callee(x) + LAST\n"
    )
    low = tmp_path / "low"
    low.mkdir()
    callee = (
        "from crawler.compiled import compiled\nfrom low.first import FIRST\nLAST = 1000\n"
        "@compiled\ndef callee(x):\n    return x * FIRST\n"
    )
    answers = []
    for source, first in ((callee, 2), (callee.replace("*", "+"), 2), (callee, 3), (callee, 3)):
        (low / "callee.py").write_text(source)
        (low / "first.py").write_text(f"FIRST = {first}\n")
        done = subprocess.run(
            [sys.executable, "-c", "import high; print(high.caller(10))"],
            # Without bytecode: Python would use that of a file which has the same size and second.
            env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append((int(done.stdout), "compiling" in done.stderr))
    assert answers == [(1020, True), (1012, True), (1030, True), (1030, False)]


def test_a_function_is_compiled_once_for_integers_of_all_sizes() -> None:
    @compiled
    def callee(x: int) -> int:
        return x + 1

    @compiled
    def caller(small: int, large: int) -> int:
        return callee(small) + callee(large) + callee(1)

    assert caller(np.int32(-5), 1 << 40) == -4 + (1 << 40) + 1 + 2
    assert len(callee.signatures) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shared", "link", "file"])
def test_a_folder_that_others_may_have_made_is_not_run_from(installed: Path, kind: str) -> None:
    folder = installed / "temporary"
    folder.mkdir()
    cache = folder / f"abc-crawler-numba-{os.geteuid()}"
    if kind == "shared":
        cache.mkdir(mode=0o777)
        cache.chmod(0o777)
    elif kind == "link":
        (installed / "elsewhere").mkdir(mode=0o700)
        cache.symlink_to(installed / "elsewhere")
    else:
        cache.touch()
    run(installed, "import", "edges", "edges.tsv", "--out", "graph", TMPDIR=str(folder))
    done = run(installed, *BUILD, TMPDIR=str(folder))
    assert "compiling, as no cache can be kept (NUMBA_CACHE_DIR): " in done.stderr
    assert not any(installed.rglob("*.nbi"))
