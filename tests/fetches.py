"""Fetches as the fetch stage would hand them on, for tests of what comes behind it."""

from collections.abc import Callable, Sequence

from crawler import url as urls
from crawler.ports import CrawlUrl, Failure, Fetched, Link, PageRow, Response
from crawler.session import RankStore

REQUEST = b"GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: test\r\n\r\n"
HTML = (b"Content-Type", b"text/html; charset=utf-8")


def response(
    url: str,
    payload: bytes = b"<p>hello</p>",
    *,
    headers: Sequence[tuple[bytes, bytes]] = (HTML,),
    status: int = 200,
    reason: str = "OK",
    started: float = 1_800_000_000.25,
    truncated: str | None = None,
    failure: Failure | None = None,
) -> Response:
    return Response(
        url=url,
        started=started,
        seconds=0.5,
        address="127.0.0.1",
        request_head=REQUEST,
        version="1.1",
        status=status,
        reason=reason,
        headers=headers,
        payload=payload,
        body=payload,
        truncated=truncated,
        failure=failure,
        payload_whole=truncated is None,
    )


def found(url: str, hops: int = 0) -> CrawlUrl:
    return CrawlUrl(urls.key(url), url, urls.site(url), hops)


def link(url: str, flags: int = 0) -> Link:
    return Link(urls.key(url), url, urls.site(url), flags)


def fetched(answer: Response, links: Sequence[Link] = (), *, hops: int = 0) -> Fetched:
    return Fetched(
        found(answer.url, hops), answer.started, answer, address=answer.address, links=list(links)
    )


def put(
    store: RankStore,
    page: Fetched,
    part: int = 0,
    follows: Callable[[PageRow], bool] = lambda row: True,
) -> PageRow:
    """Store a page by itself. Returns its row."""
    store.hash(page)
    rows = [store.archive(page, part, follows)]
    store.log([page], rows)
    return rows[0]


def failed(url: str, failure: Failure, *, time: float = 1_800_000_000.0) -> Fetched:
    return Fetched(found(url), time, failure=failure)
