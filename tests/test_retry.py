"""`resume --retry-failed`: failed URLs are fetched again, and only they."""

from pathlib import Path
from typing import Any

import pytest
from crawls import assert_sound, crawl_here, metrics_of, page_rows, run_here, sets
from servers import Page, PageServer

from crawler import session
from crawler.ports import Failure, PageRow, UserError
from crawler.report.verify import verify
from crawler.session.log import LogWriter

_HTML = {"Content-Type": "text/html"}


class _Web:
    """A server whose pages `/n` fail until they are mended."""

    def __init__(self) -> None:
        links = b"".join(b"<a href=/%d>x</a>" % number for number in range(4))
        self.pages: dict[str, Page | bytes] = {
            "/": Page(links, headers=_HTML),
            "/0": Page(b"fine", headers=_HTML),
            "/1": Page(status=503),
            "/2": Page(status=500),
            "/3": Page(status=404),
        }

    def mend(self) -> None:
        for number in range(1, 4):
            more = b"<a href=/more%d>x</a>" % number
            self.pages[f"/{number}"] = Page(more, headers=_HTML)
            self.pages[f"/more{number}"] = Page(b"more", headers=_HTML)


_QUICK = sets("politeness.delay_s=0", "retry.tries=1", "retry.busy_base_s=0.05")


def _crawl(directory: Path, server: PageServer) -> None:
    done = crawl_here(directory, f"{server.url}/", *_QUICK)
    assert done.returncode == 0, done.stderr


def _statuses(directory: Path) -> dict[str, int | None]:
    rows = page_rows(directory)
    assert len({row["url"] for row in rows}) == len(rows)  # one row a URL
    return {row["url"].rpartition("/")[2]: row["status"] for row in rows}


@pytest.mark.parametrize(
    ("words", "again", "after"),
    [
        ([], [], {}),
        (["--retry-failed"], ["1", "2"], {"1": 200, "2": 200, "more1": 200, "more2": 200}),
        (["--retry-failed", "404"], ["3"], {"3": 200, "more3": 200}),
        (["--retry-failed", "timeout"], [], {}),
    ],
)
def test_the_failed_urls_are_fetched_again_and_no_others(
    tmp_path: Path, words: list[str], again: list[str], after: dict[str, int]
) -> None:
    web, directory = _Web(), tmp_path / "s"
    with PageServer(web.pages) as server:
        _crawl(directory, server)
        before = _statuses(directory)
        assert before == {"": 200, "0": 200, "1": 503, "2": 500, "3": 404}
        web.mend()
        server.paths.clear()
        done = run_here("resume", str(directory), *words)
        assert done.returncode == 0, done.stderr
        asked = {path[1:] for path in server.paths} - {"robots.txt"}
        assert asked == {*again, *(f"more{number}" for number in again)}
        assert _statuses(directory) == {**before, **after}
        metrics = metrics_of(directory)
        assert metrics["pages"] == len(before) + len(again)
        assert metrics["overlap"] == 0
        # A later resume without the option fetches nothing, from the logs as well.
        server.paths.clear()
        for snapshot in directory.glob("rank-*/snapshot"):
            snapshot.unlink()
        assert run_here("resume", str(directory)).returncode == 0
        assert not {path for path in server.paths if path != "/robots.txt"}
    assert_sound(directory)


def test_a_failed_seed_is_tried_again_and_counts_as_fetched(tmp_path: Path) -> None:
    pages: dict[str, Page | bytes] = {"/": Page(status=503)}
    directory = tmp_path / "s"
    with PageServer(pages) as server:
        done = crawl_here(directory, f"{server.url}/", *_QUICK)
        assert done.returncode == 1
        assert "--retry-failed" in done.stderr
        pages["/"] = Page(b"here", headers=_HTML)
        done = run_here("resume", str(directory), "--retry-failed", "unavailable")
        assert done.returncode == 0, done.stderr
    metrics = metrics_of(directory)
    assert (metrics["seeds_failed"], metrics["complete"]) == (0, True)


def test_a_crawl_whose_seeds_all_failed_has_failed_whatever_else_came(tmp_path: Path) -> None:
    """The sitemap that robots.txt names leads to a page."""
    pages: dict[str, Page | bytes] = {"/page": Page(b"here", headers=_HTML)}
    with PageServer(pages) as server:
        pages["/robots.txt"] = f"Sitemap: {server.url}/sitemap.txt\n".encode()
        sitemap = f"{server.url}/page\n".encode()
        pages["/sitemap.txt"] = Page(sitemap, headers={"Content-Type": "text/plain"})
        directory = tmp_path / "s"
        done = crawl_here(
            directory, f"{server.url}/seed", *_QUICK, *sets("sitemaps.from_robots=true")
        )
        assert _statuses(directory)["page"] == 200
        assert done.returncode == 1
        assert f"error: all seeds failed: status 404: {server.url}/seed" in done.stderr


def test_verify_still_finds_a_page_fetched_twice(tmp_path: Path) -> None:
    """A second good row, a second failed row, and a row beyond the tries of the runs."""
    web, directory = _Web(), tmp_path / "s"
    with PageServer(web.pages) as server:
        _crawl(directory, server)
        web.mend()
        assert run_here("resume", str(directory), "--retry-failed").returncode == 0
    assert verify(directory).sound
    rows = {
        entry.row.url.rpartition("/")[2]: entry.row
        for path in session.log_files(directory)
        for entry in session.read_log(path)
        if isinstance(entry, session.LoggedPage) and entry.row.url.endswith(("/0", "/1"))
    }
    for name, row in rows.items():
        _check_twice(directory, name, row)


def _check_twice(directory: Path, name: str, row: PageRow) -> None:
    writer = LogWriter(directory / "rank-00000" / "log")
    writer.write([writer.frame(row, [])])
    writer.close()
    assert verify(directory).problems.get("twice", 0) >= 2, name
    writer.path.unlink()


def test_a_rank_number_may_change_with_a_retry(tmp_path: Path, mpirun: Any) -> None:
    web, directory = _Web(), tmp_path / "s"
    with PageServer(web.pages) as server:
        _crawl(directory, server)
        web.mend()
        words = ["-m", "crawler", "resume", str(directory), "--retry-failed"]
        done = mpirun(2, *words, *sets("assignment.scheme=url-hash"))
        assert done.returncode == 0, done.stderr
        assert _statuses(directory)["more2"] == 200
    assert_sound(directory)


def test_the_failures_are_those_that_a_user_names() -> None:
    assert session.failures_named("timeout") == ["timeout"]
    assert session.failures_named("503") == ["status 503"]
    assert set(session.failures_named("")) >= {Failure.REFUSED, "status 500"}
    assert Failure.ROBOTS_DENIED not in session.failures_named("")
    for name in ("tmeout", "200", "status 503"):
        with pytest.raises(UserError, match="--retry-failed"):
            session.failures_named(name)
