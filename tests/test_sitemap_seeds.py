"""A sitemap as a seed: what it lists counts as seeds, on any rank and after a resume."""

import gzip
import json
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import assert_sound, crawl_here, page_rows, run_here, sets
from servers import Page, PageServer

from crawler.ports import Link
from crawler.report.verify import verify
from crawler.session import LoggedPage, log_files, read_log
from crawler.session.log import LogWriter

HTML = {"Content-Type": "text/html"}
XML = {"Content-Type": "application/xml"}


def urlset(*locations: str) -> bytes:
    inside = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    return f'<?xml version="1.0"?><urlset>{inside}</urlset>'.encode()


def index(*locations: str) -> bytes:
    inside = "".join(f"<sitemap><loc>{location}</loc></sitemap>" for location in locations)
    return f"<sitemapindex>{inside}</sitemapindex>".encode()


PAGES = {f"/{number}": Page(b"<a href=/beyond>", headers=HTML) for number in range(6)}
FIRST, SECOND = [f"/{number}" for number in range(3)], [f"/{number}" for number in range(3, 6)]
SITE: dict[str, Page | bytes] = {
    **PAGES,
    "/beyond": Page(b"<a href=/far>", headers=HTML),
    "/far": b"",
    # Its entries are above its folder, and one is out of scope.
    "/deep/map": Page(urlset(*FIRST, "http://elsewhere.example/"), headers=XML),
    "/map.xml.gz": Page(
        gzip.compress(urlset(*SECOND)), headers={"Content-Type": "application/gzip"}
    ),
    "/moved": Page(b"", 301, {"Location": "/index.xml"}),
    "/index.xml": Page(index("/deep/map", "/map.xml.gz", "/none.xml"), headers=XML),
    "/none.xml": Page(b"", 404),
}
MAPS = {"/deep/map": -1, "/map.xml.gz": -1, "/index.xml": -1, "/none.xml": 0}


def hops(session: Path) -> dict[str, int]:
    return {"/" + row["url"].split("/", 3)[3]: row["hops"] for row in page_rows(session)}


def polite(*more: str) -> list[str]:
    return sets("politeness.delay_s=0", *more)


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        ("deep/map", {"/deep/map": -1, **dict.fromkeys(FIRST, 0)}),
        ("map.xml.gz", {"/map.xml.gz": -1, **dict.fromkeys(SECOND, 0)}),
        ("moved", {"/moved": 0, **MAPS, **dict.fromkeys(PAGES, 0)}),
    ],
)
def test_what_a_sitemap_lists_counts_as_seeds(
    tmp_path: Path, seed: str, found: dict[str, int]
) -> None:
    with PageServer(SITE) as server:
        done = crawl_here(tmp_path / "s", f"{server.url}/{seed}", *polite("scope.max_hops=1"))
        assert done.returncode == 0, done.stderr
        assert hops(tmp_path / "s") == {**found, "/beyond": 1}
        listed = crawl_here(tmp_path / "t", f"{server.url}/{seed}", *polite("scope.max_hops=0"))
        assert listed.returncode == 0, listed.stderr
        assert hops(tmp_path / "t") == found


def test_a_text_that_lists_urls_is_a_sitemap_only_as_a_seed(tmp_path: Path) -> None:
    pages = dict(SITE)
    with PageServer(pages) as server:
        text = "".join(f"{server.url}/{number}\n" for number in range(3))
        pages["/list"] = Page(text.encode(), headers={"Content-Type": "text/plain"})
        done = crawl_here(tmp_path / "s", f"{server.url}/list", *polite("scope.max_hops=0"))
        assert done.returncode == 0, done.stderr
        assert hops(tmp_path / "s") == {"/list": -1, **dict.fromkeys(FIRST, 0)}
        pages["/0"] = Page(b"<a href=/list>", headers=HTML)
        crawl_here(tmp_path / "t", f"{server.url}/0", *polite())
        assert "/1" not in hops(tmp_path / "t")


@pytest.mark.parametrize(
    "assignment", [pytest.param("url-hash", marks=pytest.mark.slow), "dynamic"]
)
def test_all_ranks_know_the_sitemaps_and_a_resume_knows_them_again(
    tmp_path: Path, mpirun: MpiRun, assignment: str
) -> None:
    session = tmp_path / "s"
    expected = {**MAPS, **dict.fromkeys(PAGES, 0), "/beyond": 1}
    words = polite(
        "scope.max_hops=1", "fetch.allow_private_addresses=true", f"assignment.scheme={assignment}"
    )
    with PageServer(SITE) as server:
        seed, more = f"{server.url}/index.xml", ["--session", str(session), "--max-pages=3"]
        done = mpirun(3, "-m", "crawler", "crawl", seed, *more, *words)
        assert done.returncode == 0, done.stderr
        for path in session.glob("rank-*/snapshot"):
            path.rename(path.with_name("no-snapshot"))
        done = mpirun(2, "-m", "crawler", "resume", str(session), "--max-pages=0")
        assert done.returncode == 0, done.stderr
    assert hops(session) == expected
    assert_sound(session)


def test_verify_finds_an_entry_that_was_never_asked_for(tmp_path: Path) -> None:
    session = tmp_path / "s"
    with PageServer(SITE) as server:
        done = crawl_here(session, f"{server.url}/deep/map", *polite("scope.max_hops=0"))
        assert done.returncode == 0, done.stderr
    assert verify(session).sound
    (log,) = log_files(session)
    entries = list(read_log(log))
    log.unlink()
    writer = LogWriter(log.parent)
    for entry in entries:
        if isinstance(entry, LoggedPage) and not entry.row.url.endswith("/1"):
            targets = zip(entry.keys.tolist(), entry.urls, entry.flags, strict=True)
            links = [Link(key, url, "", flags) for key, url, flags in targets]
            writer.write([writer.frame(entry.row, links, sitemaps_of=entry.sitemaps_of)])
    writer.close()
    assert any("/1: was never asked for" in line for line in verify(session).lines)


def test_a_second_crawl_reads_the_sitemap_again(tmp_path: Path) -> None:
    tagged = {"ETag": '"1"'}
    pages = {**SITE, "/deep/map": Page(urlset(*FIRST), headers={**XML, **tagged})}
    with PageServer(pages) as server:
        for name, more in (("a", []), ("b", [f"session.previous={tmp_path / 'a'}"])):
            done = crawl_here(
                tmp_path / name, f"{server.url}/deep/map", *polite("scope.max_hops=0", *more)
            )
            assert done.returncode == 0, done.stderr
            assert hops(tmp_path / name) == {"/deep/map": -1, **dict.fromkeys(FIRST, 0)}


def test_the_report_knows_of_pages_that_a_sitemap_lists(tmp_path: Path) -> None:
    with PageServer(SITE) as server:
        words = ["--session", str(tmp_path / "s"), "--json", *polite("scope.max_hops=0")]
        allowed = sets("fetch.allow_private_addresses=true")
        done = run_here("crawl", f"{server.url}/deep/map", *words, *allowed)
    assert json.loads(done.stdout)["pages"] == 4
