"""What rank 0 tells by HTTP."""

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from browser import BROWSER, browsing
from cluster import settings
from crawls import demo_config, metrics_of, run_unverified, sets
from prometheus_client.parser import text_string_to_metric_families

from crawler import config, session
from crawler.agent.board import Board
from crawler.asking import as_json
from crawler.asking import ask as find
from crawler.dashboard.first import look_first
from crawler.dashboard.guard import Guard
from crawler.dashboard.metrics import exposition
from crawler.dashboard.server import check_address, serving
from crawler.demo.web import serve
from crawler.messages import Note
from crawler.ports import UserError
from crawler.report.findings import Severity
from crawler.session import Bound, RankStatus, State, Status

ROOT = Path(__file__).parent.parent


def status(tmp_path: Path) -> Status:
    board = Board(tmp_path / 'evil"\n', settings("session.max_pages=50"), 2)
    note = Note(
        *(10, 1000, 5, 1),
        good=8,
        statuses=[0, 8, 1, 1, 0],
        by_failure={"status 404": 1, "timeout": 1},
        plugin_errors={"mine": 2},
        connections=4,
        fetching=4,
        memory=10**8,
        urls_to={1: 1234},
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
    assert found["abc_plugin_errors_total", "mine"] == 2
    assert found["abc_resident_memory_bytes", "0"] == 10**8
    assert found["abc_state", "crawling"] == 1
    assert found["abc_state", "paused"] == 0
    assert found["abc_limited_by", Bound.CONCURRENCY.value] == 1
    assert found["abc_session_info", f'{tmp_path}/evil"\n'] == 1


def test_the_docs_name_each_metric(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text()
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
        async with serving(listen, tmp_path, lambda: status(tmp_path)):
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
    directory, listen = tmp_path / "s", free()
    words = ["--session", str(directory), "-q"]
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
    assert found["abc_session_info", str(directory)] == 1
    assert 0 < found["abc_session_pages", ""] <= metrics_of(directory)["pages"] == 12
    assert f"dashboard.listen = '{listen}'" in refused


# --- the page ---------------------------------------------------------------------------------


def begun(directory: Path) -> Path:
    """A session that is being crawled, as far as its files say."""
    chosen = settings("session.max_pages=50")
    session.create(directory, chosen, 2, 2, ["http://a.example/"])
    return directory


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[tuple[ClientSession, str]]:
    """A client, and the address of a server."""
    listen = free()
    async with (
        serving(listen, directory, lambda: status(directory)),
        ClientSession() as client,
    ):
        yield client, f"http://{listen}"


async def token_of(client: ClientSession, address: str) -> str:
    async with client.get(f"{address}/") as answer:
        assert answer.status == 200
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        found = re.search(r'name="token" content="([\w-]+)"', await answer.text())
        assert found
        return found[1]


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (client, address):
            await token_of(client, address)
            for name in ("", "dashboard.js", "dashboard.css", "style.css"):
                async with client.get(f"{address}/{name}") as answer:
                    text = await answer.text()
                    assert answer.status == 200
                    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                assert "https://" not in text
                assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
                assert "innerHTML" not in text

    asyncio.run(scenario())


def test_events_tell_the_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (client, address), client.get(f"{address}/events") as answer:
            lines = [(await answer.content.readline()).decode() for _ in range(5)]
            assert lines[0] == "event: series\n"
            told = json.loads(lines[3].removeprefix("data: "))
            assert told["status"]["pages"] == 17
            assert len(told["point"]) == 5
            assert told["point"][1] == told["status"]["pages_per_second"]
            assert told["point"][3] == told["status"]["waiting"] == 5
            assert told["head"][0][0] == "state"
            assert told["first"][-1]["title"] == "The crawl is limited by no URLs"

    asyncio.run(scenario())


def test_a_browser_that_comes_late_gets_the_curves_so_far(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (client, address):
            series: list[list[float]] = []
            while len(series) < 3:
                await asyncio.sleep(0.5)
                async with client.get(f"{address}/events") as answer:
                    assert await answer.content.readline() == b"event: series\n"
                    line = await answer.content.readline()
                    series = json.loads(line.removeprefix(b"data: "))
            assert all(len(point) == 5 for point in series)

    asyncio.run(scenario())


def rows(**changes: Any) -> list[RankStatus]:
    """Two ranks with the same load, of which the first differs as told."""
    values: dict[str, Any] = dict.fromkeys(RankStatus.__struct_fields__, 0)
    values |= {"connections": 4, "pages": 100, "urls_to": {}, "bound": Bound.DELAYS}
    return [RankStatus(**values | changes), RankStatus(**values | {"rank": 1})]


def running(**changes: Any) -> Status:
    values: dict[str, Any] = {"session": "s", "state": State.CRAWLING, "time": 0.0, "started": 0.0}
    values |= {"seconds": 100.0, "ranks": 2, "pages": 200, "max_pages": 0, "rows": rows()}
    return Status(**values | changes)


@pytest.mark.parametrize(
    ("status", "titles"),
    [
        (running(state=State.REPORTING, early=2), []),
        (running(), ["The crawl is limited by no URLs"]),
        (running(bound=Bound.CPU), ["The crawl is limited by CPU"]),
        (running(state=State.PAUSED, early=2), ["Sites were asked too early 2 times"]),
        (running(rows=rows(silent_s=12.3)), ["Rank 0 has told nothing for 12 s", "The crawl"]),
        (running(rows=rows(bound=Bound.DISK)), ["Rank 0 waits for room on its disk", "The crawl"]),
        (running(rows=rows(pages=111)), ["Rank 0 has 5% more pages than the average", "The crawl"]),
        (running(rows=rows(pages=110)), ["The crawl is limited"]),
        (running(rows=rows(pages=200), seconds=59.0), ["The crawl is limited"]),
        (running(rows=rows(pages=0)), ["1 of 2 ranks have fetched nothing: rank 0", "The crawl"]),
        (running(rows=rows(pages=0, connections=0)), ["The crawl is limited"]),
        (
            running(good=88, failed=12, by_failure={"timeout": 10, "dns-failed": 1, "internal": 1}),
            ["This program failed on 1 pages", "10 of 100 URLs were not fetched: timeout", "The"],
        ),
        (running(good=10, failed=90, by_failure={"status 404": 90}), ["The crawl is limited"]),
    ],
)
def test_what_to_look_at_first_while_a_crawl_runs(status: Status, titles: list[str]) -> None:
    found = look_first(status)
    assert [one.title[: len(title)] for one, title in zip(found, titles, strict=True)] == titles
    order = [Severity.BAD, Severity.WARNING, Severity.NOTE]
    assert [order.index(one.severity) for one in found] == sorted(
        order.index(one.severity) for one in found
    )
    page = (ROOT / "crawler" / "dashboard" / "page" / "index.html").read_text()
    assert all(f'id="{one.section}"' in page and one.cause for one in found)


def test_orders_are_obeyed(tmp_path: Path) -> None:
    directory = begun(tmp_path / "s")

    async def scenario() -> None:
        async with served(directory) as (client, address):
            headers = {"Origin": address, "X-Token": await token_of(client, address)}

            async def order(name: str, **body: str) -> tuple[int, str]:
                post = client.post(f"{address}/{name}", headers=headers, json=body)
                async with post as answer:
                    return answer.status, await answer.text()

            assert "pauses" in (await order("pause"))[1]
            assert session.is_paused(directory)
            assert "goes on" in (await order("continue"))[1]
            assert not session.is_paused(directory)
            seeds = "http://a.example/2\nhttp://b.example/"
            assert (await order("add-seeds", seeds=seeds))[0] == 200
            assert session.added_seeds(directory)[0] == seeds.split()
            for wrong in ({"seeds": "nonsense"}, {"seeds": ""}, {}):
                code, why = await order("add-seeds", **wrong)
                assert code == 400
                assert why
            (directory / "paused").mkdir()
            assert (await order("continue"))[0] == 400  # the file can't be removed
            (directory / "paused").rmdir()
            assert "is stopping" in (await order("stop"))[1]
            assert session.is_asked_to_stop(directory)
            assert (await order("format"))[0] == 404

    asyncio.run(scenario())


def test_a_question_is_answered_as_by_the_command(tmp_path: Path) -> None:
    directory = begun(tmp_path / "s")

    async def scenario() -> None:
        async with served(directory) as (client, address):
            headers = {"Origin": address, "X-Token": await token_of(client, address)}

            async def ask(**body: str) -> tuple[int, str]:
                post = client.post(f"{address}/ask", headers=headers, json=body)
                async with post as answer:
                    return answer.status, await answer.text()

            code, said = await ask(about="http://a.example/")
            assert code == 200
            told = as_json(find(directory, "http://a.example/"))
            assert json.loads(said) == json.loads(json.dumps(told))
            assert await ask(about="a b") == (400, wrong("a b"))
            assert (await ask())[0] == 400

    def wrong(about: str) -> str:
        with pytest.raises(UserError) as refused:
            find(directory, about)
        return str(refused.value)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "change",
    [
        {"X-Token": ""},
        {"X-Token": "wrong"},
        {"X-Token": "\xe9"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "evil.example:80", "Origin": "http://evil.example:80"},
    ],
)
def test_orders_of_other_pages_are_refused(tmp_path: Path, change: dict[str, str]) -> None:
    directory = begun(tmp_path / "s")

    async def scenario() -> None:
        async with served(directory) as (client, address):
            headers = {"Origin": address, "X-Token": await token_of(client, address)} | change
            async with client.post(f"{address}/pause", headers=headers) as answer:
                assert answer.status == 403
            if "Host" in change:
                async with client.get(f"{address}/", headers=headers) as answer:
                    assert answer.status == 403
                async with client.get(f"{address}/metrics", headers=headers) as answer:
                    assert answer.status == 200
        assert not session.is_paused(directory)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1:80", True),
        ("127.0.0.1", True),
        ("[::1]:80", True),
        ("[::1]", True),
        ("LOCALHOST:80", True),
        ("node1:80", True),
        ("node2:80", False),
        ("node1.evil.example", False),
        ("", False),
    ],
)
def test_the_names_of_this_server(host: str, here: bool) -> None:
    assert Guard("node1")._is_here(host) is here


@pytest.mark.skipif(not BROWSER, reason="needs chromium-headless-shell")
@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("dark", 1280, marks=pytest.mark.slow),
        pytest.param("light", 390, marks=pytest.mark.slow),
    ],
)
def test_a_browser_shows_the_page_and_gives_orders(tmp_path: Path, theme: str, width: int) -> None:
    directory = begun(tmp_path / "s")

    async def scenario() -> None:
        async with served(directory) as (_, address), browsing(tmp_path) as browser:
            await browser.open(f"{address}/", width, theme)
            await browser.until("document.getElementById('head').innerText.includes('crawling')")
            rows = await browser.evaluate("document.querySelectorAll('#ranks tbody tr').length")
            assert rows == 2
            sent = "document.querySelector('#matrix tbody').innerText.includes('1,234')"
            assert await browser.evaluate(sent)
            across = "document.documentElement.scrollWidth"
            assert await browser.evaluate(across) <= width
            colour = "getComputedStyle(document.body).backgroundColor"
            dark = await browser.evaluate(colour) == "rgb(18, 21, 24)"
            assert dark is (theme == "dark")
            await browser.evaluate("document.getElementById('pause').focus()")
            await browser.press_enter()
            await browser.until("document.getElementById('answer').textContent.includes('pauses')")
            assert session.is_paused(directory)
            await browser.evaluate(
                "document.getElementById('seeds').value = 'http://a.example/<b>'"
            )
            await browser.evaluate("document.querySelector('form button').focus()")
            await browser.press_enter()
            await browser.until("document.getElementById('answer').textContent.includes('1 seed')")
            await browser.evaluate("document.getElementById('about').focus()")
            await browser.call("Input.insertText", text="http://a.example/")
            await browser.press_enter()
            await browser.until("document.getElementById('says').innerText.includes('not fetched')")
            assert await browser.evaluate(across) <= width
            assert not browser.complaints
            found = await browser.accessibility()
            assert not found["violations"], json.dumps(found["violations"], indent=1)[:5000]
            assert len(found["passes"]) > 10
            await browser.evaluate("document.getElementById('about').value = 'a b'")
            await browser.press_enter()
            await browser.until("document.getElementById('asked').innerText.includes('neither')")

    asyncio.run(scenario())


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.read().decode()
