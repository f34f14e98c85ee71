"""Any bytes a server may send, on the whole way: fetched, read, stored, and read back by warcio."""

import asyncio
import gzip
from collections.abc import Callable, Iterator

import pytest
from crawls import check_warc_files
from fetches import found
from hypothesis import given
from hypothesis import strategies as st
from servers import RawServer
from test_net import LOCAL, NoResolver

from crawler import config
from crawler.net import HttpFetcher
from crawler.ports import Failure, Fetched, FetchError, PageRow
from crawler.reading.reader import PageReader, make_scope
from crawler.session import RankStore

STATUS = st.sampled_from([b"200 OK", b"301 \xff", b"304", b"404 \x1b[2J", b"503 Busy", b"999"])
NAMES = st.sampled_from(
    [b"Content-Type", b"Content-Encoding", b"Content-Length", b"Transfer-Encoding", b"Location",
     b"Link", b"X-Robots-Tag", b"ETag", b"Retry-After", b"Connection"]
)  # fmt: skip
VALUES = st.binary(max_size=12) | st.sampled_from(
    [b"text/html", b"text/html; charset=utf-16", b"application/rss+xml", b"text/xml", b"image/png",
     b"gzip", b"deflate, br", b"zstd", b"chunked", b"7", b"99", b"close", b"/x?\xe9", b"//[",
     b"http://b.example:99999/", b"</y>; rel=next",
     b"nofollow, none", b'"\x00"', b"\r\n folded"]
)  # fmt: skip
WORDS = [
    b"<a href=", b"'/x'>", b'"\xe4\xb8\xad">', b"<base href=//b.example>", b"<!--", b"-->",
    b"<meta ", b"charset=gbk>", b"http-equiv=refresh content='0;url=/y'>", b"<urlset><url><loc>",
    b"</loc>", b"<rss><item><link>", b"http://a.example/z", b"&#1;", b"&amp;", b"\0", b"\xff\xfe",
    b"<", b">", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\r\n\r\nWARC/1.1\r\n",
    gzip.compress(b"<a href=/gz>"),
]  # fmt: skip
REPLIES = st.builds(
    lambda status, headers, body: b"HTTP/1.1 %b\r\n%b\r\n%b" % (status, b"".join(headers), body),
    STATUS,
    st.lists(st.builds(b"%b: %b\r\n".__mod__, st.tuples(NAMES, VALUES)), max_size=5),
    st.lists(st.sampled_from(WORDS) | st.binary(max_size=8), max_size=12).map(b"".join),
)

Trip = Callable[[bytes], PageRow]


@pytest.fixture(scope="module")
def trip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trip]:
    session = tmp_path_factory.mktemp("trip")
    settings = config.load(
        None,
        [
            'scope.domains=["*"]',
            "sitemaps.from_robots=true",
            'extract.types=["text/html", "application/rss+xml"]',
            'extract.elements=["a", "img", "link", "refresh"]',
        ],
    )
    reader = PageReader(settings, make_scope(settings, [], 2026))
    store = RankStore(session, 0, settings.storage, user_agent="x", obeys_robots=True)
    reply = b""

    async def fetch(url: str) -> Fetched:
        try:
            return Fetched(found(url), 0.0, await fetcher.fetch(url))
        except FetchError as error:
            return Fetched(found(url), 0.0, failure=error.failure)

    with (
        RawServer(lambda connection: connection.sendall(reply)) as server,
        asyncio.Runner() as runner,
    ):
        fetcher = HttpFetcher(LOCAL, NoResolver())
        runner.run(fetcher.__aenter__())

        def go(sent: bytes) -> PageRow:
            nonlocal reply
            reply = sent
            fetched = runner.run(fetch(server.url))
            for _ in reader.read(fetched):
                pass
            store.hash(fetched)
            rows = [store.archive(fetched, 0)]
            store.log([fetched], rows)
            return rows[0]

        yield go
        runner.run(fetcher.__aexit__())
    store.close()
    check_warc_files(session)


@given(REPLIES | st.binary(max_size=60))
def test_any_reply_becomes_a_row_and_good_records(trip: Trip, reply: bytes) -> None:
    row = trip(reply)
    assert (row.status is None) == (row.warc_file is None)
    assert row.error is None or row.error in set(Failure)
    assert row.status is not None or row.error is not None
    assert row.truncated is None or row.error is not None
