"""The one entry of the benchmarks, and the comparison of two versions of the code."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def benchmark(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *map(str, words)]
    return subprocess.run(
        command, cwd=BENCHMARKS.parent, capture_output=True, text=True, check=False
    )


def test_every_benchmark_is_listed_with_what_it_measures() -> None:
    listed = {
        line.split()[0].replace("-", "_"): line.split()[1:]
        for line in benchmark("--help").stdout.splitlines()
        if line.startswith("  ")
    }
    runnable = {
        (path.parent if path.name == "__init__.py" else path).stem
        for path in BENCHMARKS.rglob("*.py")
        if "\ndef run(" in path.read_text()
    }
    assert set(listed) == runnable
    assert all(listed.values())


def test_a_name_that_no_benchmark_has() -> None:
    done = benchmark("crawls")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no benchmark crawls\n")


def test_two_versions_take_turns(tmp_path: Path) -> None:
    for name, figure in (("old", 4), ("new", 3)):
        (tmp_path / name).mkdir()
        # Two lines of the field are added up; the other line has another field.
        lines = f'{{"cpu_s": {figure}}}\\n{{"cpu_s": {figure}}}\\n{{"load_s": 9}}'
        (tmp_path / name / "task.py").write_text(f"print('{lines}')")
    words = ["--rounds", 2, "--field", "cpu_s", "--json", "--", "task.py"]
    done = benchmark("pairs", tmp_path / "old", tmp_path / "new", *words)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown == {"old": 8, "new": 6, "ratio": 0.75, "least": 0.75, "most": 0.75}
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["old", "new"] * 2


def test_the_peak_of_a_command_is_its_own(tmp_path: Path) -> None:
    """Not that of the process that started it, which the kernel would hand on."""
    program = (
        "import harness, sys, pathlib\n"
        "large = bytearray(300_000_000)\n"
        "large[::4096] = bytes(len(large[::4096]))\n"
        "command = [sys.executable, '-c', 'import sys; sys.exit(3)']\n"
        "used = harness.run_command(command, pathlib.Path(sys.argv[1]))\n"
        "print(used.status, used.peak_bytes)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "output")]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    status, peak = map(int, done.stdout.split())
    assert status == 3
    assert 1_000_000 < peak < 100_000_000


def test_a_crawl_of_a_web_that_the_benchmark_makes(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    words = ["--quick", "--ranks", 1, "--served", "gzip", "--pages", 50, "--json", rows]
    done = benchmark("crawl", *words)
    assert done.returncode == 0, done.stderr
    row = json.loads(rows.read_text())
    assert (row["crawler"], row["served"]) == ("ABC, K = 1, auto", "gzip")
    assert row["pages"] > 300  # each of 48 sites has eight pages at least
    assert 0 < row["tables_peak_bytes"] < row["rank_peak_bytes"] <= row["peak_bytes"]
    assert row["longest_break_ms"] > 0
    heads, ruler, figures = done.stdout.strip().splitlines()
    assert heads.count("|") == ruler.count("|") == figures.count("|") == len(row) + 1


def test_the_cost_of_parts(tmp_path: Path) -> None:
    """A small run of one of its measures; the slow test runs all."""
    done = benchmark("cost", "--quick", "--of", "links", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["cost"], row["size"]) for row in rows] == [("links", "10"), ("links", "100")]
    assert rows[0]["times"] == 1
    assert all(row["us"] > 0 and row["longest_ms"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crawl", "growth", "cost", "forecast"])
def test_a_quick_run_of_all(name: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    done = benchmark(name, "--quick", "--json", rows)
    assert done.returncode == 0, done.stderr
    made = [json.loads(line) for line in rows.read_text().splitlines()]
    if name == "crawl":
        assert len(made) == 6  # one rank and two, for each way to serve the web
        assert len({row["pages"] for row in made}) == 1  # all find the same
    elif name == "growth":
        assert [row["pages"] for row in made] == [500, 1000]
        assert all(row["rest_bytes"] > 0 for row in made)
    elif name == "forecast":
        assert [row["web"] for row in made] == ["known sites", "late sites"]
        assert all(row["predicted_s"] > 0 and row["taken_s"] > 0 for row in made)
    else:
        assert {row["cost"] for row in made} == {"stages", "sites", "links", "ranks"}
        if find_spec("matplotlib"):
            drawn = benchmark(name, "--plot", rows, "--out", tmp_path)
            assert drawn.returncode == 0, drawn.stderr
            assert "<svg" in (tmp_path / "cost.svg").read_text()
