"""The session directory: rows in, the same rows out, whatever happened in between."""

import errno
import os
import resource
import signal
import struct
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from fetches import failed, fetched, link, put, response
from hypothesis import given
from hypothesis import strategies as st
from tabled import check_tables, write_tables
from warcio.archiveiterator import ArchiveIterator

from crawler import config, session
from crawler import url as urls
from crawler.config import Storage
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, REDIRECT, Failure, Link, PageRow, UserError
from crawler.session import LoggedPage, RankStore, Torn, read_log
from crawler.session.log import LogWriter
from crawler.session.warc import digest

A, B, C, D = (f"http://a.example/{name}" for name in "abcd")
ELSEWHERE = "https://b.example/?q=%C3%BC"


def open_store(directory: Path, rank: int = 0, storage: Storage | None = None) -> RankStore:
    return RankStore(
        directory, rank, storage or Storage(), user_agent="tester/1", obeys_robots=True
    )


def page_row(n: int) -> PageRow:
    return PageRow(f"{A}{n}", n, "a.example", 0, 0, 0, 1.8e9 + n, 0.5)


def write_log(directory: Path, *pages: tuple[PageRow, list[Link]]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    log = LogWriter(directory)
    for row, links in pages:
        log.write([log.frame(row, links)])
    log.close()
    return max(directory.iterdir())


def test_each_field_of_a_row_says_what_its_name_says(tmp_path: Path) -> None:
    headers = [
        (b"Content-Type", b"Text/HTML; a"),
        (b"ETag", b"e"),
        (b"Last-Modified", b"l"),
    ]
    page = fetched(response(A, b"<rss>", headers=headers, truncated="time"), hops=3)
    page.found = page.found._replace(url=f"{A}>")
    page.time, page.retries, page.failure = 5.5, 4, Failure.TIMEOUT
    page.noindex, page.alike, page.title, page.language = True, False, "t", "en"
    store = open_store(tmp_path, rank=2)
    row = put(store, page, 7)
    store.close()
    [warc] = session.warc_files(store.directory)
    assert msgspec.structs.asdict(row) == {
        "url": A,
        "key": urls.key(A),
        "site": "a.example",
        "part": 7,
        "rank": 2,
        "hops": 3,
        "time": 5.5,
        "seconds": 0.5,
        "address": "127.0.0.1",
        "status": 200,
        "error": "timeout",
        "truncated": "time",
        "bytes": 5,
        "content_type": "text/html",
        "digest": digest(b"<rss>"),
        "duplicate": False,
        "warc_file": warc.name,
        "warc_offset": row.warc_offset,
        "retries": 4,
        "etag": "e",
        "last_modified": "l",
        "noindex": True,
        "alike": False,
        "media_type": "application/rss+xml",
        "title": "t",
        "language": "en",
        "role": "requisite",
    }
    assert warc_at(warc, row.warc_offset) == "response"


def warc_at(warc: Path, offset: int | None) -> str | None:
    """The type of the record at an offset."""
    with warc.open("rb") as file:
        file.seek(offset or 0)
        return next(iter(ArchiveIterator(file))).rec_type


# --- the log


rows = st.builds(
    PageRow,
    url=st.text(),
    key=st.integers(0, 2**64 - 1),
    site=st.text(),
    part=st.integers(0, 2**31 - 1),
    rank=st.integers(0, 2**31 - 1),
    hops=st.integers(0, 2**31 - 1),
    time=st.floats(0, 4e9),
    seconds=st.floats(0, 1e4),
    status=st.none() | st.integers(0, 999),
    error=st.none() | st.sampled_from([failure.value for failure in Failure]),
    duplicate=st.booleans(),
    warc_offset=st.none() | st.integers(0, 2**63 - 1),
)
link_lists = st.lists(
    st.builds(
        Link,
        key=st.integers(0, 2**64 - 1),
        url=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60),
        site=st.just(""),
        flags=st.integers(0, 255),
    ),
    max_size=40,
)


@given(st.lists(st.tuples(rows, link_lists), max_size=5))
def test_the_log_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pages: list[tuple[PageRow, list[Link]]]
) -> None:
    path = write_log(tmp_path_factory.mktemp("log"), *pages)
    logged = list(read_log(path))
    assert len(logged) == len(pages)
    for entry, (row, links) in zip(logged, pages, strict=True):
        assert isinstance(entry, LoggedPage)
        assert entry.row == row
        assert entry.keys.dtype == np.uint64
        assert entry.keys.tolist() == [link.key for link in links]
        assert entry.urls == [link.url for link in links]
        assert list(entry.flags) == [link.flags for link in links]


def test_the_bytes_of_a_log_are_the_documented_ones(tmp_path: Path) -> None:
    path = write_log(tmp_path, (page_row(1), [link(A, NOFOLLOW)]))
    raw = path.read_bytes()
    assert path.name == "00000.log"
    assert raw[:12] == b"ABC-LOG\n\3\0\0\0"
    length, _ = struct.unpack_from("<II", raw, 12)
    assert len(raw) == 12 + 8 + length
    assert raw[20:21] == b"P"
    assert struct.pack("<Q", urls.key(A)) + b"\xc4\1\1" in raw  # key, then bin 8 of one flag byte


def frames_of(path: Path) -> list[int]:
    """Where each frame ends."""
    raw, ends = path.read_bytes(), [12]
    while ends[-1] < len(raw):
        ends.append(ends[-1] + 8 + struct.unpack_from("<I", raw, ends[-1])[0])
    return ends


def numbers(path: Path) -> tuple[list[int], Torn | None]:
    """The keys of the rows in a log of `page_row`s, and how it ends."""
    entries = list(read_log(path))
    keys = [entry.row.key for entry in entries if isinstance(entry, LoggedPage)]
    torn = entries[-1] if len(entries) > len(keys) else None
    assert torn is None or isinstance(torn, Torn)
    return keys, torn


def test_a_torn_tail_is_cut_and_all_before_it_is_used(tmp_path: Path) -> None:
    path = write_log(tmp_path, *((page_row(n), [link(A), link(B)]) for n in range(4)))
    whole, ends = path.read_bytes(), frames_of(path)
    assert len(ends) == 5
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        good = max((end for end in ends if end <= size), default=0)
        torn = None if size in {0, *ends} else Torn(path, good, size - good)
        expected = list(range(ends.index(good))) if good else []
        assert numbers(path) == (expected, torn)


def test_a_damaged_frame_ends_a_log_and_nothing_is_invented(tmp_path: Path) -> None:
    path = write_log(tmp_path, *((page_row(n), [link(A)]) for n in range(3)))
    whole, ends = path.read_bytes(), frames_of(path)
    for at in range(ends[1], len(whole)):
        for flip in (0x01, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            good = 1 if at < ends[2] else 2
            assert numbers(path) == (
                list(range(good)),
                Torn(path, ends[good], len(whole) - ends[good]),
            )


def test_zeros_that_a_crash_of_the_machine_left_are_no_frames(tmp_path: Path) -> None:
    path = write_log(tmp_path, (page_row(0), []))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert numbers(path) == ([0], Torn(path, size, 4096))


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "00000.log"
    path.write_bytes(b"something else entirely")
    assert list(read_log(path)) == [Torn(path, 0, 23)]
    path.write_bytes(b"ABC-LOG\n\7\0\0\0")
    with pytest.raises(UserError, match="log format 7; this program reads 2"):
        list(read_log(path))


# --- the store


def test_a_store_writes_rows_and_links_in_order(tmp_path: Path) -> None:
    store = open_store(tmp_path, 2)
    links = [link(B), link(ELSEWHERE, NOFOLLOW | OUT_OF_SCOPE)]
    first = put(store, fetched(response(A), links, hops=4), part=5)
    second = put(store, failed(B, Failure.TIMEOUT), part=6)
    store.close()
    assert (first.rank, first.part, first.hops, first.status) == (2, 5, 4, 200)
    assert (first.time, first.seconds, first.bytes) == (1_800_000_000.25, 0.5, 12)
    assert (first.content_type, first.address) == ("text/html", "127.0.0.1")
    assert (second.error, second.status, second.warc_file) == ("timeout", None, None)
    page, failure = read_log(tmp_path / "rank-00002" / "log" / "00000.log")
    assert isinstance(page, LoggedPage)
    assert page.row == first
    assert page.urls == [B, ELSEWHERE]
    assert isinstance(failure, LoggedPage)
    assert failure.row == second


def test_a_resumed_rank_starts_a_new_log(tmp_path: Path) -> None:
    for url in (A, B):
        store = open_store(tmp_path)
        put(store, failed(url, Failure.REFUSED), 0)
        store.close()
    assert [path.name for path in session.log_files(tmp_path)] == ["00000.log", "00001.log"]


@pytest.mark.parametrize(("policy", "syncs"), [("record", 5), ("interval", 0), ("close", 0)])
def test_files_are_forced_to_disk_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, syncs: int
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store = open_store(tmp_path, storage=Storage(sync=policy))
    put(store, fetched(response(A)), 0)  # WARC and log
    put(store, fetched(response(B)), 0)
    put(store, failed(C, Failure.TIMEOUT), 0)  # log
    assert len(synced) == syncs
    store.close()
    assert len(synced) == syncs + 3  # the index of the WARC file as well


def test_interval_syncs_once_five_seconds_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, synced = [100.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(os, "fsync", synced.append)
    store = open_store(tmp_path, storage=Storage(sync="interval"))
    for now[0] in (104.0, 106.0, 107.0, 110.0, 112.0):
        put(store, failed(A, Failure.TIMEOUT), 0)
    store.close()
    assert len(synced) == 2 + 1  # at 106 and 112, and the log (there is no WARC file) at the end


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """No file grows beyond this: a write stops short there, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("links", [[], [link(f"{A}{n}") for n in range(2000)]])
def test_a_full_disk_surfaces_and_leaves_no_half_record(tmp_path: Path, links: list[Link]) -> None:
    """Without links it is the WARC file that has no room; with many, the log."""
    store = open_store(tmp_path)
    before = put(store, fetched(response(A, os.urandom(3000))), 0)
    page = fetched(response(B, b"x" if links else os.urandom(3000)), links)
    with disk_full_at(4000), pytest.raises(OSError) as failure:  # noqa: PT011
        put(store, page)
    assert failure.value.errno == errno.EFBIG
    after = put(store, fetched(response(C, b"third")), 0)
    store.close()
    [log] = session.log_files(tmp_path)
    assert [entry.row for entry in read_log(log) if isinstance(entry, LoggedPage)] == [
        before,
        after,
    ]
    [warc] = store.directory.glob("*.warc.gz")
    assert after.warc_offset in record_offsets(warc)


def record_offsets(warc: Path) -> dict[int, str]:
    with warc.open("rb") as file:
        records = ArchiveIterator(file, check_digests="raise")
        found = {}
        for record in records:
            record.raw_stream.read()
            found[records.get_record_offset()] = record.rec_headers["WARC-Target-URI"]
        return found


_ENDLESS = """
import sys
from itertools import count
from pathlib import Path
from crawler.config import Storage
from crawler.session import RankStore
sys.path.insert(0, sys.argv[2])
from fetches import fetched, link, put, response
store = RankStore(Path(sys.argv[1]), 0, Storage(), user_agent="t", obeys_robots=True)
for n in count():
    url = f"http://a.example/{n}"
    put(store, fetched(response(url, url.encode() * 500), [link(url + "/x")] * 20), 0)
    if n == 200:
        print("under way", flush=True)
"""


def test_kill_9_loses_at_most_the_record_being_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ENDLESS, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    session.mend([tmp_path / "rank-00000"])
    [log] = session.log_files(tmp_path)
    rows = [entry.row for entry in read_log(log) if isinstance(entry, LoggedPage)]
    assert len(rows) > 200
    assert [row.url for row in rows] == [f"http://a.example/{n}" for n in range(len(rows))]
    [warc] = (tmp_path / "rank-00000").glob("*.warc.gz")
    stored = record_offsets(warc)
    for row in rows:
        assert row.warc_offset is not None
        assert stored[row.warc_offset] == row.url


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 226, 299, 404, 500])
def test_equal_pages_of_every_status_of_success_are_revisits(tmp_path: Path, status: int) -> None:
    store = open_store(tmp_path)
    rows = [put(store, fetched(response(one, b"same", status=status)), 0) for one in (A, B)]
    store.close()
    assert [row.duplicate for row in rows] == [False, status < 300]
    assert all(row.warc_file for row in rows)


def test_a_row_has_the_words_of_the_header_and_what_the_document_is(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    headers: list[list[tuple[bytes, bytes]]] = [[], [(b"Content-Type", b"HTML; x")]]
    rows = [put(store, fetched(response(A, b"<p>", headers=one)), 0) for one in headers]
    rows.append(put(store, fetched(response(A, b"")), 0))
    store.close()
    assert [row.content_type for row in rows] == [None, "html", "text/html"]
    assert [row.media_type for row in rows] == ["text/html", "text/html", None]


# --- the tables


def test_tables_hold_the_rows_of_all_ranks(tmp_path: Path) -> None:
    first, second = open_store(tmp_path, 0), open_store(tmp_path, 1)
    links = [link(B), link(ELSEWHERE, NOFOLLOW | OUT_OF_SCOPE)]
    rows = [
        put(first, fetched(response(A, b"four"), links), 0),
        put(first, fetched(response(B, b"four", started=1_800_000_009.0), [link(A)]), 0),
        put(first, failed(ELSEWHERE, Failure.DNS_NOT_FOUND), 1),
        put(
            second,
            fetched(response(C, b"", status=301, started=1_700_000_000.0), [link(D, REDIRECT)]),
            1,
        ),
        put(second, fetched(response(A, b"cut", truncated="time", failure=Failure.TIMEOUT)), 1),
    ]
    first.close()
    second.close()
    with (tmp_path / "rank-00001" / "log" / "00000.log").open("ab") as log:
        log.write(b"torn")

    totals, ranks = write_tables(tmp_path)
    assert (totals.pages, totals.unique_pages, totals.stored_pages) == (4, 3, 3)
    assert (totals.duplicate_content, totals.bytes) == (1, 4 + 4 + 3)
    assert totals.by_status == {200: 3, 301: 1}
    assert totals.by_error == {"dns-not-found": 1, "timeout": 1}
    assert [(one.pages, one.unique_pages, one.bytes) for one in ranks] == [(2, 2, 8), (2, 2, 3)]
    assert [one.by_status for one in ranks] == [{200: 2}, {200: 1, 301: 1}]
    assert totals.torn == ranks[1].torn
    [torn] = totals.torn
    assert (torn.path.parent.parent.name, torn.lost_bytes) == ("rank-00001", 4)

    pages = pq.read_table(tmp_path / "tables" / "pages")
    assert pages.column_names == list(PageRow.__struct_fields__)
    for got, row in zip(pages.to_pylist(), rows, strict=True):
        assert got.pop("time").timestamp() == row.time
        assert got == {name: getattr(row, name) for name in got}
    assert pq.read_table(tmp_path / "tables" / "links").to_pylist() == [
        {
            "source_key": urls.key(source),
            "target_key": urls.key(target),
            "target_url": target,
            "flags": flags,
            "lastmod": None,
        }
        for source, target, flags in [
            (A, B, 0),
            (A, ELSEWHERE, 129),
            (B, A, 0),
            (C, D, 2),
        ]
    ]
    sites = pq.read_table(tmp_path / "tables" / "sites").to_pylist()
    for site in sites:
        site["first_time"] = site["first_time"].timestamp()
        site["last_time"] = site["last_time"].timestamp()
    assert sites == [
        {
            "site": "a.example",
            "part": None,  # of two
            "pages": 4,
            "errors": 1,
            "bytes": 11,
            "address": "127.0.0.1",
            "first_time": 1_700_000_000.0,
            "last_time": 1_800_000_009.0,
            **dict.fromkeys(
                ("requests", "smallest_gap", "promised_gap", "impolite", "crawl_delay")
            ),
            "requisites": 0,
        },
        {
            "site": "b.example",
            "part": 1,
            "pages": 0,
            "errors": 1,
            "bytes": 0,
            "address": None,
            "first_time": 1_800_000_000.0,
            "last_time": 1_800_000_000.0,
            **dict.fromkeys(
                ("requests", "smallest_gap", "promised_gap", "impolite", "crawl_delay")
            ),
            "requisites": 0,
        },
    ]
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "links", "pages", "sites",
    ]  # fmt: skip
    for name in ("links", "pages", "sites"):
        files = sorted(path.name for path in (tmp_path / "tables" / name).iterdir())
        assert files == ["00000.parquet", "00001.parquet"]


def test_the_title_and_the_language_come_from_the_fetch_into_the_table(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    page = fetched(response(A))
    page.title, page.language = "Übung", "de"
    put(store, page, 0)
    put(store, fetched(response(B)), 0)
    store.close()
    write_tables(tmp_path)
    table = pq.read_table(tmp_path / "tables" / "pages")
    assert table["title"].to_pylist() == ["Übung", None]
    assert table["language"].to_pylist() == ["de", None]


def test_rows_and_tables_of_earlier_versions_lack_the_title(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000" / "log" / "00000.log"
    path.parent.mkdir(parents=True)
    row = list(msgspec.structs.astuple(page_row(1)))[: PageRow.__struct_fields__.index("title")]
    body = b"P" + msgspec.msgpack.encode([row, b"", b"", b"", False])
    path.write_bytes(b"ABC-LOG\n\3\0\0\0" + struct.pack("<II", len(body), zlib.crc32(body)) + body)
    write_tables(tmp_path)
    pages = tmp_path / "tables" / "pages" / "00000.parquet"
    table = pq.read_table(pages)
    assert (table["title"].to_pylist(), table["language"].to_pylist()) == ([None], [None])
    pq.write_table(table.drop_columns(["title", "language"]), pages)
    assert list(check_tables(tmp_path)) == []


def test_tables_of_nothing_are_empty(tmp_path: Path) -> None:
    totals, ranks = write_tables(tmp_path)
    assert ranks == []
    assert (totals.pages, totals.unique_pages, totals.by_status, totals.torn) == (0, 0, {}, ())
    for name in ("pages", "links", "sites"):
        assert pq.read_table(tmp_path / "tables" / name).num_rows == 0


def test_tables_are_the_same_in_small_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(
        tmp_path / "rank-00000" / "log",
        *((page_row(n), [link(f"{A}{m}", m) for m in range(n % 5)]) for n in range(50)),
    )
    write_tables(tmp_path)
    names = [tmp_path / "tables" / name / "00000.parquet" for name in ("pages", "links", "sites")]
    large = [pq.read_table(name) for name in names]
    monkeypatch.setattr("crawler.session.tables._PAGE_ROWS", 7)
    monkeypatch.setattr("crawler.session.columns._LINK_ROWS", 9)
    write_tables(tmp_path)
    assert [pq.read_table(name) for name in names] == large
    assert pq.ParquetFile(names[0]).num_row_groups == 8
    assert pq.ParquetFile(names[1]).num_row_groups > 5


def test_tables_that_fail_leave_the_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "rank-00000" / "log", (page_row(0), []))
    write_tables(tmp_path)
    path.write_bytes(b"ABC-LOG\n\7\0\0\0")
    with pytest.raises(UserError):
        write_tables(tmp_path)
    files = [path for path in (tmp_path / "tables").rglob("*") if path.is_file()]
    assert [path.suffix for path in files] == [".parquet"] * 3
    assert pq.read_table(tmp_path / "tables" / "pages").num_rows == 1


# --- session.toml


def test_session_toml_is_a_configuration_with_a_table_more(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "crawl"
    settings = config.load(
        values={
            "session": {"seeds": (A,)},
            "assignment": {"suffixes": {"ac.uk": 1}},
            "storage": {"warc_size": "1 MB"},
            "sites": [{"match": "a.example", "delay_s": 2}, {"match": ["*.b.example", "c"]}],
        }
    )
    session.create(directory, settings, ranks=4, parts=16, seeds=[A])
    info = session.load(directory)
    assert info.config == settings
    assert (info.last.ranks, info.last.parts) == (4, 16)
    assert (info.last.ended, info.last.complete, info.last.reason) == (None, None, None)
    session.finish(directory, complete=False, reason='max_pages "100"\nreached')
    info = session.load(directory)
    assert info.config == settings
    assert info.config.storage.warc_size == 1_000_000
    assert info.last.complete is False
    assert info.last.reason == 'max_pages "100"\nreached'
    assert info.last.ended is not None
    assert info.last.started <= info.last.ended
    raw = tomllib.loads((directory / "session.toml").read_text())
    assert set(raw) == {"run", *config.Config.all_keys}
    assert {path.name for path in directory.iterdir()} == {"session.toml", "seeds.txt"}
    assert session.seeds(directory) == [A]


def test_session_toml_keeps_the_history_of_the_runs(tmp_path: Path) -> None:
    session.create(tmp_path, config.Config(), ranks=4, parts=4, seeds=[A])
    session.ask_to_stop(tmp_path)
    session.finish(tmp_path, complete=False, reason="stop")
    first = session.load(tmp_path).last
    wider = config.load(None, ["scope.max_hops=3"])
    for settings, seeds in ((wider, [A]), (wider, [A]), (wider, [A, B])):
        runs = session.resume(tmp_path, settings, 2, 8, seeds).runs
    assert not session.is_asked_to_stop(tmp_path)
    info = session.load(tmp_path)
    assert info.config == wider
    assert list(info.runs) == list(runs)
    assert info.runs[0] == first
    assert [(run.ranks, run.parts) for run in info.runs] == [(4, 4), (2, 8), (2, 8), (2, 8)]
    assert len({run.scope for run in info.runs[:2]}) == 2
    assert info.runs[1].scope == info.runs[2].scope != info.runs[3].scope
    assert session.seeds(tmp_path) == [A, B]


def test_a_session_is_never_overwritten(tmp_path: Path) -> None:
    session.create(tmp_path, config.Config(), 1, 1, [A])
    with pytest.raises(UserError, match="holds a session already; resume it"):
        session.create(tmp_path, config.Config(), 1, 1, [A])
    (tmp_path / "session.toml").rename(tmp_path / "away")
    open_store(tmp_path).close()
    with pytest.raises(UserError, match="holds a session already"):
        session.create(tmp_path, config.Config(), 1, 1, [A])


def test_a_directory_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"file/session: Not a directory; name a directory that can be"
    ):
        session.create(tmp_path / "file" / "session", config.Config(), 1, 1, [A])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory; name the directory of a session"),
        ("[[run", "not the description of a session"),
        ("", "not the description of a session"),
        ("run = []", "not the description of a session"),
        ('[[run]]\nversion = "1"\nranks = 1', "not the description of a session: .*parts"),
        (
            '[[run]]\nversion = "1"\nranks = 1\nparts = 1\nscope = "0"\n'
            "started = 2027-01-15T08:00:00Z\n"
            "[storage]\nwarc_sice = 1",
            "storage.warc_sice: unknown",
        ),
    ],
)
def test_what_is_no_session(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "session.toml").write_text(text)
    with pytest.raises(UserError, match=f"session.toml: .*{message}|session.toml: {message}"):
        session.load(tmp_path)


def test_orders_to_clients_come_in_the_order_of_giving_and_end_with_the_run(tmp_path: Path) -> None:
    session.create(tmp_path, config.Config(), ranks=4, parts=4, seeds=[A])
    assert session.client_orders(tmp_path) == []
    for leaves in (None, 3, None):
        session.order_client(tmp_path, leaves)
    assert session.client_orders(tmp_path) == [None, 3, None]
    with (tmp_path / "clients").open("a") as file:
        file.write("leave 2")  # somebody is writing this line
    assert session.client_orders(tmp_path) == [None, 3, None]
    session.resume(tmp_path, config.Config(), 4, 4, [A])
    assert session.client_orders(tmp_path) == []


@pytest.mark.parametrize("line", ["leave", "leave -1", "come 3", "go"])
def test_a_wrong_order_to_a_client_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "clients").write_text(f"come\n{line}\n")
    with pytest.raises(UserError, match=r"clients: line 2: expected 'come' or 'leave RANK'"):
        session.client_orders(tmp_path)
