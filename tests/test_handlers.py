"""Page handlers: their processes, their rows, and what becomes of both when something fails."""

import asyncio
import json
import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from crawls import crawl_here, metrics_of, run_here, run_unverified, sets
from fetches import response
from plugged import Install
from servers import Page, PageServer

import crawler
from crawler import config
from crawler.agent import handlers
from crawler.agent.handlers import Handler, check_handlers, handle_stage, open_handlers
from crawler.handling import Task
from crawler.ports import CrawlUrl, Fetched, UserError
from crawler.report.verify import verify
from crawler.session import log_files

HTML = {"Content-Type": "text/html; charset=iso-8859-1"}
SOURCE = """
import os, signal, sys, time
print("loaded")
def mine(page):
    what = page.url.rpartition("/")[2]
    if what == "one":
        yield {"title": page.tree.css_first("title").text(), "at": page.fetched_at}
        yield {}
    elif what == "none":
        return
    elif what == "midway":
        yield {"title": "lost"}
        raise KeyError("midway")
    elif what == "exit":
        sys.exit(3)
    elif what == "end":
        os._exit(7)
    elif what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "endless":
        while True:
            time.sleep(0.1)
    elif what == "words":
        yield "text"
    elif what == "ours":
        yield {"url": "mine"}
    elif what == "set":
        yield {"values": object()}
    elif what == "head":
        yield {"headers": dict(page.headers), "status": page.status, "text": page.text}
"""


def task(what: str) -> Task:
    body = "<title>é</title>".encode("latin-1")
    return Task(f"http://a.example/{what}", 0.5, 200, [("X-A", "b")], body, HTML["Content-Type"])


@pytest.fixture
def chosen(install: Install) -> config.Config:
    install("handlers", "mine", SOURCE)
    return config.load(None, ['extract.handlers=["mine"]'])


def ask(settings: config.Config, *tasks: str) -> tuple[list[bytes], int]:
    """The rows of each page, and the number of errors."""

    async def main() -> tuple[list[bytes], int]:
        async with open_handlers(settings) as (handler,):
            return [await handler.rows(task(one)) for one in tasks], handler.errors.count

    return asyncio.run(main())


def test_the_rows_of_a_page(chosen: config.Config) -> None:
    """What a handler prints doesn't come between."""
    rows, errors = ask(chosen, "one", "none", "head")
    one, none, head = (list(map(json.loads, lines.splitlines())) for lines in rows)
    assert one == [{"title": "é", "at": "1970-01-01T00:00:00.500000Z"}, {}]
    assert not none
    assert head == [{"headers": {"X-A": "b"}, "status": 200, "text": "<title>é</title>"}]
    assert not errors


def test_what_goes_wrong_in_a_handler_costs_only_the_rows_of_the_page(
    chosen: config.Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handlers, "_PAGE_S", 5.0)
    wrong = {
        "midway": "KeyError: 'midway'",
        "exit": "SystemExit: 3",
        "end": "its process ended with code 7",
        "crash": f"its process ended with signal {signal.SIGSEGV:d}",
        "words": "TypeError: gave 'text', not a row: a mapping of names to values",
        "ours": "ValueError: gave a row with 'url', which each row has already",
        "set": "TypeError: Encoding objects of type object is unsupported",
        "endless": "no answer after 5 s",
    }
    with caplog.at_level(logging.ERROR, "crawler"):
        rows, errors = ask(chosen, *wrong, "one")
    assert [bool(one) for one in rows] == [False] * len(wrong) + [True]
    assert errors == len(wrong)
    assert caplog.messages == [
        f"plug-in mine (extract.handlers) failed on http://a.example/{what}: {words}"
        for what, words in wrong.items()
    ]
    assert 'raise KeyError("midway")' in caplog.records[0].about["traceback"]  # type: ignore[attr-defined]


def test_a_handler_that_always_fails_is_switched_off(
    chosen: config.Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handlers, "_IN_A_ROW", 3)
    rows, errors = ask(chosen, *["midway"] * 2, "one", *["midway"] * 4, "one")
    assert [bool(one) for one in rows] == [False, False, True, *[False] * 5]
    assert errors == 5
    assert caplog.messages[-1].startswith("plug-in mine is switched off on this rank, after 3")


def test_the_process_of_a_handler_ends_with_the_crawler(chosen: config.Config) -> None:
    """Also if it never comes back from a page."""

    async def main() -> int:
        handler = Handler("mine", chosen)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await handler.rows(task("endless"))
        process = handler._process
        assert process
        assert process.stdin
        process.stdin.close()  # as the death of this process would
        return await process.wait()

    assert asyncio.run(main()) == 0


def test_only_html_pages_with_a_body_are_handled() -> None:
    """All others are passed on as well, in their order."""
    handled: list[str] = []

    class Noting:
        def __init__(self, name: str) -> None:
            self.errors = type("", (), {"name": name})

        async def rows(self, task: Task) -> bytes:
            handled.append(task.url)
            return b"{}\n" if self.errors.name == "a" else b""

    def fetched(number: int, body: bytes, status: int = 200, kind: str = "text/html") -> Fetched:
        url = f"http://a.example/{number}"
        made = response(url, body, status=status, headers=[(b"Content-Type", kind.encode())])
        return Fetched(CrawlUrl(number, url, "a.example", 0), 0.0, made)

    pages = [
        fetched(0, b"<p>"),
        fetched(1, b""),
        fetched(2, b"<p>", 404),
        fetched(3, b"<p>", kind="image/png"),
        Fetched(CrawlUrl(4, "http://a.example/4", "a.example", 0), 0.0),
        fetched(5, b"<p>"),
    ]

    async def main() -> list[Fetched]:
        to_handle, to_parse = asyncio.Queue[Fetched](), asyncio.Queue[Fetched](1)
        for page in pages:
            to_handle.put_nowait(page)
        both: Sequence[Handler] = [Noting("a"), Noting("b")]  # type: ignore[list-item]
        stage = asyncio.create_task(handle_stage(to_handle, both, to_parse))
        passed = [await to_parse.get() for _ in pages]
        await to_handle.join()
        stage.cancel()
        return passed

    assert asyncio.run(main()) == pages
    assert handled == [url for url in ("http://a.example/0", "http://a.example/5") for _ in "ab"]
    assert [page.rows for page in pages] == [{"a": b"{}\n"}, {}, {}, {}, {}, {"a": b"{}\n"}]


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("def yours(page): pass", "", "extract.handlers = 'mine': .* has no mine"),
        ("import os; os._exit(5)", "", "the process ended with code 5 while it was loaded"),
        ("def mine(page): pass", "{a = 1}", "plugins.mine: .* takes no options"),
    ],
)
def test_a_handler_that_cannot_be_used(
    install: Install, source: str, options: str, words: str
) -> None:
    install("handlers", "mine", source)
    options_key = [f"plugins.mine={options}"] if options else []
    with pytest.raises(UserError, match=words) as error:
        check_handlers(config.load(None, ['extract.handlers=["mine"]', *options_key]))
    assert "\n" not in str(error.value)


# --- whole crawls -----------------------------------------------------------------------------

PATHS = [f"/{number}" for number in range(12)]
LINKS = "".join(f'<a href="{path}">x</a>' for path in PATHS).encode()


@pytest.fixture(scope="module")
def served() -> Iterator[PageServer]:
    pages = {path: Page(LINKS, headers={"Content-Type": "text/html"}) for path in ("/", *PATHS)}
    with PageServer(pages) as server:
        yield server


COUNTING = """
def mine(page):
    if page.url.endswith("/3"):
        raise ValueError("three")
    yield from ({"number": number} for number in range(2))
"""


def crawl(directory: Path, served: PageServer, *more: str) -> None:
    words = sets("politeness.delay_s=0", 'extract.handlers=["mine"]', *more)
    done = crawl_here(directory, f"{served.url}/", *words)
    assert done.returncode == 0, done.stderr


def rows_of(directory: Path) -> Counter[tuple[str, int]]:
    rows = crawler.Session(directory).rows("mine")
    return Counter((row["url"].rpartition("/")[2], row["number"]) for row in rows)


EACH_ONCE = Counter(
    (path.strip("/"), number) for path in ("/", *PATHS) if path != "/3" for number in range(2)
)


def test_rows_of_a_crawl_that_was_stopped_and_killed(
    install: Install, served: PageServer, tmp_path: Path
) -> None:
    """A page that is cut off in the log is fetched again, and no row is there twice."""
    install("handlers", "mine", COUNTING)
    session = tmp_path / "s"
    crawl(session, served, "session.max_pages=9")
    assert sum(rows_of(session).values()) in {16, 18}
    (log,) = log_files(session)
    os.truncate(log, log.stat().st_size - 5)
    for file in session.glob("rank-*/snapshot"):
        file.unlink()
    done = run_unverified("resume", str(session), "--max-pages", "0")  # no run was killed
    assert done.returncode == 0, done.stderr
    assert rows_of(session) == EACH_ONCE
    assert metrics_of(session)["plugin_errors"] == {"mine": 1}
    assert "Plug-ins failed: mine 1" in " ".join(done.stdout.split())
    row = next(crawler.Session(session).rows("mine"))
    assert list(row) == ["url", "fetched_at", "number"]
    assert not list(crawler.Session(session).rows("others"))
    with pytest.raises(UserError, match="no name of a page handler"):
        list(crawler.Session(session).rows("../mine"))
    table = session / "tables" / "mine" / "00000.jsonl"
    content = table.read_bytes()
    for changed, words in (
        (content.replace(b'"number":1', b'"number":2', 1), "are others than in the log"),
        (content + b"{}\n", "more rows than the logs give"),
    ):
        table.write_bytes(changed)
        verdict = verify(session)
        assert not verdict.sound
        assert any("mine/00000.jsonl" in line and words in line for line in verdict.lines)


@pytest.mark.slow
def test_a_crawl_ends_in_time_while_a_handler_is_at_work(
    install: Install, served: PageServer, tmp_path: Path
) -> None:
    """Pages that the handler hasn't finished are fetched again by a resume."""
    slow = "import time\ndef mine(page):\n    time.sleep(1)\n    yield {'number': 0}\n"
    install("handlers", "mine", slow)
    session = tmp_path / "s"
    words = sets("politeness.delay_s=0", 'extract.handlers=["mine"]', "session.stop_grace=0.1s")
    done = crawl_here(session, f"{served.url}/", *words, "--max-time", "3s")
    assert done.returncode == 75, done.stderr
    (path,) = tmp_path.rglob("plugin_*.py")
    path.write_text(slow.replace("sleep(1)", "sleep(0)"))
    done = run_here("resume", str(session), "--max-time", "0")
    assert done.returncode == 0, done.stderr
    assert rows_of(session) == Counter((path.strip("/"), 0) for path in ("/", *PATHS))
