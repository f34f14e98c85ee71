"""Archives as other programs see them: indexes of WARC files, and whole sessions in one file."""

import asyncio
import gzip
import hashlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from crawls import (
    assert_sound,
    check_warc_files,
    crawl_here,
    demo_config,
    page_rows,
    run_here,
    sets,
)
from fakes import FakeClock, NoRepository
from fetches import fetched, put, response
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import Page, PageServer

from crawler import session, url
from crawler.agent.recording import RecordingFetcher
from crawler.api import Session
from crawler.config import Storage
from crawler.demo.web.server import serve
from crawler.export import export, wacz
from crawler.ports import Failure, FetchError
from crawler.report.verify import verify
from crawler.session import RankStore, cdxj
from crawler.session.surt import surt
from partition.__main__ import main as partition

INSTALL = "pip install '.[test]'"
reference = pytest.importorskip("surt", reason=INSTALL)
indexer = pytest.importorskip("cdxj_indexer.main", reason=INSTALL)

HOSTS = ("a.example", "WWW2.a.example:8080", "www.www.example", "127.0.0.1", "[2001:db8::1]:81")
PIECES = (
    "/", "//", "a", "B", ".", "..", "%25", "%2e", "%2F", "%C3%A4", "%0a", "%20", "%zz", "?", "&",
    "=", "#", "é", " ", "sid=", "jsessionid=", "PHPSESSID=", "ASPSESSIONIDabcdABCD=", "0" * 32,
    "a" * 24, "cfid=1&cftoken=2", "x.aspx", "(A(", "))/", "(", ")/",
)  # fmt: skip


@st.composite
def addresses(draw: st.DrawFn) -> str:
    """Normalised URLs."""
    scheme = draw(st.sampled_from(("http", "https")))
    rest = draw(st.lists(st.sampled_from(PIECES), max_size=9))
    return url.normalise(f"{scheme}://{draw(st.sampled_from(HOSTS))}/{''.join(rest)}")


@given(addresses())
def test_keys_of_urls_are_those_of_surt(address: str) -> None:
    assert surt(address) == reference.surt(address)


# --- indexes

TYPES = (b"text/html", b" Text/HTML;charset=x", b"", b";", b"a\xe9/b c", b"\xc3\xa4/x")
ANSWERS = st.builds(
    response,
    addresses(),
    st.sampled_from((b"", b"<p>hello</p>", b"other")),
    headers=st.lists(
        st.tuples(
            st.sampled_from((b"Content-Type", b"content-type ", b"X")), st.sampled_from(TYPES)
        )
    ),
    status=st.sampled_from((200, 204, 301, 404, 503)),
    reason=st.sampled_from(("OK", "", "Not  here")),
    started=st.integers(0, 4_000_000_000).map(lambda ms: 1_800_000_000 + ms / 1000),
)


def by_cdxj_indexer(*warcs: Path) -> str:
    with TemporaryDirectory() as folder:
        target = Path(folder) / "index"
        indexer.CDXJIndexer(str(target), [str(path) for path in warcs], sort=True).process_all()
        return target.read_text()


@settings(max_examples=25)
@given(
    st.lists(ANSWERS, min_size=1, max_size=6),
    st.sampled_from((1, 2, 10_000)),
    st.sampled_from((1, 2, 64)),
)
def test_an_index_is_that_of_cdxj_indexer(answers: list[Any], run: int, batch: int) -> None:
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(cdxj, "_RUN", run),
        mock.patch.object(cdxj, "_BATCH", batch),
    ):
        store = RankStore(Path(folder), 0, Storage(), user_agent="", obeys_robots=True)
        for answer in answers:
            put(store, fetched(answer), 0)
        store.close()
        [warc] = session.warc_files(store.directory)
        index = cdxj.index_path(warc)
        written = index.read_text()
        assert written == by_cdxj_indexer(warc)
        index.unlink()
        assert not list(session.make_indexes([warc]))
        assert index.read_text() == written
        names = {path.suffix for path in store.directory.iterdir() if path.is_file()}
        assert names == {".cdxj", ".gz", ".log"}


@pytest.mark.interpreted
def test_a_crawl_goes_on_without_an_index(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = RankStore(tmp_path, 0, Storage(), user_agent="", obeys_robots=True)
    with mock.patch.object(tempfile, "TemporaryFile", side_effect=OSError(28, "No space left")):
        with mock.patch.object(cdxj, "_RUN", 2), mock.patch.object(cdxj, "_BATCH", 1):
            for name in "abc":
                put(store, fetched(response(f"http://a.example/{name}")), 0)
        store.close()
    [warc] = session.warc_files(store.directory)
    assert not cdxj.index_path(warc).exists()
    assert caplog.text.count("No space left; the command export makes the index") == 1
    assert not list(session.make_indexes([warc]))
    assert cdxj.index_path(warc).read_text() == by_cdxj_indexer(warc)


# --- the command export


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    with serve(20, 60, 4) as (web, port):
        config = demo_config(folder / "c.toml", web, port)
        done = crawl_here(folder / "s", str(config), "--set", "storage.warc_size=40000")
        assert done.returncode == 0, done.stderr
    return folder / "s"


def validate(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wacz", "validate", "-f", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation succeeded, the passed WACZ is valid" in done.stdout


def test_a_wacz_is_valid_and_has_all(crawled: Path, tmp_path: Path) -> None:
    target = tmp_path / "s.wacz"
    done = run_here("export", str(crawled), "--wacz", str(target))
    assert done.returncode == 0, done.stderr
    validate(target)
    warcs = session.warc_files(crawled / "rank-00000")
    rows = page_rows(crawled)
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        for warc in warcs:
            assert archive.read(f"archive/{warc.name}") == warc.read_bytes()
        packed = archive.read("indexes/index.cdx.gz")
        assert gzip.decompress(packed).decode() == by_cdxj_indexer(*warcs)
        header, *pages = map(json.loads, archive.read("pages/pages.jsonl").splitlines())
        package = json.loads(archive.read("datapackage.json"))
    html = [row for row in rows if row["status"] == 200 and row["media_type"] == "text/html"]
    assert len(warcs) > 2
    assert header["format"] == "json-pages-1.0"
    assert [page["url"] for page in pages] == [row["url"] for row in html] != []
    assert package["mainPageUrl"] in session.seeds(crawled)
    stored = sum(row["warc_file"] is not None for row in rows)
    counts = f"{len(warcs)} WARC files, {stored} records, {len(html)} pages, "
    assert done.stdout.startswith(f"{target}: {counts}")


def test_each_block_of_the_index_can_be_read_alone(crawled: Path, tmp_path: Path) -> None:
    target = tmp_path / "s.wacz"
    with mock.patch.object(wacz, "_BLOCK_LINES", 7):
        export(crawled, {"wacz": target})
    validate(target)
    with zipfile.ZipFile(target) as archive:
        packed = archive.read("indexes/index.cdx.gz")
        about, *blocks = archive.read("indexes/index.idx").decode().splitlines()
    assert about.startswith("!meta 0 {")
    text = ""
    for line in blocks:
        key, place = line.partition(" {")[::2]
        at = json.loads("{" + place)
        member = packed[at["offset"] : at["offset"] + at["length"]]
        assert at["digest"] == f"sha256:{hashlib.sha256(member).hexdigest()}"
        block = gzip.decompress(member).decode()
        assert block.startswith(key + " {")
        assert block.count("\n") == 7 or line is blocks[-1]
        text += block
    assert text == by_cdxj_indexer(*session.warc_files(crawled / "rank-00000"))


def test_an_index_of_all_files(crawled: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.cdxj"
    done = run_here("export", str(crawled), "--cdxj", str(target))
    warcs = session.warc_files(crawled / "rank-00000")
    assert target.read_text() == by_cdxj_indexer(*warcs)
    records = target.read_text().count("\n")
    assert done.stdout == f"{target}: {records} records of {len(warcs)} WARC files\n"


def test_more_indexes_are_merged_than_files_may_be_open(tmp_path: Path) -> None:
    warcs = [tmp_path / f"{number:03}.warc.gz" for number in range(200)]
    for number, warc in enumerate(warcs):
        lines = [f"{line:05} {number:03} {'x' * 90}\n" for line in range(number, 20_000, 200)]
        cdxj.index_path(warc).write_text("".join(lines))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))  # noqa: PTH208
    try:
        merged = list(session.merged_indexes(warcs))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [int(line[:5]) for line in merged] == list(range(20_000))


def test_what_a_kill_leaves_is_mended(crawled: Path, tmp_path: Path) -> None:
    killed = tmp_path / "s"
    shutil.copytree(crawled, killed)
    *others, last = session.warc_files(killed / "rank-00000")
    before = last.read_bytes()
    with last.open("ab") as file:
        file.write(before[:100])  # the beginning of a record
    for warc in (others[0], last):
        cdxj.index_path(warc).unlink()
    whole, mended = tmp_path / "whole.wacz", tmp_path / "mended.wacz"
    done = run_here("export", str(killed), "--wacz", str(mended), "--cdxj", str(tmp_path / "c"))
    assert (done.returncode, done.stderr) == (0, "")
    assert last.read_bytes() == before
    export(crawled, {"wacz": whole})
    with zipfile.ZipFile(whole) as one, zipfile.ZipFile(mended) as other:
        for name in set(one.namelist()) - {"datapackage.json", "datapackage-digest.json"}:
            assert one.read(name) == other.read(name), name


def test_damage_is_told(crawled: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "s"
    shutil.copytree(crawled, damaged)
    warc = session.warc_files(damaged / "rank-00000")[0]
    index = cdxj.index_path(warc)
    lines = sorted(index.read_text().splitlines(), key=lambda line: int(place(line)["offset"]))
    at = int(place(lines[3])["offset"])
    content = bytearray(warc.read_bytes())
    content[at + 30 : at + 60] = bytes(30)
    warc.write_bytes(content)
    index.unlink()
    told = export(damaged, {"cdxj": tmp_path / "c"})
    assert told[0].startswith(f"{warc} at {at:,}: ")
    assert sorted(index.read_text().splitlines()) == sorted(lines[:3])


@pytest.mark.parametrize("change", ["swapped", "missing", "other", "doubled"])
def test_verify_finds_a_wrong_index(crawled: Path, tmp_path: Path, change: str) -> None:
    wrong = tmp_path / "s"
    shutil.copytree(crawled, wrong)
    index = cdxj.index_path(session.warc_files(wrong / "rank-00000")[1])
    lines = index.read_text().splitlines(keepends=True)
    what = "isn't the index of its WARC file"
    if change == "swapped":
        lines[0], lines[-1], what = lines[-1], lines[0], "isn't sorted"
    elif change == "missing":
        del lines[1]
    elif change == "other":
        lines[1] = lines[1].replace('"status": "200"', '"status": "203"')
    else:
        lines.insert(1, lines[1])
    index.write_text("".join(lines))
    assert verify(wrong).lines == [f"index: {index}: {what}; remove it, and export"]
    index.unlink()
    export(wrong, {"cdxj": tmp_path / "c"})
    assert_sound(wrong)


def place(line: str) -> dict[str, str]:
    fields: dict[str, str] = json.loads("{" + line.partition(" {")[2])
    return fields


def refusal(*words: str) -> str:
    done = run_here("export", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    return done.stderr


def test_wrong_use_ends_in_one_line(crawled: Path, tmp_path: Path) -> None:
    assert "export writes nothing; add --wacz FILE or --cdxj FILE" in refusal(str(crawled))
    target = str(tmp_path / "a.wacz")
    assert "name the directory of a session" in refusal(str(tmp_path), "--wacz", target)
    nowhere = refusal(str(crawled), "--wacz", str(tmp_path / "nowhere" / "a"))
    assert f"{tmp_path / 'nowhere'}: no such directory" in nowhere
    assert "is a directory; name a file" in refusal(str(crawled), "--edges", str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # the command waits a few seconds for a killed crawl to end
def test_a_session_that_is_being_crawled_is_refused(crawled: Path, tmp_path: Path) -> None:
    session.lock_session(crawled, session.CRAWLED)
    try:
        assert "is being crawled" in refusal(str(crawled), "--wacz", str(tmp_path / "a.wacz"))
    finally:
        session.unlock_session(crawled)
    assert not list(tmp_path.iterdir())


# --- which exchanges are stored


RECORDS = """
[session]
seeds = ["http://a.example/"]
[scope]
hosts = ["a.example", "closed.example", "ruled.example"]
[dns.hosts]
"a.example" = "127.0.0.1:{port}"
"closed.example" = "127.0.0.1:{closed}"
"ruled.example" = "127.0.0.1:{closed}"
[politeness]
delay_s = 0
[retry]
tries = 2
base_s = 0.01
[fetch]
allow_private_addresses = true
[storage]
warc_prefix = "Library.of-a_1"
operator = "A. Librarian, library@a.example"
description = "two\\nlines"
[[sites]]
match = "closed.example"
robots = false
"""
SITE = {
    "/robots.txt": Page(b"moved", 301, {"Location": "/rules"}),
    "/rules": b"User-agent: *\nDisallow: /no",
    "/": Page(
        b"<title>Home</title><a href=http://closed.example/x>x</a><a href=/no>no</a>"
        b"<a href=http://ruled.example/y>y</a>",
        headers={"Content-Type": "text/html"},
    ),
}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """The configuration of a crawl of a small web. At one of its ports nobody listens."""
    with PageServer(SITE) as server, socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        config = tmp_path / "c.toml"
        config.write_text(RECORDS.format(port=server.port, closed=reserved.getsockname()[1]))
        yield config


def records(directory: Path) -> list[tuple[str, str, dict[str, str], bytes]]:
    """Kind, URL, headers and block of each record but requests."""
    found = []
    for warc in session.warc_files(directory / "rank-00000"):
        for record in session.read_records(warc):
            assert isinstance(record, session.Record), record
            if record.kind != "request":
                url_ = record.fields.get("warc-target-uri", "")
                found.append((record.kind, url_, record.fields, record.block))
    return found


def test_pages_alone_are_stored_by_default(small: Path, tmp_path: Path) -> None:
    crawl_here(tmp_path / "s", str(small))
    (info, _, _, about), *others = records(tmp_path / "s")
    assert info == "warcinfo"
    lines = about.decode().splitlines()
    assert "operator: A. Librarian, library@a.example" in lines
    assert "description: two lines" in lines
    assert [(kind, url_) for kind, url_, _, _ in others] == [("response", "http://a.example/")]
    assert not any("warc-block-digest" in fields for _, _, fields, _ in others)
    [warc] = session.warc_files(tmp_path / "s" / "rank-00000")
    assert re.fullmatch(r"Library\.of-a_1-\d{14}-00000-00000\.warc\.gz", warc.name)


def test_robots_and_failures_are_stored_if_asked_for(small: Path, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    more = sets('storage.records=["robots","failures"]', "storage.block_digests=true")
    crawl_here(directory, str(small), *more)
    found = records(directory)
    assert Counter((kind, url_) for kind, url_, _, _ in found) == {
        ("warcinfo", ""): 1,
        ("response", "http://a.example/robots.txt"): 1,
        ("response", "http://a.example/rules"): 1,
        ("response", "http://a.example/"): 1,
        ("metadata", "http://closed.example/x"): 2,
        ("metadata", "http://ruled.example/robots.txt"): 2,
    }
    [(rules, about)] = [(fields, block) for _, url_, fields, block in found if "rules" in url_]
    assert about.endswith(b"\r\n\r\nUser-agent: *\nDisallow: /no")
    assert rules["x-crawler-for"] == "robots.txt"
    for kind, _, fields, block in found:
        assert fields["warc-block-digest"] == session.digest(block)
        if kind == "metadata":
            assert fields["content-type"] == "application/warc-fields"
            error, took = block.decode().splitlines()
            assert error == "error: connection-refused"
            assert re.fullmatch(r"fetchTimeMs: \d+", took)
    check_warc_files(directory)
    assert_sound(directory)
    [warc] = session.warc_files(directory / "rank-00000")
    index = cdxj.index_path(warc).read_text()
    assert index == by_cdxj_indexer(warc)
    assert index.count("\n") == 3
    assert "http://a.example/rules" in index

    assert partition(["import", "warc", str(warc), "--out", str(tmp_path / "graph")]) == 0
    imported = pq.read_table(tmp_path / "graph" / "pages.parquet")["url"].to_pylist()
    assert imported == ["http://a.example/"]
    opened = Session(directory).open("http://a.example/")
    assert opened.body == SITE["/"].body  # type: ignore[union-attr]
    assert [page["url"] for page in Session(directory).pages("url", "warc_file")] != []
    rows = {row["url"]: row["warc_file"] for row in page_rows(directory)}
    assert rows == {
        "http://a.example/": warc.name,
        "http://a.example/no": None,
        "http://closed.example/x": None,
        "http://ruled.example/y": None,
    }
    target = tmp_path / "s.wacz"
    export(directory, {"wacz": target})
    validate(target)
    with zipfile.ZipFile(target) as archive:
        page = json.loads(archive.read("pages/pages.jsonl").splitlines()[1])
        package = json.loads(archive.read("datapackage.json"))
    assert (page["url"], page["title"]) == ("http://a.example/", "Home")
    assert package["description"] == "two\nlines"


def test_a_resume_may_store_other_records(small: Path, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    crawl_here(directory, str(small), *sets('storage.records=["robots"]'))
    (directory / "rank-00000" / "ours-2020-01-01.warc.gz").write_bytes(b"of a user")
    more = sets("storage.warc_prefix=later", 'storage.records=["failures"]')
    done = run_here("resume", str(directory), "--retry-failed", *more)
    assert done.returncode == 0, done.stderr
    names = [path.name for path in session.warc_files(directory / "rank-00000")]
    assert [name.partition("-2")[0] for name in names] == ["Library.of-a_1", "later"]
    assert [name[-14:-8] for name in names] == ["-00000", "-00001"]
    kinds = [kind for kind, *_ in records(directory)]
    assert kinds == ["warcinfo", *["response"] * 3, "warcinfo", *["metadata"] * 4]


def test_a_prefix_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    for prefix in ("a/b", "", ".a", "é"):
        done = run_here("config", "--set", f"storage.warc_prefix={prefix!r}")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "must begin with a letter or digit" in done.stderr


@pytest.mark.parametrize("way", ["locate", "fetch"])
def test_what_fails_is_recorded_once_and_told(way: str) -> None:
    kept: list[object] = []
    error = FetchError(Failure.DNS_NOT_FOUND, "no such name")

    class Store(NoRepository):
        def keep_failure(self, *what: object) -> None:
            kept.append(what)

    async def fail(*_: object) -> str:
        clock.advance(0.5)
        raise error

    clock, failing = FakeClock(), mock.Mock(locate=fail, fetch=fail)
    for wanted in (True, False):
        fetcher = RecordingFetcher(
            failing, store=Store(), clock=clock, responses=True, failures=wanted
        )
        with pytest.raises(FetchError):
            asyncio.run(getattr(fetcher, way)("http://a.example/"))
    assert kept == [("http://a.example/", 1_800_000_000.0, 0.5, error)]
