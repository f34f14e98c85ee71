"""Requisites: what pages need to be shown, from the text of a page to whole crawls."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from cluster import Cluster, Listed, few_examples, link, run
from conftest import MpiRun
from crawls import (
    crawl_here,
    metrics_of,
    page_rows,
    run_here,
    run_unverified,
    sets,
    write_config,
)
from doc_web import CDN, DOCS, FONTS, HOSTS, PAGES, REQUISITES, SEED, WEB
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer
from test_kill import Start, pids, wait_for_death

from crawler import config, session
from crawler.core.outcomes import DONE
from crawler.core.schemes import SiteHash, UrlHash
from crawler.core.visits import Visit
from crawler.ports import Link, is_requisite, requisite, without_mark
from crawler.reading.parse import sheets
from crawler.reading.parse.elements import Form
from crawler.reading.parse.requisites import of_page
from crawler.reading.requisites import MOST_STEPS
from crawler.reading.steps import finish
from crawler.url import own_key, site
from partition import evaluate, graph

# --- what a page needs


def needs(html: str, form: Form = Form.HTML) -> list[str]:
    """What a page at http://h/a/p needs, relative to http://h/."""
    found = finish(of_page(html, "http://h/a/p", "utf-8", form, 1000, 1 << 20))
    return [address.removeprefix("http://h/") for address in found]


@pytest.mark.parametrize(
    ("html", "needed"),
    [
        ("<script src=x.js></script>", ["a/x.js"]),
        ("<link rel=stylesheet href=x.css>", ["a/x.css"]),
        ("<link rel='alternate STYLESHEET' href=x.css>", ["a/x.css"]),
        ("<link rel='shortcut icon' href=/x.ico>", ["x.ico"]),
        ("<link rel=preload imagesrcset='x.png 1x' href=y.png>", ["a/y.png", "a/x.png"]),
        ("<link rel=next href=x.html><a href=y><iframe src=z></iframe>", []),
        ("<img src=x.png srcset='y.png 1x, z.png 2x'>", ["a/x.png", "a/y.png", "a/z.png"]),
        ("<picture><source srcset='x.png 100w'></picture>", ["a/x.png"]),
        ("<svg><use xlink:href='x.svg#i'/><use href='#here'/></svg>", ["a/x.svg"]),
        ("<svg><image href=x.png /></svg>", ["a/x.png"]),
        ("<video poster=x.png src=y.webm><track src=z.vtt>", ["a/y.webm", "a/x.png", "a/z.vtt"]),
        ("<object data=x.svg></object><embed src=y.svg>", ["a/x.svg", "a/y.svg"]),
        ("<input type=IMAGE src=x.png><input src=y.png>", ["a/x.png"]),
        ("<body background=x.png><table><td background='y.png'>", ["a/x.png", "a/y.png"]),
        ("<p style='background: url(x.png)'>", ["a/x.png"]),
        ("<p style='background: url(&quot;x.png&quot;)'>", ["a/x.png"]),
        ("<style>@import 'x.css'; p { background: URL( y.png ) }</style>", ["a/x.css", "a/y.png"]),
        ("<img src=x.png><base href=/b/>", ["b/x.png"]),
        ("<img src='data:image/png;base64,AA'><img src=''><img src='#'>", []),
        ("<!-- <img src=x.png> --><script>'<img src=y.png>'</script>", []),
        ("<template><style>p { background: url(x.png) }</style></template>", []),
        ("<noscript><img src=x.png></noscript>", ["a/x.png"]),
    ],
)
def test_a_page_needs_what_its_elements_name(html: str, needed: list[str]) -> None:
    assert needs(html) == needed


def test_xhtml_is_read_by_the_rules_of_xml() -> None:
    text = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><script src="x.js"/>'
        '<script src="y.js"> </script>'
        "<style><![CDATA[ @import 'z.css'; ]]></style><img src='i.png'/>"
        '<svg xmlns="http://www.w3.org/2000/svg"><use href="u.svg#i"/></svg></html>'
    )
    assert needs(text, Form.XHTML) == ["a/x.js", "a/y.js", "a/z.css", "a/i.png", "a/u.svg"]


# --- what a style sheet needs


def of_sheet(text: str) -> list[str]:
    return [reference for reference in sheets.references(text) if reference is not None]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        (
            "@import 'x.css'; @import \"y.css\" print; @IMPORT url(z.css);",
            ["x.css", "y.css", "z.css"],
        ),
        ("@import/* why */'x.css'", ["x.css"]),
        ("a { b: url(x.png) } /* url(y.png) */ c { d: url( 'z.png' ) }", ["x.png", "z.png"]),
        ("a { content: 'url(x.png)'; b: url(\"it's.png\") }", ["it's.png"]),
        ("@namespace svg url(http://www.w3.org/2000/svg); a { b: url(x.png) }", ["x.png"]),
        (r"a { b: url(x\20 y.png) } c { d: url('\78 .png') }", ["x y.png", "x.png"]),
        (
            "@font-face { src: url(x.eot?#iefix), url(y.woff) format('woff') }",
            ["x.eot?#iefix", "y.woff"],
        ),
        ("a { b: curl(x.png); c: my-url(y.png) }", []),
        ("a { b: url(x.png", []),
        ("/* no end url(x.png)", []),
        ("a { b: 'no end\n; c: url(x.png) }", ["x.png"]),
    ],
)
def test_a_sheet_needs_what_it_imports_and_shows(text: str, needed: list[str]) -> None:
    assert of_sheet(text) == needed


_NAME = st.text("abz09-_./", min_size=1, max_size=8)
_WAYS = ("@import '{}';", '@import "{}" print;', "p {{ a: url({}) }}", "p {{ a: url( '{}' ) }}")
_NOISE = ("/* url(no) '*/", "p { content: 'url(no)' }", "@media x { b { c: d } }", '\\"', " ")


@given(st.lists(st.tuples(st.sampled_from(_WAYS), _NAME, st.sampled_from(_NOISE)), max_size=20))
def test_references_are_found_among_anything(pieces: list[tuple[str, str, str]]) -> None:
    text = "".join(way.format(name) + noise for way, name, noise in pieces)
    assert of_sheet(text) == [name for _, name, _ in pieces]


@given(st.text(r"""@import url()'"\/* a;{}""" + "\n", max_size=60))
def test_any_text_is_a_sheet(text: str) -> None:
    of_sheet(text)


# --- cores of several ranks, in any order of events


class _Web:
    """Pages and files with random links and needs. A file may be a page as well."""

    def __init__(self, dice: random.Random) -> None:
        sites = [f"http://{letter}.example" for letter in "abcd"[: dice.randint(1, 4)]]
        pages = [f"{dice.choice(sites)}/p{number}" for number in range(dice.randint(1, 15))]
        files = [f"{dice.choice(sites)}/f{number}" for number in range(dice.randint(1, 15))]
        self.start = pages[0]
        self.links = {
            page: dice.sample(pages, dice.randint(0, min(4, len(pages)))) for page in pages
        }
        every = [*files, *pages[:2]]
        self.needs = {one: dice.sample(every, dice.randint(0, min(4, len(every)))) for one in every}
        self.needs |= {page: dice.sample(every, dice.randint(0, 2)) for page in pages}

    def reach(self, most_hops: float) -> tuple[set[str], set[str]]:
        """The pages that a crawl fetches, and the files that they need, by way of others or not."""
        hops, waiting = {self.start: 0}, [self.start]
        for page in waiting:
            for target in self.links[page] if hops[page] < most_hops else ():
                if target not in hops:
                    hops[target] = hops[page] + 1
                    waiting.append(target)
        steps: dict[str, int] = {}
        needed = [(name, 1) for page in hops for name in self.needs[page]]
        for name, step in needed:
            if name not in steps:
                steps[name] = step
                needed += [(other, step + 1) for other in self.needs[name]]
        return set(hops), set(steps)


class _Cluster(Cluster):
    """Cores to which pages and files bring what they need."""

    web: _Web

    def end(
        self, rank: int, links: Sequence[Link] = (), *, response: bool = True, index: int = 0
    ) -> Visit:
        core, visit = self.cores[rank], self.visits[rank].pop(index)
        core.end(visit, DONE, self.now)
        names = map(requisite, self.web.needs[visit.found.address])
        wanted = [Link(own_key(name), name, site(name), 0) for name in names]
        for _ in core.stored(visit.found, links, self.now, response=response, requisites=wanted):
            pass
        self.tick(rank)
        return visit


@few_examples
@given(
    st.integers(0, 1 << 32),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0, 1, "unlimited"]),
)
def test_every_page_and_every_requisite_is_asked_for_once(
    seed: int, ranks: int, by_site: bool, max_hops: int | str
) -> None:
    dice = random.Random(seed)
    web = _Web(dice)
    scheme = SiteHash(ranks) if by_site else UrlHash(ranks)
    hops = "inf" if max_hops == "unlimited" else max_hops
    orders = ("breadth-first", "depth-first", "opic")
    chosen = [
        f'scope.max_hops="{max_hops}"' if max_hops == "unlimited" else f"scope.max_hops={max_hops}"
    ]
    chosen += ["politeness.delay_s=0", f"frontier.order={dice.choice(orders)}"]
    cluster = _Cluster(scheme, ranks, config.load(None, chosen))
    cluster.web = web
    cluster.start(web.start)

    def answer(visit: Visit) -> tuple[list[Link], bool]:
        found = visit.found
        targets = () if found.is_requisite else web.links[found.url]
        return [Link(own_key(one), one, site(one), 0) for one in targets], True

    asked = Counter(name for _, name in run(cluster, dice, answer))
    assert cluster.complete
    assert set(asked.values()) == {1}
    pages, files = (
        {name for name in asked if not is_requisite(name)},
        set(map(without_mark, filter(is_requisite, asked))),
    )
    everything, needed = web.reach(float(hops))
    if max_hops != 1:  # else a page may be found by a longer way first
        assert pages == everything
    assert files <= needed | everything
    assert files | pages >= needed
    assert sum(core.pages for core in cluster.cores) == len(pages)


def test_what_is_known_as_a_page_is_no_requisite() -> None:
    """Here, and at the rank that owns it, to which the link is sent before."""
    cluster = _Cluster(Listed(2, {"a.example": 0, "b.example": 1}), 2)
    start = "http://a.example/"
    both, needed = ["http://a.example/x", "http://b.example/x"], "http://b.example/y"
    cluster.web = SimpleNamespace(needs={start: [*both, needed]})  # type: ignore[assignment]
    cluster.start(start)
    assert cluster.acquire(0) == start
    cluster.end(0, list(map(link, both)))
    cluster.now += 10
    cluster.tick(0)
    cluster.settle()
    assert cluster.cores[0].waiting == 1
    assert cluster.acquire(1) == requisite(needed)  # it comes before the page
    assert cluster.cores[1].waiting == 1


# --- whole crawls


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with PageServer({}, WEB) as served:
        yield served


def configure(path: Path, port: int, **extract: object) -> Path:
    return write_config(
        path / "c.toml",
        {
            "session": {"seeds": [SEED]},
            "politeness": {"delay_s": 0},
            "extract": {"requisites": True, **extract},
            "dns": {"hosts": dict.fromkeys(HOSTS, f"127.0.0.1:{port}")},
            "fetch": {"allow_private_addresses": True},
        },
    )


def by_role(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    roles: dict[str, list[object]] = {"page": [], "requisite": []}
    for row in rows:
        roles[str(row["role"])].append(row["url"])
    return roles


def test_a_crawl_fetches_what_its_pages_need(tmp_path: Path, server: PageServer) -> None:
    directory = tmp_path / "s"
    done = run_here("crawl", str(configure(tmp_path, server.port)), "--session", str(directory))
    assert done.returncode == 0, done.stderr
    roles = by_role(rows := page_rows(directory))
    assert sorted(roles["page"]) == sorted(PAGES)
    assert sorted(roles["requisite"]) == sorted(REQUISITES)
    hops = {row["url"]: row["hops"] for row in rows}
    assert hops[f"http://{CDN}/logo.png"] == 1
    assert hops[f"http://{DOCS}/css/theme/colours.css"] == 2
    assert hops[f"http://{FONTS}/hand.woff2"] == 4  # a page, main.css, colours.css, hand.css

    metrics = metrics_of(directory)
    assert metrics["pages"] == len(PAGES)
    assert metrics["requisites"] == len(REQUISITES)
    assert metrics["failed_requisites"] == 1
    assert metrics["bytes"] == sum(row["bytes"] for row in rows if row["role"] == "page")
    assert metrics["overview"]["sites"] == 1
    assert "Requisites" in done.stdout

    links = pq.read_table(directory / "tables" / "links").to_pylist()
    assert {row["target_url"] for row in links} == PAGES - {SEED} | {"http://other.test/"}
    web = graph.from_sessions([directory / "tables"])
    assert web.pages == len(PAGES)

    lines = (directory / "rank-00000" / "crawl.log").read_text().splitlines()
    paths = {line.split()[3]: line.split()[4] for line in lines}
    assert paths[f"http://{FONTS}/hand.woff2"] == "EEEE"


def test_hops_and_pages_are_counted_without_requisites(tmp_path: Path, server: PageServer) -> None:
    """A list and no more, but whole."""
    words = str(configure(tmp_path, server.port)), "--session", str(tmp_path / "s")
    run_here("crawl", *words, *sets("scope.max_hops=0"))
    roles = by_role(page_rows(tmp_path / "s"))
    assert roles["page"] == [SEED]
    assert f"http://{FONTS}/hand.woff2" in roles["requisite"]
    assert f"http://{DOCS}/img/plan.png" in roles["requisite"]  # no link is followed to it


@pytest.mark.slow
def test_a_limit_on_pages_is_one_on_pages(tmp_path: Path, server: PageServer) -> None:
    words = str(configure(tmp_path, server.port)), "--session", str(tmp_path / "s")
    run_here("crawl", *words, "--max-pages", "3", *sets("fetch.concurrency=1"))
    roles = by_role(page_rows(tmp_path / "s"))
    assert len(roles["page"]) == 3
    assert f"http://{DOCS}/css/main.css" in roles["requisite"]


def test_robots_txt_and_exclude_hold_for_requisites(tmp_path: Path) -> None:
    rules = Page(b"User-agent: *\nDisallow: /", headers={"Content-Type": "text/plain"})
    with PageServer({}, {**WEB, CDN: {**WEB[CDN], "/robots.txt": rules}}) as server:
        words = str(configure(tmp_path, server.port)), "--session", str(tmp_path / "s")
        run_here("crawl", *words, "--set", 'scope.exclude=["/img/"]')
    rows = {row["url"]: row for row in page_rows(tmp_path / "s")}
    assert rows[f"http://{CDN}/logo.png"]["error"] == "robots-denied"
    assert not any("/img/" in address for address in rows)
    skipped = (tmp_path / "s" / "report" / "skipped.jsonl").read_text()
    assert "requisite: robots-denied" in skipped


def test_sheets_that_need_each_other_without_end_are_left(tmp_path: Path) -> None:
    sheet = {"Content-Type": "text/css"}
    chain = {f"/{n}.css": Page(f"@import '{n + 1}.css'".encode(), headers=sheet) for n in range(30)}
    start = Page(b"<link rel=stylesheet href=0.css>", headers={"Content-Type": "text/html"})
    with PageServer({**chain, "/": start}) as server:
        chosen = sets("extract.requisites=true", "politeness.delay_s=0")
        crawl_here(tmp_path / "s", server.url, *chosen)
    assert sorted(row["hops"] for row in page_rows(tmp_path / "s")) == [
        0,
        *range(1, MOST_STEPS + 1),
    ]


def test_dynamic_assignment_is_refused(tmp_path: Path) -> None:
    chosen = sets("extract.requisites=true", "assignment.scheme=dynamic")
    done = run_unverified("crawl", "http://127.0.0.1:9/", "--session", str(tmp_path / "s"), *chosen)
    assert done.returncode == 2
    assert "extract.requisites = true: assignment.scheme = 'dynamic' can't" in done.stderr


@pytest.mark.slow
def test_a_later_session_asks_conditionally(tmp_path: Path) -> None:
    """What hasn't changed needs what it has needed."""
    tag = {"ETag": '"1"'}
    tagged = {
        host: {path: _with(page, tag) for path, page in its.items()} for host, its in WEB.items()
    }
    same = {
        host: {path: Page(status=304) if page.status == 200 else page for path, page in its.items()}
        for host, its in WEB.items()
    }
    roles = []
    for name, web, words in (
        ("s", tagged, []),
        ("t", same, sets(f"session.previous={tmp_path / 's'}")),
    ):
        with PageServer({}, web) as server:
            path = str(configure(tmp_path, server.port))
            run_here("crawl", path, "--session", str(tmp_path / name), *words)
        roles.append(by_role(page_rows(tmp_path / name)))
    assert 304 in {row["status"] for row in page_rows(tmp_path / "t") if row["role"] == "requisite"}
    for role in ("page", "requisite"):
        assert sorted(roles[0][role]) == sorted(roles[1][role])


def _with(page: Page, headers: Mapping[str, str]) -> Page:
    return page._replace(headers={**page.headers, **headers})


def test_a_resume_fetches_what_pages_of_earlier_runs_need(
    tmp_path: Path, server: PageServer
) -> None:
    directory = tmp_path / "s"
    words = str(configure(tmp_path, server.port)), "--session", str(directory), "--resume"
    for most in (1, 3):  # the second run begins with the snapshot of the first
        run_here("crawl", *words, "--max-pages", str(most), *sets("fetch.concurrency=1"))
    (directory / "rank-00000" / "snapshot").unlink()  # then the logs are read
    run_here("crawl", *words, "--max-pages", "0")
    roles = by_role(page_rows(directory))
    assert sorted(roles["page"]) == sorted(PAGES)
    assert sorted(roles["requisite"]) == sorted(REQUISITES)


@pytest.mark.parametrize(
    ("mode", "scheme", "store"),
    [
        ("exchange", "url-hash", "auto"),
        pytest.param("exchange", "site-hash", "drum", marks=pytest.mark.slow),
        pytest.param("exchange", "site-hash", "veuniq", marks=pytest.mark.slow),
        pytest.param("cross-over", "site-hash", "auto", marks=pytest.mark.slow),
        pytest.param("independent", "site-hash", "auto", marks=pytest.mark.slow),
        pytest.param("firewall", "site-hash", "auto", marks=pytest.mark.slow),
    ],
)
def test_ranks_share_requisites(
    tmp_path: Path, mpirun: MpiRun, server: PageServer, mode: str, scheme: str, store: str
) -> None:
    directory = tmp_path / "s"
    words = "crawl", str(configure(tmp_path, server.port)), "--session", str(directory)
    chosen = sets(f"session.mode={mode}", f"assignment.scheme={scheme}", f"seen.store={store}")
    done = mpirun(3, "-m", "crawler", *words, *chosen)
    assert done.returncode == 0, done.stderr
    roles = by_role(page_rows(directory))
    assert set(roles["page"]) == PAGES
    if mode == "firewall":
        assert set(roles["requisite"]) < REQUISITES
        return
    assert set(roles["requisite"]) - PAGES == REQUISITES
    if mode == "exchange":
        assert len(roles["page"]) == len(PAGES)
        assert len(roles["requisite"]) == len(set(roles["requisite"]))
        metrics = metrics_of(directory)
        assert metrics["inter_part_requisites"] > 0
        # The theorem holds for pages and their links, as before.
        part = evaluate.url_hash if scheme == "url-hash" else evaluate.site_hash
        web = graph.from_sessions([directory / "tables"])
        counts = evaluate.evaluate(web, part(web, 3), 3)
        assert counts.transmissions_target_part == metrics["transmissions_target_part"]


@pytest.mark.slow
def test_a_killed_crawl_goes_on(
    tmp_path: Path, start_mpirun: Start, mpirun: MpiRun, server: PageServer
) -> None:
    directory = tmp_path / "s"
    words = ["-m", "crawler", "crawl", str(configure(tmp_path, server.port))]
    words += ["--session", str(directory), "--resume", "--set", "politeness.delay_s=0.05"]
    for _ in range(3):
        with start_mpirun(2, *words) as crawl:
            before = sum(one.bytes for one in session.log_sizes(directory))
            while crawl.poll() is None:
                if sum(one.bytes for one in session.log_sizes(directory)) > before + 2000:
                    break
                time.sleep(0.02)
            for pid in pids(directory):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            crawl.communicate(timeout=60)
        wait_for_death(directory)
    assert mpirun(2, *words).returncode == 0
    roles = by_role(page_rows(directory))
    assert sorted(roles["page"]) == sorted(PAGES)
    assert sorted(roles["requisite"]) == sorted(REQUISITES)
