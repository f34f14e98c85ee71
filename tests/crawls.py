"""Whole crawls by the command line, and what they leave."""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forks
from conftest import PATIENCE_S
from warcio.checker import Checker

from crawler.config import toml_value
from crawler.dataset import read_table, table_path
from crawler.demo.web import DemoWeb
from crawler.export import export
from crawler.report.verify import verify


def write_config(path: Path, tables: Mapping[str, Mapping[str, object]]) -> Path:
    lines = []
    for table, entries in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {toml_value(value)}" for key, value in entries.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def demo_config(path: Path, web: DemoWeb, port: int, **assignment: object) -> Path:
    return write_config(
        path,
        {
            "session": {"seeds": web.seeds},
            "scope": {"hosts": web.hosts},
            "assignment": assignment,
            "politeness": {"delay_s": 0},
            "dns": {"hosts": dict.fromkeys(web.hosts, f"127.0.0.1:{port}")},
            "fetch": {"allow_private_addresses": True},
        },
    )


def sets(*settings: str) -> list[str]:
    """As words of a command line."""
    return [word for setting in settings for word in ("--set", setting)]


def metrics_of(session: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((session / "report" / "metrics.json").read_text())
    return content


def page_rows(session: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(table_path(session / "tables", "pages")).to_pylist()
    return rows


def run_here(*words: str) -> subprocess.CompletedProcess[str]:
    """A command by one rank, without mpirun. What it crawled is verified."""
    done = run_unverified(*words)
    verify_crawl(words, done.returncode)
    return done


def run_unverified(*words: str) -> subprocess.CompletedProcess[str]:
    """A command by one rank, in a fork of a process that has imported the crawler.

    The import takes longer than most of these crawls. (MPI starts in the fork.)
    """
    with tempfile.TemporaryDirectory() as folder:
        output, errors = (Path(folder) / name for name in ("out", "err"))
        with Path(os.devnull).open() as nothing, output.open("w") as out, errors.open("w") as err:
            descriptors = [file.fileno() for file in (nothing, out, err)]
            try:
                code = forks.ask(
                    fork_server(0), ["-m", "crawler", *words], descriptors, sys.path, PATIENCE_S
                )
            except TimeoutError:
                raise subprocess.TimeoutExpired(words, PATIENCE_S) from None
        return subprocess.CompletedProcess(words, code, output.read_text(), errors.read_text())


def forked() -> list[str]:
    """Words for Python before those of a command or a rank: a fork runs it. No signals reach it."""
    for number in range(forks.SERVERS):
        fork_server(number)
    return ["-IS", forks.__file__, str(_folder())]


@cache
def fork_server(number: int) -> str:
    """Starts one of the processes that the forks come from. Returns the place of its socket."""
    place = _folder() / str(number)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(place))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, forks.__file__, "serve", str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    atexit.register(process.communicate)
    return str(place)


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="abc-forks-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def verify_crawl(words: Sequence[str], code: int) -> None:
    """Whoever runs a crawl by the words of a command line calls this at its end."""
    before = "--session" if "crawl" in words else "resume"
    if code in {0, 75} and before in words:
        assert_sound(Path(words[words.index(before) + 1]))


def assert_sound(session: Path) -> None:
    verdict = verify(session)
    assert verdict.sound, verdict.lines


def crawl_here(session: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A crawl by one rank, without mpirun; private addresses allowed."""
    allowed = sets("fetch.allow_private_addresses=true")
    return run_here("crawl", "--session", str(session), *allowed, *words)


def check_indexes(directory: Path) -> None:
    """Each WARC file has the index that is made of its records, at the latest after an export."""
    target = directory.parent / "all.cdxj"
    export(directory, {"cdxj": target})
    written = {path: path.read_bytes() for path in directory.rglob("*.cdxj")}
    for path in written:
        path.unlink()
    export(directory, {"cdxj": target})
    assert {path: path.read_bytes() for path in directory.rglob("*.cdxj")} == written
    lines = b"".join(written.values()).splitlines(keepends=True)
    assert target.read_bytes() == b"".join(sorted(lines))
    assert len(written) == len(list(directory.rglob("*.warc.gz")))


def check_warc_files(session: Path) -> None:
    """As `warcio check` does."""
    files = list(map(str, session.rglob("*.warc.gz")))
    assert Checker(SimpleNamespace(inputs=files, verbose=False)).process_all() == 0
