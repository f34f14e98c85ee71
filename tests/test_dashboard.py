"""What rank 0 tells by HTTP."""

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import settings
from crawls import demo_config, metrics_of, run_unverified, sets
from prometheus_client.parser import text_string_to_metric_families

from crawler import config
from crawler.agent.board import Board
from crawler.dashboard.metrics import exposition
from crawler.dashboard.server import check_address, serving
from crawler.demo.web import serve
from crawler.messages import Note
from crawler.ports import UserError
from crawler.session import Bound, State, Status

ROOT = Path(__file__).parent.parent


def status(tmp_path: Path) -> Status:
    board = Board(tmp_path / 'evil"\n', settings("session.max_pages=50"), 2)
    note = Note(
        *(10, 1000, 5, 1),
        good=8,
        statuses=[0, 8, 1, 1, 0],
        by_failure={"status 404": 1, "timeout": 1},
        connections=4,
        fetching=4,
        memory=10**8,
    )
    board.update(0, note)
    board.update(1, Note(7, 500, 0, 0, connections=0))
    return board.status(State.CRAWLING)


def samples(text: str) -> dict[tuple[str, str], float]:
    """The values of a text in Prometheus's format, by name and label."""
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            (label,) = one.labels.values() or [""]
            found[one.name, label] = one.value
    return found


def test_the_metrics_of_a_status(tmp_path: Path) -> None:
    found = samples(exposition(status(tmp_path)).decode())
    assert found["abc_pages_total", "0"] == 10
    assert found["abc_pages_total", "1"] == 7
    assert found["abc_session_pages", ""] == 17
    assert found["abc_max_pages", ""] == 50
    assert found["abc_responses_total", "2xx"] == 8
    assert found["abc_failures_total", "status 404"] == 1
    assert found["abc_resident_memory_bytes", "0"] == 10**8
    assert found["abc_state", "crawling"] == 1
    assert found["abc_state", "paused"] == 0
    assert found["abc_limited_by", Bound.CONCURRENCY.value] == 1
    assert found["abc_session_info", f'{tmp_path}/evil"\n'] == 1


def test_the_docs_name_each_metric(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "watching.md").read_text()
    named = set(re.findall(r"^\| `(abc_\w+)` \|", text, re.MULTILINE))
    assert named == {name for name, _ in samples(exposition(status(tmp_path)).decode())}


def test_the_dashboard_for_grafana_asks_for_metrics_that_there_are(tmp_path: Path) -> None:
    known = samples(exposition(status(tmp_path)).decode())
    by_name: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(exposition(status(tmp_path)).decode()):
        for one in family.samples:
            by_name.setdefault(one.name, set()).update(one.labels)
    panels = json.loads((ROOT / "configs" / "grafana.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    for panel in panels:
        for target in panel["targets"]:
            names = re.findall(r"abc_\w+", target["expr"])
            assert names
            assert set(names) <= {name for name, _ in known}
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert labels <= by_name[names[0]]


@contextmanager
def taken() -> Iterator[str]:
    """An address at which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


def free() -> str:
    with taken() as address:
        return address


def test_an_address_that_can_not_be_used_is_refused(tmp_path: Path) -> None:
    async def attempt(listen: str) -> None:
        async with serving(listen, lambda: status(tmp_path)):
            raise AssertionError("somebody else listens there")

    with taken() as address:
        for check in (check_address, lambda listen: asyncio.run(attempt(listen))):
            with pytest.raises(UserError, match=f"dashboard.listen = '{address}': .*; name a free"):
                check(address)
    check_address(free())
    with pytest.raises(UserError, match=r"dashboard\.listen"):
        check_address("203.0.113.7:80")  # of another machine
    for wrong in (":8080", "127.0.0.1:99999", "http://127.0.0.1:80", "a b:1"):
        with pytest.raises(UserError, match="must be a host or an address with a port"):
            config.load(None, [f"dashboard.listen={wrong}"])


def test_a_crawl_is_scraped(tmp_path: Path) -> None:
    """Rank 0 answers while it crawls; a second crawl at the address is refused before it begins."""
    session, listen = tmp_path / "s", free()
    words = ["--session", str(session), "-q"]
    words += sets(f"dashboard.listen={listen}", "politeness.delay_s=0.5")
    with serve(5, 60, 4) as (web, port):
        config_file = demo_config(tmp_path / "c.toml", web, port)
        crawl = ["crawl", str(config_file)]

        async def scrape() -> tuple[dict[tuple[str, str], float], str]:
            running = asyncio.ensure_future(
                asyncio.to_thread(run_unverified, *crawl, *words, "--max-pages", "12")
            )
            while not running.done():
                await asyncio.sleep(0.1)
                try:
                    text = await asyncio.to_thread(read, f"http://{listen}/metrics")
                except OSError:
                    continue
                found = samples(text)
                if found["abc_session_pages", ""]:
                    other = ["--session", str(tmp_path / "t"), *words[2:]]
                    refused = await asyncio.to_thread(run_unverified, *crawl, *other)
                    assert refused.returncode == 2
                    assert not (tmp_path / "t").exists()
                    done = await running
                    assert done.returncode == 0, done.stderr
                    return found, refused.stderr
            raise AssertionError(running.result().stderr)

        found, refused = asyncio.run(scrape())
    assert found["abc_state", "crawling"] == 1
    assert found["abc_session_info", str(session)] == 1
    assert 0 < found["abc_session_pages", ""] <= metrics_of(session)["pages"] == 12
    assert f"dashboard.listen = '{listen}'" in refused


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.read().decode()
