"""A session after a session: what hasn't changed is a revisit, and nothing of it is lost."""

import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from fetches import HTML, fetched, link, put, response
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tabled import together
from test_warc import assert_warcio_accepts, records

from crawler import config, session
from crawler import url as urls
from crawler.agent import planning
from crawler.config import Storage
from crawler.ports import NOFOLLOW, Earlier, Failure, Fetched, Link, PageRow, Response, UserError
from crawler.session import Alone, Previous, RankStore, alone, most_linked
from crawler.session.warc import warc_files

A, B, C = (f"http://a.example/{name}" for name in "abc")
LINKS = [link(B), link(C, NOFOLLOW)]
ETAG = (b"ETag", b'"v1"')
DATE = (b"Last-Modified", b"Sat, 01 Jan 2000 00:00:00 GMT")
PROFILE = "http://netpreserve.org/warc/1.1/revisit/"


BY_SITE = {"a.example": 0, "b.example": 1}


def open_previous(session: Path | None) -> Previous:
    if session is None:
        return Previous.of_nothing()
    return alone(Previous.read(session, Alone(), lambda row: 0))


def crawl(
    session: Path, *pages: Fetched, previous: Path | None = None, rank: int = 0
) -> list[PageRow]:
    """Store pages, each with what the previous session says of it."""
    store = RankStore(session, rank, Storage(), user_agent="tester/1", obeys_robots=True)
    rows = []
    with open_previous(previous) as earlier:
        for page in pages:
            page.earlier = earlier.find(page.found.key)
            rows.append(put(store, page, 0))
    store.close()
    return rows


def answer(address: str, payload: bytes = b"hello", **more: object) -> Response:
    more = {"headers": [HTML, ETAG, DATE], **more}
    return response(address, payload, **more)  # type: ignore[arg-type]


def not_modified(address: str = A, *headers: tuple[bytes, bytes], started: float) -> Response:
    return response(address, b"", status=304, headers=headers, started=started)


def page(one: Response, links: list[Link] | None = None) -> Fetched:
    return fetched(one, LINKS if links is None else links)


# --- what is popular


def popular(session: Path, count: int) -> list[str]:
    """The most linked-to pages, which each of one to five processes finds."""
    found = [
        one
        for processes in range(1, 6)
        for one in together(processes, lambda peers: most_linked(session, count, peers))
    ]
    assert found == [found[0]] * len(found)
    return found[0]


def test_the_most_linked_pages_are_counted_by_the_pages_that_link_there(tmp_path: Path) -> None:
    """C has two, A and B one each. C's link to itself, and a second one from A, don't count; nor
    does what wasn't fetched, or is gone."""
    crawl(tmp_path, page(answer(A), [link(B), link(C), link(C, NOFOLLOW)]))
    gone, unknown = "http://a.example/gone", "http://a.example/unknown"
    others = [link(gone), link(unknown)]
    crawl(tmp_path, page(answer(B), [link(C), *others]), rank=1)
    crawl(tmp_path, page(answer(C), [link(C), link(A), *others]), rank=2)
    crawl(tmp_path, page(answer(gone, status=404), []), rank=3)
    equals = sorted([A, B], key=urls.key)
    assert popular(tmp_path, 9) == [C, *equals]
    assert popular(tmp_path, 2) == [C, equals[0]]
    assert popular(tmp_path, 0) == []
    assert popular(tmp_path / "none", 5) == []


def settings_after(previous: Path, directory: Path, number: int) -> config.Config:
    words = (f'session.previous="{previous}"', f'session.directory="{directory}"')
    seeds = (f'session.seeds=["{A}"]', "fetch.contact=nobody@example.org")
    return config.load(None, [*words, *seeds, f"exchange.replicated={number}"])


def test_all_ranks_know_the_popular_pages_of_the_previous_session(tmp_path: Path) -> None:
    """A resume adds pages if it is to replicate more, and then forgets the snapshots."""
    before, now = tmp_path / "before", tmp_path / "now"
    session.create(before, config.load(None, ["fetch.contact=nobody@example.org"]), 2, 2, [A])
    crawl(before, page(answer(A), [link(B), link(C)]))
    crawl(before, page(answer(B), [link(C)]), page(answer(C), [link(B), link(A)]), rank=1)
    session.finish(before, True, "complete")
    best = popular(before, 9)
    snapshot = now / "rank-00000" / "snapshot"
    for number in (1, 1, 3):
        settings = settings_after(before, now, number)

        def make(ranks: int, settings: config.Config = settings) -> planning.Plan:
            if not now.exists():
                return planning.prepare(settings, ranks)
            plan = planning.prepare_again(now, settings, ranks)
            snapshot.parent.mkdir(exist_ok=True)
            snapshot.write_bytes(b"")
            return replace(plan, covered=frozenset())

        is_new = number > len(session.replicated(now)) if now.exists() else True
        plans = together(2, lambda group, make=make: planning.plan_together(make, group))
        for plan in plans:
            assert isinstance(plan, planning.Plan)
            assert list(plan.replicated) == best[:number]
            assert plan.covered == (None if is_new else frozenset())
        assert session.replicated(now) == best[:number]
        assert plans[0].snapshots.fingerprint == session.fingerprint(now, settings, 2)
        assert not (is_new and snapshot.exists())
        session.finish(now, False, "stopped")
        session.unlock_session(now)


def test_a_previous_session_of_another_version_is_refused_before_a_session_is_made(
    tmp_path: Path,
) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    session.create(before, config.load(None, ["fetch.contact=nobody@example.org"]), 2, 2, [A])
    crawl(before, page(answer(A)))
    crawl(before, page(answer(B)), rank=1)
    (path,) = (before / "rank-00001" / "log").iterdir()
    path.write_bytes(b"ABC-LOG\n\x63" + path.read_bytes()[9:])
    with pytest.raises(UserError, match=r"session\.previous: .*rank-00001.*: log format 99"):
        planning.prepare(settings_after(before, now, 0), 2)
    assert not now.exists()


@settings(max_examples=15)
@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=3), max_size=3))
def test_the_most_linked_pages_by_their_definition(ranks: list[list[list[int]]]) -> None:
    """Each rank has fetched some pages, with links. The pages are numbered in their order."""
    number, sources = 0, defaultdict[str, set[str]](set)
    with tempfile.TemporaryDirectory() as name:
        for rank, pages in enumerate(ranks):
            fetched_here = []
            for targets in pages:
                address = f"http://a.example/{number}"
                links = [link(f"http://a.example/{target}") for target in targets]
                fetched_here.append(page(answer(address), links))
                for one in links:
                    sources[one.url] |= {address} - {one.url}
                number += 1
            crawl(Path(name), *fetched_here, rank=rank)
        known = [f"http://a.example/{one}" for one in range(number)]
        linked = [address for address in known if sources[address]]
        ranked = sorted(linked, key=lambda one: (-len(sources[one]), urls.key(one)))
        for count in (1, 3, 20):
            assert popular(Path(name), count) == ranked[:count]


# --- looking up


def test_a_page_comes_back_with_its_links_and_the_place_of_its_record(tmp_path: Path) -> None:
    (row,) = crawl(tmp_path / "1", page(answer(A)), rank=3)
    assert (row.etag, row.last_modified) == ('"v1"', "Sat, 01 Jan 2000 00:00:00 GMT")
    with open_previous(tmp_path / "1") as previous:
        assert len(previous) == 1
        (file,) = warc_files(tmp_path / "1" / "rank-00003")
        found = previous.find(row.key)
        assert found is not None
        assert replace(found, original=None) == Earlier(row, [(B, 0), (C, NOFOLLOW)], file)
        assert previous.find(row.key + 1) is None
        assert previous.find(0) is None


def test_pages_of_all_ranks_are_found_and_the_latest_of_several(tmp_path: Path) -> None:
    crawl(tmp_path, page(answer(A, b"old")), page(answer(B)), rank=0)
    crawl(tmp_path, page(answer(C)), rank=1)
    (new,) = crawl(tmp_path, page(answer(A, b"new")), rank=0)  # of a later run
    with open_previous(tmp_path) as previous:
        assert len(previous) == 4
        assert all(previous.find(urls.key(address)) for address in (A, B, C))
        found = previous.find(urls.key(A))
        assert found is not None
        assert found.row == new


@pytest.mark.parametrize(
    "spoiled",
    [
        answer(A, status=404),
        answer(A, status=301),
        answer(A, truncated="length", failure=Failure.TOO_LARGE),
        answer(A, failure=Failure.BAD_ENCODING),
        not_modified(started=1.8e9),  # though nobody had asked whether
    ],
)
def test_what_is_no_whole_page_is_not_looked_up(tmp_path: Path, spoiled: Response) -> None:
    crawl(tmp_path, page(spoiled))
    with open_previous(tmp_path) as previous:
        assert len(previous) == 0


def test_a_page_whose_record_is_gone_is_fetched_anew(tmp_path: Path) -> None:
    crawl(tmp_path, page(answer(A)))
    for file in tmp_path.rglob("*.warc.gz"):
        file.unlink()
    with open_previous(tmp_path) as previous:
        assert previous.find(urls.key(A)) is None


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=3)), max_size=6), max_size=4),
    st.integers(1, 4),
    st.sampled_from([1, 100]),
)
def test_each_process_gets_the_pages_that_it_may_need(
    logs: list[list[tuple[int, bytes]]], processes: int, at_a_time: int
) -> None:
    """Site 0 is needed by all. Each finds what one process finds that has all pages."""

    def owner(row: PageRow) -> int | None:
        number = int(row.url[-1])
        return number % processes if number else None

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawler.session.previous._ROUND", at_a_time)
        for rank, pages in enumerate(logs):
            told = (page(answer(f"http://a.example/{number}", text)) for number, text in pages)
            crawl(Path(name), *told, rank=rank)
        parts = together(processes, lambda peers: Previous.read(Path(name), peers, owner))
        with open_previous(Path(name)) as whole:
            for number in range(10):
                key = urls.key(f"http://a.example/{number}")
                for rank, part in enumerate(parts):
                    needs = not number or number % processes == rank
                    assert part.find(key) == (whole.find(key) if needs else None)
        for part in parts:
            part.close()


def test_only_what_is_wanted_takes_memory(tmp_path: Path) -> None:
    crawl(tmp_path, page(answer(A)), page(answer("http://b.example/")))
    both = together(2, lambda peers: Previous.read(tmp_path, peers, lambda row: BY_SITE[row.site]))
    for previous, kept in zip(both, (urls.key(A), urls.key("http://b.example/")), strict=True):
        with previous:
            assert len(previous) == 1
            assert previous.find(kept) is not None
    with open_previous(None) as previous:
        assert len(previous) == 0
        assert previous.find(1) is None


def test_a_torn_log_serves_up_to_its_tear(tmp_path: Path) -> None:
    crawl(tmp_path, page(answer(A)), page(answer(B)))
    (log,) = tmp_path.glob("rank-*/log/*.log")
    log.write_bytes(log.read_bytes()[:-5])
    with open_previous(tmp_path) as previous:
        assert previous.find(urls.key(A)) is not None
        assert previous.find(urls.key(B)) is None


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b'W/"x"', 'W/"x"'),
        (b'"a\rSet-Cookie: b"', None),
        (b'"a\x1b[2J"', None),
        (b'"\xe9"', None),
        (b"", None),
        (b'"' + b"x" * 600 + b'"', None),
    ],
)
def test_validators_can_be_sent_back_or_are_dropped(
    tmp_path: Path, value: bytes, kept: str | None
) -> None:
    (row,) = crawl(tmp_path, page(answer(A, headers=[(b"ETag", value)])))
    assert row.etag == kept


# --- revisits


def fields_of(session: Path, row: PageRow) -> dict[str, str]:
    (file,) = warc_files(session / f"rank-{row.rank:05}")
    index = assert_warcio_accepts(file)
    number = [entry["offset"] for entry in index].index(str(row.warc_offset))
    return records(file)[number][0]


def test_warc_revisit_of_a_304_refers_to_the_page_that_has_not_changed(tmp_path: Path) -> None:
    (first,) = crawl(tmp_path / "1", page(answer(A)))
    unchanged = page(not_modified(started=1.9e9))
    (second,) = crawl(tmp_path / "2", unchanged, previous=tmp_path / "1")
    original, revisit = fields_of(tmp_path / "1", first), fields_of(tmp_path / "2", second)
    assert revisit["WARC-Type"] == "revisit"
    assert revisit["WARC-Profile"] == PROFILE + "server-not-modified"
    assert revisit["WARC-Refers-To"] == original["WARC-Record-ID"]
    assert revisit["WARC-Refers-To-Target-URI"] == A
    assert revisit["WARC-Refers-To-Date"] == original["WARC-Date"] == "2027-01-15T08:00:00.250000Z"
    assert revisit["WARC-Payload-Digest"] == original["WARC-Payload-Digest"]
    assert (second.status, second.bytes, second.duplicate, second.error) == (304, 0, True, None)
    assert (second.digest, second.content_type) == (first.digest, "text/html")
    assert (second.etag, second.last_modified) == (first.etag, first.last_modified)


def test_warc_revisit_of_an_equal_payload_refers_to_the_previous_session(tmp_path: Path) -> None:
    (first,) = crawl(tmp_path / "1", page(answer(A)))
    again, other = answer(A, started=1.9e9), answer(B, b"something else")
    second, new = crawl(tmp_path / "2", page(again), page(other), previous=tmp_path / "1")
    (file,) = warc_files(tmp_path / "2" / "rank-00000")
    kinds = [entry["warc-type"] for entry in assert_warcio_accepts(file)]
    assert kinds == ["warcinfo", "revisit", "request", "response", "request"]
    revisit = fields_of(tmp_path / "2", second)
    assert revisit["WARC-Profile"] == PROFILE + "identical-payload-digest"
    assert revisit["WARC-Refers-To-Target-URI"] == A
    assert revisit["WARC-Refers-To-Date"] == fields_of(tmp_path / "1", first)["WARC-Date"]
    assert (second.status, second.bytes, second.duplicate) == (200, 5, True)
    assert not new.duplicate


def test_a_changed_page_is_stored_whole(tmp_path: Path) -> None:
    crawl(tmp_path / "1", page(answer(A)))
    (second,) = crawl(tmp_path / "2", page(answer(A, b"new")), previous=tmp_path / "1")
    assert not second.duplicate
    assert fields_of(tmp_path / "2", second)["WARC-Type"] == "response"


@pytest.mark.parametrize("third", [not_modified(started=2e9), answer(A, started=2e9)])
@pytest.mark.parametrize("second", [not_modified(started=1.9e9), answer(A, started=1.9e9)])
def test_revisits_of_revisits_refer_to_the_record_that_has_the_page(
    tmp_path: Path, second: Response, third: Response
) -> None:
    (first,) = crawl(tmp_path / "1", page(answer(A)))
    crawl(tmp_path / "2", page(second), previous=tmp_path / "1")
    (last,) = crawl(tmp_path / "3", page(third), previous=tmp_path / "2")
    original, revisit = fields_of(tmp_path / "1", first), fields_of(tmp_path / "3", last)
    assert revisit["WARC-Refers-To"] == original["WARC-Record-ID"]
    assert revisit["WARC-Refers-To-Date"] == original["WARC-Date"]
    assert last.digest == first.digest


def test_a_304_that_nobody_asked_for_is_no_revisit(tmp_path: Path) -> None:
    (row,) = crawl(tmp_path, page(not_modified(started=1.9e9)))
    assert fields_of(tmp_path, row)["WARC-Type"] == "response"
    assert not row.duplicate


def test_a_304_on_a_record_that_is_not_what_it_was_is_no_revisit(tmp_path: Path) -> None:
    """Somebody put another file in the place of the one that the previous session wrote."""
    crawl(tmp_path / "1", page(answer(A)))
    crawl(tmp_path / "x", page(answer(A, b"HELLO")))
    (file,), (wrong,) = (warc_files(tmp_path / name / "rank-00000") for name in "1x")
    file.write_bytes(wrong.read_bytes())
    (row,) = crawl(tmp_path / "2", page(not_modified(started=1.9e9)), previous=tmp_path / "1")
    assert fields_of(tmp_path / "2", row)["WARC-Type"] == "response"
    assert not row.duplicate


# --- a previous session that is damaged, or moved away, while it is used


@pytest.mark.parametrize("harm", ["moved", "emptied", "cut", "flipped", "another", "folder"])
@pytest.mark.parametrize("when", ["before", "between"])
def test_a_record_that_cant_be_read_makes_a_page_new(
    tmp_path: Path, harm: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Damage before the request: the page is asked for as a new one. Damage after it: what the
    record said is known already."""
    (row,) = crawl(tmp_path / "1", page(answer(A, b"hello" * 100)))
    crawl(tmp_path / "0", page(answer(B, b"other" * 100)))
    (file,), (other,) = (warc_files(tmp_path / n / "rank-00000") for n in "10")
    content = file.read_bytes()
    assert row.warc_offset is not None

    def harm_it() -> None:
        if harm == "flipped":
            middle = row.warc_offset + (len(content) - row.warc_offset) // 3
            wrong = bytes([content[middle] ^ 255])
            file.write_bytes(content[:middle] + wrong + content[middle + 1 :])
        elif harm in {"emptied", "cut"}:
            file.write_bytes(content[: row.warc_offset + 40 if harm == "cut" else 0])
        else:
            file.unlink()
            if harm == "another":
                other.rename(file)
            elif harm == "folder":
                file.mkdir()

    store = RankStore(tmp_path / "2", 0, Storage(), user_agent="tester/1", obeys_robots=True)
    with open_previous(tmp_path / "1") as previous:
        if when == "before":
            harm_it()
            assert previous.find(row.key) is None
            assert previous.find(row.key) is None
            assert len([r for r in caplog.records if "fetched again" in r.message]) == 1
            return
        earlier = previous.find(row.key)
        assert earlier is not None
        harm_it()
        unchanged = fetched(not_modified(A, started=2_000_000_000), LINKS)
        unchanged.earlier = earlier
        again = put(store, unchanged, 0)
    store.close()
    assert (again.status, again.duplicate, again.digest) == (304, True, row.digest)
    (written,) = warc_files(tmp_path / "2" / "rank-00000")
    (revisit,) = [head for head, _ in records(written) if head["WARC-Type"] == "revisit"]
    assert revisit["WARC-Refers-To-Target-URI"] == A


def test_a_damaged_log_of_the_previous_session_makes_its_pages_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (row,) = crawl(tmp_path / "1", page(answer(A)))
    (log,) = (tmp_path / "1").rglob("log/*")
    with open_previous(tmp_path / "1") as previous:
        for content in (b"", b"\0" * log.stat().st_size, log.read_bytes()[:-9], b"\xff" * 5000):
            log.write_bytes(content)
            assert previous.find(row.key) is None
    assert "fetched again" in caplog.text


@pytest.mark.parametrize("earlier", [True, False])
def test_a_record_without_a_place_has_no_original(tmp_path: Path, earlier: bool) -> None:
    (row,) = crawl(tmp_path / "1", page(answer(A)))
    gone = Earlier(row, [], tmp_path / "gone.warc.gz")
    unchanged = fetched(not_modified(A, started=2_000_000_000), LINKS)
    unchanged.earlier = gone if earlier else None
    store = RankStore(tmp_path / "2", 0, Storage(), user_agent="tester/1", obeys_robots=True)
    again = put(store, unchanged, 0)
    store.close()
    assert (again.status, again.duplicate) == (304, False)
