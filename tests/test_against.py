"""A session against an earlier one: what became of each URL."""

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from crawls import crawl_here, metrics_of, run_here, sets
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import Page, PageServer
from tabled import together

from crawler.ports import PageRow
from crawler.report.against import Change, compare
from crawler.session import Alone, alone
from crawler.session.columns import page_table

_HTML = {"Content-Type": "text/html"}
_QUICK = sets("politeness.delay_s=0", "retry.tries=1", "retry.busy_base_s=0.05")

_Fetched = tuple[int | None, str | None]  # status, digest

_fetched = st.tuples(
    st.sampled_from([None, 200, 200, 200, 301, 304, 404, 410, 500]),
    st.sampled_from([None, "sha1:A", "sha1:B"]),
)
_pages = st.dictionaries(st.integers(0, 8), _fetched, max_size=8)


def _write(session: Path, pages: dict[int, _Fetched]) -> None:
    rows = [
        PageRow(f"http://a.example/{key}", key, "a.example", 0, 0, 0, 1.0 * key, 0.1,
                status=status, digest=digest, bytes=10)
        for key, (status, digest) in pages.items()
    ]  # fmt: skip
    (session / "tables").mkdir(parents=True)
    table = page_table(rows) if rows else page_table([PageRow("", 0, "", 0, 0, 0, 0, 0)])[:0]
    pq.write_table(table, session / "tables" / "pages.parquet")


def _change(before: _Fetched | None, now: _Fetched | None) -> Change | None:
    """By the definitions in docs/report.md."""
    old, old_digest = before or (None, None)
    if now is None:
        return Change.NOT_ASKED if old is not None else None
    status, digest = now
    if status is None:
        return Change.FAILED if old is not None else None
    if old is None:
        return Change.NEW
    came = old in {200, 304}
    if status in {404, 410} and came:
        return Change.GONE
    same_kind = status == old or (came and status in {200, 304})
    if status == 304 or (same_kind and digest is not None and digest == old_digest):
        return Change.UNCHANGED
    if status == old and (status >= 400 or digest is old_digest is None):
        return Change.UNCHANGED
    return Change.CHANGED


@settings(max_examples=50)
@given(_pages, _pages, st.booleans(), st.integers(1, 3))
def test_each_url_has_changed_in_one_way(
    before: dict[int, _Fetched], now: dict[int, _Fetched], complete: bool, processes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        _write(old, before)
        _write(new, now)
        found, *others = together(
            processes, lambda peers: compare(new, old, peers, complete=complete)
        )
    assert found is not None
    assert others == [None] * (processes - 1)
    changes = [_change(before.get(key), now.get(key)) for key in before.keys() | now.keys()]
    expected = Counter(change for change in changes if change is not None)
    assert found["changes"] == {change: expected[change] for change in Change}
    kept = [key for key, (status, _) in now.items() if status == 304 and key in before]
    assert found["bytes_not_sent"] == 10 * len(kept)


def test_without_tables_of_the_earlier_session_nothing_is_compared(tmp_path: Path) -> None:
    assert alone(compare(tmp_path, tmp_path, Alone(), complete=True)) is None


def test_a_crawl_with_an_earlier_session_says_what_has_changed(tmp_path: Path) -> None:
    links = b"".join(b"<a href=/%d>x</a>" % number for number in range(4))
    pages: dict[str, Page | bytes] = {"/": Page(links, headers=_HTML)}
    for number in range(3):
        pages[f"/{number}"] = Page(b"page %d" % number, headers=_HTML)
    first, second = tmp_path / "first", tmp_path / "second"
    with PageServer(pages) as server:
        assert crawl_here(first, f"{server.url}/", *_QUICK).returncode == 0
        pages["/1"] = Page(b"another text", headers=_HTML)
        pages["/3"] = Page(b"new", headers=_HTML)
        del pages["/2"]
        done = crawl_here(second, f"{server.url}/", *_QUICK, *sets(f"session.previous={first}"))
        assert done.returncode == 0, done.stderr
    changes = metrics_of(second)["against"]["changes"]
    assert {name: count for name, count in changes.items() if count} == {
        "unchanged": 2,
        "changed": 2,  # /3 was a missing page before
        "gone": 1,
    }
    shown = run_here("report", str(second)).stdout
    assert "Against" in shown
    assert "saved" in shown
    html = (second / "report" / "index.html").read_text()
    assert "Against the earlier session" in html
    assert "Against" not in run_here("report", str(first)).stdout
