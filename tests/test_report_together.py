"""The report that several processes make together: the same for each number of processes."""

import json
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tabled import together
from test_session import page_row, write_log

from crawler import config, session, url
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, PAGE, REDIRECT, REQUISITE, Link
from crawler.report.report import write_metrics
from crawler.session import Alone, alone

_HOSTS = ("a.example", "b.example", "out.invalid", "beyond.invalid")
_MOST_HOPS = 3
_SEEDS = [f"http://a.example/{n}" for n in range(3)]
_WORDS = [
    *('scope.domains=["example"]', "scope.exclude=['[?]x$']", "robots.obey_nofollow=true"),
    *(f"scope.max_hops={_MOST_HOPS}", "fetch.contact=nobody@example.org"),
]


class _Page(NamedTuple):
    address: str
    ends: tuple[int | None, str | None]  # status and error
    hops: int
    time: int
    links: list[tuple[str, int]]  # URLs and flags, which need not fit to the scope
    role: str
    chain: bool  # whether it was requested again with a cookie


_addresses = st.builds(
    "http://{}/{}{}".format,
    st.sampled_from(_HOSTS),
    st.integers(0, 5),
    st.sampled_from(["", "", "?x", '"\\']),
)
_flags = st.sampled_from(
    [0, 0, REDIRECT, OUT_OF_SCOPE, OUT_OF_SCOPE | NOFOLLOW, OUT_OF_SCOPE | REDIRECT]
)
_ends = st.sampled_from(
    [(200, None), (200, None), (404, None), (503, None), (None, "timeout"), (None, "robots-denied")]
)
_pages = st.builds(
    _Page,
    _addresses,
    _ends,
    st.integers(0, 4),
    st.integers(0, 9),
    st.lists(st.tuples(_addresses, _flags), max_size=5),
    st.sampled_from([PAGE, PAGE, PAGE, REQUISITE]),
    st.booleans(),
)
_ranks = st.lists(
    st.lists(_pages, max_size=6, unique_by=lambda page: page.address), min_size=1, max_size=4
)
_Ranks = list[list[_Page]]


def _make(directory: Path, ranks: _Ranks, *words: str) -> None:
    session.create(directory, config.load(None, [*_WORDS, *words]), 5, 5, _SEEDS)
    for rank, pages in enumerate(ranks):
        rows = []
        for one in pages:
            status, error = one.ends
            row = msgspec.structs.replace(
                page_row(0), url=one.address, key=url.own_key(one.address), rank=rank,
                site=url.site(one.address), status=status, error=error, hops=one.hops,
                time=1.8e9 + one.time, seconds=one.time / 4, role=one.role, bytes=10 * one.hops,
                digest=f"sha1:{one.hops}", content_type="text/html" if one.hops else None,
            )  # fmt: skip
            links = [Link(url.own_key(to), to, "", flags) for to, flags in one.links]
            rows.append((row, links))
        write_log(directory / f"rank-{rank:05}" / "log", *rows)
    session.finish(directory, True, "complete")


def _report(directory: Path) -> dict[str, Any]:
    """The files of the report, and all that the metrics say."""
    files: dict[str, Any] = {
        path.name: path.read_bytes() for path in (directory / "report").iterdir()
    }
    return files | json.loads(files.pop("metrics.json"))


def _lines(directory: Path, name: str) -> list[dict[str, Any]]:
    return list(map(json.loads, (directory / "report" / f"{name}.jsonl").read_text().splitlines()))


@settings(max_examples=10)
@given(_ranks, _ranks, st.integers(2, 6))
def test_the_report_does_not_depend_on_the_number_of_processes(
    ranks: _Ranks, earlier: _Ranks, processes: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        before, now = Path(name) / "before", Path(name) / "now"
        _make(before, earlier)
        alone(write_metrics(before, Alone()))
        _make(now, ranks, f"session.previous={before}")
        metrics = alone(write_metrics(now, Alone()))
        expected = _report(now)
        _check_lists(now, ranks)
        shutil.rmtree(now / "report")
        found = together(processes, lambda peers: write_metrics(now, peers))
        assert found == [metrics] + [None] * (processes - 1)
        assert _report(now) == expected


def _check_lists(directory: Path, ranks: _Ranks) -> None:
    """Compare the three files with what a loop over all links finds."""
    pages = [page for rank in ranks for page in rank]
    rows = {page.address for page in pages}
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    outside: defaultdict[str, int] = defaultdict(int)
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for page in pages:
        for to, flags in page.links:
            sources[to].append(page.address)
            outside[url.host(to)] += bool(flags & OUT_OF_SCOPE)
            if to not in rows:
                reasons[to].append(_reason(to, page.hops, flags))
    order = ("kept out by", "too many", "nofollow:", "its page", "out of scope: ")
    expected = {
        to: min(some, key=lambda one: next(at for at, of in enumerate(order) if one.startswith(of)))
        for to, some in reasons.items()
    }
    waiting = "kept out by [traps] or by the mode exchange"
    expected |= {seed: waiting for seed in _SEEDS if seed not in rows and seed not in expected}
    failed = [
        (page.address, ("requisite: " if page.role == REQUISITE else "") + str(page.ends[1]))
        for page in pages
        if page.ends[0] is None
    ]
    skipped = [(line["url"], line["reason"]) for line in _lines(directory, "skipped")]
    assert sorted(skipped) == sorted([*failed, *expected.items()])
    hosts = {line["host"]: line["links"] for line in _lines(directory, "outside")}
    assert hosts == {
        host: count for host, count in outside.items() if count and not host.endswith(".example")
    }
    broken = {page.address for page in pages if page.ends in {(404, None), (None, "timeout")}}
    links = {
        line["url"]: (line["links"], line["linked_from"]) for line in _lines(directory, "broken")
    }
    assert links == {to: (len(sources[to]), sources[to][:3]) for to in broken if sources[to]}


def _reason(to: str, hops: int, flags: int) -> str:
    if flags & OUT_OF_SCOPE:
        if to.split("/")[2].endswith(".invalid"):
            return "out of scope: no host, domain or suffix of the scope matches"
        if to.endswith("?x"):
            return "out of scope: scope.exclude: [?]x$"
        if flags & NOFOLLOW:
            return "nofollow: the page asks not to follow the link"
        return "its page is the same as too many others (traps.max_same_content)"
    if hops >= _MOST_HOPS and not flags & REDIRECT:
        return "too many hops from a seed (scope.max_hops, traps.max_depth)"
    return "kept out by [traps] or by the mode exchange"
