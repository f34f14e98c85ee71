"""The one entry of the benchmarks, and the comparison of two versions of the code."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def benchmark(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *map(str, words)]
    return subprocess.run(
        command, cwd=BENCHMARKS.parent, capture_output=True, text=True, check=False
    )


def test_every_benchmark_is_listed_with_what_it_measures() -> None:
    listed = {
        line.split()[0].replace("-", "_"): line.split()[1:]
        for line in benchmark().stdout.splitlines()
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
