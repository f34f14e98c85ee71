"""The report of a session, as a page and on a terminal: what it says, and what it looks like."""

import base64
import copy
import json
import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import MpiRun
from crawls import metrics_of, page_rows, run_here, sets
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer

from crawler.pages.words import duration, percent, short_url, size
from crawler.ports import Failure
from crawler.report import view
from crawler.report.explanations import advice, explained_alone, meaning
from crawler.report.findings import find, what_limited
from crawler.report.outcomes import GOOD, Outcome, failure_of, outcome_of
from crawler.report.overview import _Elapsed
from crawler.report.page import page
from crawler.report.summary import brief, summary
from crawler.session import Alone, alone

_HTML = {"Content-Type": "text/html"}
_HOSTS = ("a.example", "b.example", "c.example")
_EVIL = "/<script>alert(1)</script>&x='\""


def _served() -> PageServer:
    """Three hosts of ten pages: links between them, dead links, a robots.txt, a failing page."""
    by_host = {}
    for number, host in enumerate(_HOSTS):
        following = _HOSTS[(number + 1) % len(_HOSTS)]
        pages: dict[str, Page | bytes] = {
            "/robots.txt": Page(b"User-agent: *\nDisallow: /hidden\n"),
            "/broken": Page(status=500),
            "/moved": Page(status=301, headers={"Location": "/9"}),
        }
        for at in range(10):
            links = [f"/{at + 1}", f"http://{following}/{at}", "/moved", "/hidden", "/broken"]
            links += ["/gone/1", f"/gone/{at}", "http://elsewhere.example/x", _EVIL]
            body = "".join(f'<a href="{link.replace(chr(34), "%22")}">x</a>' for link in links)
            pages[f"/{at}"] = Page(body.encode(), headers=_HTML)
        by_host[host] = pages
    return PageServer({}, by_host)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, mpirun: MpiRun) -> tuple[Path, str]:
    """A session of two ranks with all kinds of outcomes; and what the crawl has printed."""
    directory = tmp_path_factory.mktemp("report") / "a <b>&session"
    with _served() as server:
        hosts = dict.fromkeys(_HOSTS, f"127.0.0.1:{server.port}")
        table = ", ".join(f"{json.dumps(name)} = {json.dumps(at)}" for name, at in hosts.items())
        done = mpirun(
            2,
            *("-m", "crawler", "crawl", "http://a.example/0", "http://nowhere.invalid/"),
            *("--session", str(directory)),
            *sets(
                f"dns.hosts={{{table}}}",
                'dns.nameservers=["127.0.0.1:9"]',
                "dns.timeout_s=0.1",
                "dns.tries=1",
                "retry.tries=1",
                'scope.hosts=["a.example", "b.example", "c.example", "nowhere.invalid"]',
                "fetch.allow_private_addresses=true",
                "politeness.delay_s=0.01",
            ),
        )
    assert done.returncode == 0, done.stderr
    return directory, done.stdout


def _html(session: Path) -> str:
    return (session / "report" / "index.html").read_text()


# --- what it says -----------------------------------------------------------------------------


def test_the_overview_counts_what_the_tables_hold(crawled: tuple[Path, str]) -> None:
    session, _ = crawled
    rows, seen = page_rows(session), metrics_of(session)["overview"]
    outcomes = [outcome_of(row["status"], row["error"]) for row in rows]
    for outcome in Outcome:
        assert seen["outcomes"].get(outcome.value, 0) == outcomes.count(outcome)
    assert set(seen["outcomes"]) == {
        *("fetched", "redirected", "missing or refused", "server trouble"),
        *("no answer", "not asked for"),
    }
    assert seen["urls"] == len(rows) == sum(seen["outcomes"].values())
    assert seen["good"] == sum(outcome in GOOD for outcome in outcomes)
    failures = [failure_of(row["status"], row["error"]) for row in rows]
    for error in seen["errors"]:
        its = [row for row, what in zip(rows, failures, strict=True) if what == error["error"]]
        assert error["urls"] == len(its)
        assert error["sites"] == len({row["site"] for row in its})
        assert error["examples"] == [row["url"] for row in its][:3]
    assert {one["error"] for one in seen["errors"]} == set(failures) - {None}
    timeline = seen["timeline"]
    rates = np.array(timeline["pages_per_second"]) + np.array(timeline["failed_per_second"])
    assert rates.sum() * timeline["bin_seconds"] == pytest.approx(len(rows), abs=0.1)
    sites = {row["site"]: row for row in seen["largest_sites"]}
    assert sites["a.example"]["pages"] == sum(
        row["site"] == "a.example" and row["status"] is not None for row in rows
    )


def test_the_matrix_holds_the_urls_that_each_rank_has_sent(crawled: tuple[Path, str]) -> None:
    metrics = metrics_of(crawled[0])
    matrix = view.matrix(metrics)
    assert matrix is not None
    sums = [sum(row) for row in matrix.counts]
    assert sums == [one["inter_part_urls"] for one in metrics["ranks"]]
    assert sum(sums) == metrics["inter_part_urls"] > 0
    assert matrix.counts[0][0] == matrix.counts[1][1] == 0


def test_the_terminal_and_the_page_tell_the_same(crawled: tuple[Path, str]) -> None:
    session, printed = crawled
    metrics, text = metrics_of(session), _text(_html(session))
    assert printed.strip() == brief(metrics).strip()
    told = run_here("report", str(session))
    assert told.stdout.strip() == summary(metrics).strip()
    for finding in metrics["findings"]:
        assert finding["title"] in text
        assert finding["title"] in " ".join(printed.split())
    for error in metrics["overview"]["errors"]:
        assert error["meaning"][1:] in text
        assert error["meaning"][:30] in " ".join(told.stdout.split())
    assert "1 of 2 seeds failed" in text
    for line in (*printed.splitlines(), *told.stdout.splitlines()):
        assert len(line) <= 80 or line.lstrip().startswith("$")  # a command stays in one piece


def test_nothing_on_the_page_is_active_or_from_elsewhere(crawled: tuple[Path, str]) -> None:
    html = _html(crawled[0])
    tags = _Tags(html)
    assert not tags.names & {"script", "img", "link", "iframe", "object", "form", "base"}
    for names in tags.attributes:
        assert not {name for name in names if name.startswith("on") or name in {"style", "src"}}
    assert all(target.startswith("#") for target in tags.targets)
    assert {target[1:] for target in tags.targets} <= tags.ids
    style = re.search("<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(sha256(style[1].encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].replace("&#39;", "'").startswith("default-src 'none'; ")
    assert digest in policy[1].replace("&#43;", "+")
    assert "a &lt;b&gt;&amp;session" in html


def test_the_page_of_a_huge_session_is_small(crawled: tuple[Path, str]) -> None:
    """500 ranks, each error class and status, and URLs as long as they may be."""
    metrics = copy.deepcopy(metrics_of(crawled[0]))
    dice = random.Random(1)
    rank = metrics["ranks"][0]
    metrics["ranks"] = [
        {
            **rank,
            "rank": number,
            "host": f"node-{number // 8:03}.cluster.example",
            "pages": dice.randrange(1000),
            "urls_to": {str(to): dice.randrange(10**6) for to in range(500)},
        }
        for number in range(500)
    ]
    long = "http://a.example/" + "x" * 4000
    seen = metrics["overview"]
    every = [*Failure, *(f"status {status}" for status in range(400, 600))]
    seen["errors"] = [
        {
            "error": str(what),
            "urls": 10**9,
            "sites": 10**6,
            "meaning": meaning(what),
            "advice": advice(what),
            "examples": [long] * 3,
        }
        for what in every
    ]
    for name in ("largest_sites", "closest_gaps"):
        seen[name] = [{**row, "site": "x" * 250} for row in seen[name]]
    lost = {"url": long, "status": 404, "error": None, "links": 9, "linked_from": [long] * 3}
    group = {"directory": long, "urls": 10**6, "links": 10**9, "example": lost}
    seen["broken_by_directory"] = [group] * 10
    seen["skipped"] = {f"scope.exclude: {'x' * 200}{number}": 10**9 for number in range(1000)}
    seen["outside"] = [{"host": "x" * 250, "links": 10**9}] * 10
    seeds = [{"seed": long, "url": long, "what": "status 404"}] * 1000
    metrics["failed_seeds"] = metrics["redirected_seeds"] = seeds
    html = page(metrics)
    assert len(html.encode()) < 300_000
    assert "500" in html
    assert len(summary(metrics).splitlines()) < 300
    for count in range(6):
        finding = {"title": "tt " * 30, "cause": "c " * 150, "command": "x", "severity": "bad"}
        metrics["findings"] = [finding] * count
        lines = brief(metrics).splitlines()
        assert len(lines) <= 40
        assert sum("tt" in line for line in lines) == 2 * count
        assert lines[-1] == f"$ python -m crawler report '{metrics['session']}'"


def test_what_limited_a_crawl_is_what_was_shown_while_it_ran(crawled: tuple[Path, str]) -> None:
    metrics = copy.deepcopy(metrics_of(crawled[0]))
    seen = metrics["overview"]
    seen["slowest_site"] = {"site": "a.example", "seconds": 90.0}
    metrics["seconds"] = 100.0
    seen["limited_by"] = {}
    assert not what_limited(metrics)
    seen["limited_by"] = {"CPU": 30, "site delays": 60, "no URLs": 10}
    said = "site delays, for 60% of the time; those of a.example alone take 90 s"
    assert what_limited(metrics) == said
    assert f"What limited the speed: {said}" in " ".join(brief(metrics).split())
    assert f"What limited the speed: {said}" in " ".join(summary(metrics).split())
    assert f"What limited the speed: {said}" in _text(page(metrics))
    seen["limited_by"] = {"slow answers": 2}
    assert what_limited(metrics) == "slow answers, for 100% of the time"


def test_a_session_of_one_rank_that_fetched_nothing_has_a_page(tmp_path: Path) -> None:
    done = run_here(
        *("crawl", "http://nowhere.invalid/", "--session", str(tmp_path / "s")),
        *sets('dns.nameservers=["127.0.0.1:9"]', "dns.timeout_s=0.1", "dns.tries=1"),
        *sets("retry.tries=1", "fetch.allow_private_addresses=true"),
    )
    assert done.returncode == 1
    assert "nothing fetched" in done.stdout
    text = _text(_html(tmp_path / "s"))
    assert "1 of 1 seeds failed" in text
    assert "nothing fetched" in text


def test_findings_are_at_most_five_and_the_worst_come_first(crawled: tuple[Path, str]) -> None:
    metrics = copy.deepcopy(metrics_of(crawled[0]))
    metrics |= {"complete": False, "reason": "max_pages", "waiting": 5, "max_pages": 10}
    metrics |= {"internal_errors": 2, "torn_logs": ["x"], "lost_ranks": 1, "imbalance_bytes": 0.5}
    metrics["politeness"] |= {
        "kept": False,
        "impolite": 3,
        "impolite_sites": 1,
        "smallest_gap": 0.5,
        "promised_gap": 1.0,
        "site": "a.example",
    }
    found = find(metrics)
    assert len(found) == 5
    order = ["bad", "warning", "note"]
    assert [order.index(one.severity) for one in found] == sorted(
        order.index(one.severity) for one in found
    )
    assert "too early 3 times" in found[1].title
    metrics["internal_errors"], metrics["torn_logs"], metrics["lost_ranks"] = 0, [], 0
    assert any("max_pages" in one.title for one in find(metrics)) == (len(find(metrics)) < 5)


def test_an_idle_rank_is_named_but_no_server_and_no_spare(crawled: tuple[Path, str]) -> None:
    metrics = copy.deepcopy(metrics_of(crawled[0]))
    metrics["ranks"] = [{**metrics["ranks"][0], "rank": rank, "pages": 9} for rank in range(4)]
    metrics["ranks"][2]["pages"] = 0
    (idle,) = [one for one in find(metrics) if "fetched nothing" in one.title]
    assert "1 of 4 ranks fetched nothing: rank 2" in idle.title
    metrics["ranks"][2]["server"] = True
    assert not [one for one in find(metrics) if "fetched nothing" in one.title]
    metrics["ranks"][2]["server"] = False
    metrics |= {"dynamic": {"servers": [0]}, "spares": 2}
    assert not [one for one in find(metrics) if "fetched nothing" in one.title]


def _lines(session: Path, name: str) -> list[dict[str, Any]]:
    text = (session / "report" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _links(session: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(session / "tables" / "links").to_pylist()
    return rows


def test_each_known_url_without_a_response_is_listed_once_with_its_reason(
    crawled: tuple[Path, str],
) -> None:
    session, _ = crawled
    rows = {row["url"]: row for row in page_rows(session)}
    links = _links(session)
    known = {link["target_url"] for link in links} | {"http://nowhere.invalid/"}
    told = _lines(session, "skipped")
    assert len({one["url"] for one in told}) == len(told)
    reasons = {one["url"]: one["reason"] for one in told}
    assert set(reasons) == {
        url for url in known | set(rows) if url not in rows or rows[url]["status"] is None
    }
    assert reasons["http://a.example/hidden"] == "robots-denied"
    assert reasons["http://elsewhere.example/x"].startswith("out of scope: no host")
    seen = metrics_of(session)["overview"]
    assert seen["skipped"] == dict(Counter(reasons.values()))
    (host,) = _lines(session, "outside")
    count = sum(link["target_url"].startswith("http://elsewhere") for link in links)
    assert host == {"host": "elsewhere.example", "links": count}


def test_broken_links_are_counted_and_their_sources_named(crawled: tuple[Path, str]) -> None:
    session, _ = crawled
    rows = {row["key"]: row for row in page_rows(session)}
    sources = defaultdict(list)
    for link in _links(session):
        sources[link["target_key"]].append(rows[link["source_key"]]["url"])
    gone = {key: row for key, row in rows.items() if row["status"] == 404 and sources[key]}
    told = {one["url"]: one for one in _lines(session, "broken")}
    assert set(told) == {row["url"] for row in gone.values()}
    for key, row in gone.items():
        assert told[row["url"]]["links"] == len(sources[key])
        assert set(told[row["url"]]["linked_from"]) <= set(sources[key])
        assert len(told[row["url"]]["linked_from"]) == min(3, len(sources[key]))
    groups = metrics_of(session)["overview"]["broken_by_directory"]
    assert sum(group["links"] for group in groups) == sum(map(len, (sources[key] for key in gone)))
    directories = [group["directory"] for group in groups]
    assert "http://a.example/gone/" in directories


def test_limits_and_nofollow_are_reasons(tmp_path: Path) -> None:
    body = b'<a href=/far>x</a><a rel=nofollow href=/no>x</a><a href="/out?x">x</a>'
    pages: dict[str, Page | bytes] = {
        "/": Page(b"<a href=/near>x</a><a href=/late>x</a>", headers=_HTML),
        "/near": Page(body, headers=_HTML),
        "/late": Page(b"", headers=_HTML),
    }
    with PageServer(pages) as server:
        words = ["fetch.allow_private_addresses=true", "politeness.delay_s=0"]
        words += ["scope.max_hops=1", 'scope.exclude=["[?]x$"]', "robots.obey_nofollow=true"]
        for name, more in (("whole", []), ("cut", ["session.max_pages=2"])):
            directory = tmp_path / name
            done = run_here(
                *("crawl", f"{server.url}/", "--session", str(directory)), *sets(*words, *more)
            )
            assert done.returncode == 0
    reasons = {one["url"]: one["reason"] for one in _lines(tmp_path / "whole", "skipped")}
    assert {url.removeprefix(server.url): reason for url, reason in reasons.items()} == {
        "/far": "too many hops from a seed (scope.max_hops, traps.max_depth)",
        "/no": "nofollow: the page asks not to follow the link",
        "/out?x": "out of scope: scope.exclude: [?]x$",
    }
    left = {one["url"]: one["reason"] for one in _lines(tmp_path / "cut", "skipped")}
    assert "waiting: max_pages ended the crawl" in left.values()


# --- pure pieces ------------------------------------------------------------------------------


@given(st.sampled_from([None, *range(200, 600)]), st.sampled_from([None, *Failure]))
def test_each_row_has_an_outcome_and_a_bad_one_an_explanation(
    status: int | None, error: Failure | None
) -> None:
    what = failure_of(status, error)
    assert (what is None) == (outcome_of(status, error) in GOOD)
    if what is not None and (status, error) != (None, None):
        assert meaning(what)
        assert advice(what)
        assert not re.search(r"SESSION|`", explained_alone(what))


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1), min_size=1, max_size=4))
def test_time_between_runs_is_left_out(gaps: list[list[int]]) -> None:
    """Runs with requests some time apart, and a long time between the runs."""
    starts, times, now = [], [], 1000.0
    for run in gaps:
        now += 10**7
        starts.append(now)
        for gap in run:
            now += gap
            times.append(now)
    clock = alone(_Elapsed.together(np.array(times), starts, Alone()))
    assert clock is not None
    assert clock.total == sum(sum(run[1:]) for run in gaps)
    elapsed = clock.elapsed(np.array(times))
    assert (np.diff(elapsed) >= 0).all()
    assert (elapsed[0], elapsed[-1]) == (0, clock.total)
    for passed in elapsed.tolist():
        run, moment = clock.moment(passed)
        assert clock.elapsed(np.array([moment]))[0] == pytest.approx(passed)
        assert starts[run] <= moment


@given(st.floats(0, 10**9))
def test_a_duration_is_short_and_right(seconds: float) -> None:
    units = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    parts = re.findall(r"([\d.]+) (\w+)", duration(seconds))
    assert 1 <= len(parts) <= 2
    told = sum(float(count) * units[unit] for count, unit in parts)
    assert abs(told - seconds) <= max(
        0.51, units[parts[0][1]] / 2 if len(parts) > 1 else 0.51, 3600
    )


@given(st.text(max_size=300), st.integers(10, 100))
def test_a_long_url_keeps_its_beginning_and_its_end(address: str, longest: int) -> None:
    short = short_url(address, longest)
    assert len(short) <= longest
    assert short == address or (address[:5] == short[:5] and address[-3:] == short[-3:])


def test_numbers_have_units() -> None:
    assert (size(999), size(1500), size(2_500_000)) == ("999 B", "1.5 kB", "2.5 MB")
    assert (percent(0.5), percent(None)) == ("50.0 %", "unknown")
    assert (duration(3.21), duration(75), duration(3600)) == ("3.2 s", "1 min 15 s", "1 h")


# --- in a browser -----------------------------------------------------------------------------

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_SAFE = (
    *("--no-sandbox", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser: no playwright")
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        pytest.skip("no browser: apt-get install chromium-headless-shell")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=program, args=_SAFE)
        yield running
        running.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_accessible_and_fits(
    crawled: tuple[Path, str], chromium: Any, width: int, theme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no browser: no axe")
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=theme, bypass_csp=True
    )
    shown = context.new_page()
    shown.goto((crawled[0] / "report" / "index.html").as_uri())
    shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert shown.evaluate("document.documentElement.scrollWidth") == width
    found = axe.Axe().run(shown).response
    assert not found["violations"], json.dumps(found["violations"], indent=1)[:5000]
    assert len(found["passes"]) > 10
    background = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 300) == (theme == "dark")
    context.close()


def test_the_browser_keeps_to_the_policy_of_the_page(
    crawled: tuple[Path, str], chromium: Any
) -> None:
    """The style counts, and a script that gets into the page doesn't run."""
    context = chromium.new_context()
    shown, said = context.new_page(), []
    shown.on("console", lambda message: said.append(message.text))
    target = crawled[0] / "report" / "index.html"
    shown.goto(target.as_uri())
    assert (
        shown.evaluate("getComputedStyle(document.querySelector('section')).borderRadius") == "8px"
    )
    assert not said
    bad = target.with_name("bad.html")
    bad.write_text(target.read_text().replace("</main>", "<script>document.title=1</script>"))
    shown.goto(bad.as_uri())
    assert shown.title() != "1"
    assert any("Content Security Policy" in text for text in said)
    context.close()


class _Tags(HTMLParser):
    """The tags of a page, and their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[set[str]] = []
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.append({name for name, _ in attrs})
        self.targets += [value or "" for name, value in attrs if name == "href"]
        self.ids |= {value or "" for name, value in attrs if name == "id"}


def _text(html: str) -> str:
    parser, texts = HTMLParser(), list[str]()
    parser.handle_data = texts.append  # type: ignore[method-assign]
    parser.feed(html)
    return " ".join(" ".join(texts).split())
