"""Whole crawls in which several ranks hold URLs of one site, as its server sees them.

The server notes when each request arrives. A rank waits from the end of a request to the start of
the next; so the arrivals are at least as far apart, however busy the machine is.
"""

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import crawl_here, page_rows, run_here, sets
from servers import Page, PageServer

from partition import partvector

RANKS = 3
DELAY_S = 0.15
PAGES = 20
HTML = {"Content-Type": "text/html"}


def site(robots: bytes = b"") -> dict[str, Page | bytes]:
    """Pages in a directory for each rank. The first page leads to all of them."""
    paths = [f"/{number % RANKS}/{number}" for number in range(PAGES)]
    pages: dict[str, Page | bytes] = {path: Page(b"", headers=HTML) for path in paths}
    pages["/"] = Page("".join(f"<a href={path}>" for path in paths).encode(), headers=HTML)
    if robots:
        pages["/robots.txt"] = Page(robots)
    return pages


def crawl(
    mpirun: MpiRun, session: Path, server: PageServer, *settings: str, hosts: int = 1
) -> None:
    names = [f"h{number}.test" for number in range(hosts)]
    addresses = ", ".join(f'"{name}" = "127.0.0.1:{server.port}"' for name in names)
    done = mpirun(
        RANKS, "-m", "crawler", "crawl", *(f"http://{name}/" for name in names),
        "--session", str(session),
        *sets(
            f"politeness.delay_s={DELAY_S}",
            "fetch.allow_private_addresses=true",
            f"dns.hosts={{{addresses}}}",
            *settings,
        ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def smallest_gap(times: list[float]) -> float:
    return min(later - earlier for earlier, later in pairwise(sorted(times)))


def test_ranks_that_share_a_site_by_url_hash_ask_it_in_turn(tmp_path: Path, mpirun: MpiRun) -> None:
    with PageServer(site()) as server:
        crawl(mpirun, tmp_path / "s", server, "assignment.scheme=url-hash")
    assert smallest_gap(server.times) >= DELAY_S
    rows = page_rows(tmp_path / "s")
    assert len({row["rank"] for row in rows}) == RANKS
    assert sorted(row["url"] for row in rows) == sorted(
        ["http://h0.test/", *(f"http://h0.test/{n % RANKS}/{n}" for n in range(PAGES))]
    )


def test_a_site_that_a_part_vector_splits_has_one_clock(tmp_path: Path, mpirun: MpiRun) -> None:
    vector = tmp_path / "v.parts"
    partvector.write(
        vector,
        parts=RANKS,
        sites={"h0.test": 0},
        directories={f"http://h0.test/{part}/": part for part in range(RANKS)},
        model="hybrid",
    )
    with PageServer(site(b"User-agent: *\nCrawl-delay: 0.3\n")) as server:
        crawl(
            mpirun,
            tmp_path / "s",
            server,
            "assignment.scheme=part-vector",
            f"assignment.part_vector={vector}",
        )
    assert smallest_gap(server.times) >= DELAY_S
    asked = server.paths.index("/robots.txt")
    assert smallest_gap(server.times[asked:]) >= 0.3
    assert len({row["rank"] for row in page_rows(tmp_path / "s")}) == RANKS


@pytest.mark.parametrize(
    "mode", [pytest.param("independent", marks=pytest.mark.slow), "cross-over"]
)
def test_ranks_that_go_to_each_others_sites_ask_in_turn(
    tmp_path: Path, mpirun: MpiRun, mode: str
) -> None:
    pages = site()
    for number in range(10, PAGES):
        del pages[f"/{number % RANKS}/{number}"]
    with PageServer(pages) as server:
        crawl(mpirun, tmp_path / "s", server, f"session.mode={mode}", hosts=1)
    assert smallest_gap(server.times) >= DELAY_S


def test_an_address_has_one_clock_whichever_ranks_own_its_sites(
    tmp_path: Path, mpirun: MpiRun
) -> None:
    with PageServer({"/": Page(b"<a href=/1>", headers=HTML), "/1": b""}) as server:
        crawl(mpirun, tmp_path / "s", server, "politeness.per=address", hosts=8)
    assert smallest_gap(server.times) >= DELAY_S
    rows = page_rows(tmp_path / "s")
    assert len(rows) == 16
    assert len({row["rank"] for row in rows}) > 1


def test_with_several_connections_a_crawl_delay_holds_from_the_first_page_on(
    tmp_path: Path, mpirun: MpiRun
) -> None:
    with PageServer(site(b"User-agent: *\nCrawl-delay: 0.3\n")) as server:
        crawl(
            mpirun,
            tmp_path / "s",
            server,
            "assignment.scheme=url-hash",
            "politeness.connections_per_site=3",
        )
    # Requests start at least 0.3 s apart. They may arrive a little closer, but not all of them.
    times = sorted(server.times)
    assert times[-1] - times[0] >= 0.3 * (len(times) - 2)


# --- a robots.txt that another site has -----------------------------------------------------------

REDIRECTS = {  # of robots.txt, by host
    "h0.test": "http://h1.test/robots.txt",  # an own file of another site of the crawl
    "h1.test": "http://h2.test/rules",
    "h2.test": "http://h1.test/rules",  # they wait for each other
    "h3.test": "http://h3.test/moved",  # back after a way over two others
    "h4.test": "http://h5.test/loop",
    "h6.test": "http://beyond.test/rules",  # not in the scope
    "h7.test": "http://gone.test/rules",  # no such host
}
FURTHER = {
    ("h3.test", "/moved"): "http://h4.test/back",
    ("h4.test", "/back"): "http://h3.test/rules",
    ("h5.test", "/loop"): "http://h4.test/loop",
    ("h4.test", "/loop"): "http://h5.test/loop",
}
DENIED = {"h0.test", "h1.test", "h2.test", "h3.test", "h6.test"}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(("assignment.scheme=site-hash",), marks=pytest.mark.slow),
        pytest.param(("assignment.scheme=url-hash",), marks=pytest.mark.slow),
        ("politeness.per=address",),
        pytest.param(("session.mode=independent",), marks=pytest.mark.slow),
        pytest.param(("politeness.connections_per_site=2",), marks=pytest.mark.slow),
        pytest.param(("session.mode=firewall",), marks=pytest.mark.slow),
    ],
    ids=lambda settings: settings[0],
)
def test_a_robots_txt_elsewhere_is_asked_for_in_the_time_of_its_site(
    tmp_path: Path, mpirun: MpiRun, settings: tuple[str, ...]
) -> None:
    rules = Page(b"User-agent: *\nDisallow: /2\n")
    pages = {
        "/": Page(b"<a href=/1></a><a href=/2></a>", headers=HTML),
        "/1": Page(b"", headers=HTML),
        "/2": Page(b"", headers=HTML),
        "/rules": rules,
    }
    moves = {**{(host, "/robots.txt"): to for host, to in REDIRECTS.items()}, **FURTHER}
    by_host: dict[str, dict[str, Page | bytes]] = {}
    for (host, path), to in moves.items():
        by_host.setdefault(host, {})[path] = Page(status=302, headers={"Location": to})
    with PageServer(pages, by_host) as server:
        known = [*(f"h{number}.test" for number in range(8)), "beyond.test"]
        addresses = ", ".join(f'"{name}" = "127.0.0.1:{server.port}"' for name in known)
        done = mpirun(
            RANKS, "-m", "crawler", "crawl", *(f"http://{name}/" for name in known[:-1]),
            "--session", str(tmp_path / "s"),
            *sets(
                f"politeness.delay_s={DELAY_S}",
                "fetch.allow_private_addresses=true",
                f"dns.hosts={{{addresses}}}",
                "retry.tries=1",
                *settings,
            ),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    by_address = "politeness.per=address" in settings
    asked: dict[str, list[float]] = {}
    for host, when in zip(server.hosts, server.times, strict=True):
        asked.setdefault("" if by_address else host, []).append(when)
    for times in asked.values():
        slack = DELAY_S / 3 if "politeness.connections_per_site=2" in settings else 0.0
        assert smallest_gap([0.0, *times]) >= DELAY_S - slack
    errors = {row["url"]: row["error"] for row in page_rows(tmp_path / "s")}
    for host in known[:-2]:
        assert errors[f"http://{host}/1"] is None
        denied = "robots-denied" if host in DENIED else None
        assert errors[f"http://{host}/2"] == denied, host
    assert errors["http://h7.test/"] == "dns-not-found"
    assert "http://beyond.test/" not in errors
    assert run_here("verify", str(tmp_path / "s")).returncode == 0


# --- from one run to the next -------------------------------------------------------------------


def resume(session: Path, *words: str) -> None:
    done = run_here("resume", str(session), *words)
    assert done.returncode in {0, 75}, done.stderr


def test_a_resume_keeps_the_crawl_delay_after_the_last_request(tmp_path: Path) -> None:
    with PageServer(site(b"User-agent: *\nCrawl-delay: 3\n")) as server:
        words = sets(f"politeness.delay_s={DELAY_S}", "fetch.concurrency=1")
        done = crawl_here(tmp_path / "s", f"{server.url}/", "--max-pages", "1", *words)
        assert done.returncode == 0, done.stderr
        before = len(server.times)
        resume(tmp_path / "s", "--max-pages", "2")
        assert server.times[before] - server.times[before - 1] >= 3
    assert len(server.times) > before


def test_a_resume_keeps_the_rest_that_a_busy_server_asked_for(tmp_path: Path) -> None:
    busy = Page(b"", status=429, headers={"Retry-After": "6"})
    with PageServer({"/": busy}) as server:
        done = crawl_here(
            tmp_path / "s", f"{server.url}/", "--max-time", "2s", *sets("politeness.delay_s=0.1")
        )
        assert done.returncode == 75, done.stderr
        asked = server.times[server.paths.index("/")]
        before = len(server.times)
        resume(tmp_path / "s", "--max-time", "8s")
        assert server.times[before] - asked >= 6


def test_after_a_kill_sites_rest_before_they_are_asked_again(tmp_path: Path) -> None:
    """The last request may be missing in the log. So all of the delay counts from the resume."""
    with PageServer(site(b"User-agent: *\nCrawl-delay: 2\n")) as server:
        words = ["--session", str(tmp_path / "s"), f"{server.url}/"]
        words += sets("fetch.allow_private_addresses=true", f"politeness.delay_s={DELAY_S}")
        with subprocess.Popen(
            [sys.executable, "-m", "crawler", "crawl", *words], stdout=subprocess.DEVNULL
        ) as process:
            while len(server.times) < 3:
                assert process.poll() is None
                time.sleep(0.02)
            process.kill()
        before, killed = len(server.times), time.monotonic()
        resume(tmp_path / "s", "--max-pages", "3")
        assert server.times[before] - killed >= 2
