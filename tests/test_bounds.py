"""What input from the web costs is bounded by its bytes: work is counted here, never timed."""

import gzip
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import pytest
from fetches import found, response
from hypothesis import given
from hypothesis import strategies as st

from crawler import config, url
from crawler.net import retry_after_s
from crawler.ports import OUT_OF_SCOPE, REDIRECT, Failure, Fetched
from crawler.reading.parse.headers import header_links, reading_links
from crawler.reading.parse.links import Links, reading
from crawler.reading.parse.resolution import most_characters
from crawler.reading.parse.tokens import Tag, TooLong, attributes_of, tags, unescape
from crawler.reading.parse.xhtml import tags as xhtml_tags
from crawler.reading.reader import PageReader, make_scope
from crawler.reading.shapes import Shapes
from crawler.reading.sitemaps import entries
from crawler.reading.traps import TrapMonitor, _put_in
from crawler.url import MAX_FOLLOWED, MAX_LENGTH, BadUrlError, LongUrlError, normalise

T = TypeVar("T")

A = "http://a.example"
PAGE = f"{A}/dir/page"
ALL = frozenset({"a", "area", "frame", "iframe", "img", "link", "refresh"})


def walk(steps: Generator[None, None, T]) -> tuple[T, int]:
    """The result, and the number of steps."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def read(text: str, encoding: str = "utf-8") -> tuple[Links, int, Counter[str]]:
    left_out = Counter[str]()
    links, count = walk(reading(text, PAGE, encoding, ALL, (), "abc", left_out=left_out))
    return links, count, left_out


# --- URLs


def test_a_url_has_so_many_characters() -> None:
    longest = f"{A}/" + "a" * (MAX_LENGTH - len(A) - 1)
    assert normalise(longest) == longest
    for reference in (longest + "a", f"{A}/" + "\u00e9" * (MAX_LENGTH // 6)):
        with pytest.raises(LongUrlError, match=r"more than 262144 characters") as raised:
            normalise(reference)
        assert len(str(raised.value)) < 200


def test_a_long_fragment_makes_no_long_url() -> None:
    assert normalise("/a#" + "x" * (MAX_LENGTH - 8), PAGE) == f"{A}/a"
    assert read("<a href='/a#" + "x" * (MAX_FOLLOWED * 2) + "'>")[0].targets == {f"{A}/a": 0}


@pytest.mark.parametrize("limit", [0, 100_000])
def test_what_no_server_takes_is_recorded_and_not_followed(limit: int) -> None:
    settings = config.load(None, [f"traps.max_url_length={limit}"])
    scope = make_scope(settings, [f"{A}/"], 2027)
    longest = f"{A}/" + "a" * (MAX_FOLLOWED - len(A) - 1)
    assert scope.link(longest).flags == 0
    assert scope.link(longest + "a").flags == OUT_OF_SCOPE
    assert scope.trapped == {"max_url_length": 1}


def test_a_redirect_to_a_long_url_is_recorded_or_fails() -> None:
    settings = config.load(None, [])
    for length, flags, failure in (
        (MAX_FOLLOWED, [REDIRECT | OUT_OF_SCOPE], None),
        (MAX_LENGTH, [], Failure.BAD_REDIRECT),
        (500_000, [], Failure.BAD_REDIRECT),
    ):
        answer = response(PAGE, b"", status=302, headers=[(b"Location", b"/" + b"a" * length)])
        fetched = Fetched(found(PAGE), 0.0, answer)
        for _ in PageReader(settings, make_scope(settings, [f"{A}/"], 2027)).read(fetched):
            pass
        assert ([link.flags for link in fetched.links], fetched.failure) == (flags, failure)


# --- links of a page

LENGTHS = (0, 1, 500, 3000, 20_000, 100_000, 250_000, 262_100, 300_000)
BASES = st.tuples(st.sampled_from(["a", "a/", "\u00e9"]), st.sampled_from(LENGTHS))  # of which


REFERENCES = st.sampled_from(
    ["%d", "%d?", "/%d", "/%d?", "?%d", "../%d?", "./%d", "//b/%d?", "%d/../x?", "%d \u00e9",
     "http://b/%d", "https:%d", "\\%d", "%d#", "mailto:%d", "../" * 30 + "%d"]
)  # fmt: skip


def folder(base: tuple[str, int]) -> str:
    piece, length = base
    return f"http://b.example/{piece * (length // len(piece.encode()))}/"


@given(BASES, st.lists(REFERENCES, min_size=1, max_size=3), st.sampled_from([3, 200, 1000]))
def test_the_urls_of_a_page_are_bounded_by_its_bytes(
    base: tuple[str, int], references: list[str], times: int
) -> None:
    hrefs = [reference % number for number in range(times) for reference in references]
    text = f"<base href='{folder(base)}'>" + "".join(f"<a href='{h}'>" for h in hrefs)
    links, _, left_out = read(text)
    total = sum(len(target) for target in links.targets)
    assert total <= most_characters(text) + MAX_LENGTH
    assert all(len(target) <= MAX_LENGTH for target in links.targets)
    assert len(links.targets) + left_out.total() <= len(hrefs)


@given(BASES, st.lists(REFERENCES, min_size=1, max_size=3))
def test_within_the_bounds_links_are_those_of_the_url_standard(
    base: tuple[str, int], references: list[str]
) -> None:
    href = folder(base)
    try:
        full = normalise(href)
    except LongUrlError:
        return
    hrefs = [reference % number for number, reference in enumerate(references)]
    text = f"<base href='{href}'>" + "".join(f"<a href='{h}'>" for h in hrefs)
    links, _, left_out = read(text)
    expected: dict[str, int] = {}
    for reference in hrefs:
        try:
            expected[normalise(reference, full)] = 0
        except LongUrlError:
            assert left_out["max_url_length"] > 0
        except BadUrlError:
            pass
    assert list(links.targets.items()) == list(expected.items())


def test_of_a_base_that_is_too_long_the_origin_counts() -> None:
    references = ("x", "/x", "//c.example/x", "http://d.example/x", "?x", "../x", "\\x", "data:x")
    text = "".join(f"<a href='{reference}'>" for reference in references)
    for start in ("http://b.example/", "//b.example/", "http://b.example?"):
        links, _, left_out = read(f"<base href='{start}{'a' * 300_000}'>{text}")
        assert list(links.targets) == [
            "http://b.example/x", "http://c.example/x", "http://d.example/x"
        ]  # fmt: skip
        assert left_out == {"max_url_length": 3}


def test_what_is_left_out_is_counted() -> None:
    text = "".join(f"<a href={number}>" for number in range(5))
    left_out = Counter[str]()
    walk(reading(text, PAGE, "utf-8", ALL, max_links=2, left_out=left_out))
    assert left_out == {"max_links": 3}
    left_out.clear()
    links, _ = walk(reading(text, PAGE, "utf-8", ALL, max_link_bytes=50, left_out=left_out))
    assert (len(links.targets), left_out) == (3, {"max_link_bytes": 2})
    assert read(f"<a href='{'a' * 300_000}'>")[2] == {"max_url_length": 1}
    assert read(f"<img src='data:{'a' * 300_000}'>")[2] == {}


def test_the_reader_counts_with_the_traps_what_is_left_out() -> None:
    settings = config.load(None, ["extract.max_link_bytes=100"])
    scope = make_scope(settings, [f"{A}/"], 2027)
    page = b"<a href='" + b"a" * 300_000 + b"'>" + b"".join(b"<a href=%d>" % n for n in range(99))
    fetched = Fetched(found(PAGE), 0.0, response(PAGE, page))
    for _ in PageReader(settings, scope).read(fetched):
        pass
    assert len(fetched.links) + scope.trapped.total() == 100
    assert scope.trapped["max_url_length"] == 1


# --- steps: the work between two of them is bounded, so their number grows with the input

CHARACTERS = 1 << 17  # that one step reads, about

LONG = {
    "script marks": "<script>" + "<!--" * 500_000,
    "script in script": "<script><!--<script>" * 100_000,
    "a script without end": "<script>" + "<" * 2_000_000,
    "a comment without end": "<!--" + "-" * 2_000_000,
    "a comment with ends that are none": "<!--" + "--!" * 700_000,
    "a title without end": "<title>" + "</titl" * 300_000,
    "long hrefs": "".join(f"<a href='/{n} {chr(0xE9) * 100_000}'>" for n in range(20)),
    "srcset": "<img srcset='" + "/i 1x, " * 30_000 + "'>" + " " * 600_000,
    "a base": f"<base href='{'a/' * 1000}'>" + "".join(f"<a href='{n}?'>" for n in range(40_000)),
}


@pytest.mark.parametrize("name", LONG)
def test_reading_comes_in_steps(name: str) -> None:
    text = LONG[name]
    assert read(text)[1] >= len(text) // CHARACTERS // 2


def test_queries_are_encoded_in_steps() -> None:
    """To encode a character takes longer than to read it."""
    text = "".join(f"<a href='/?q={number}{chr(0x4E2D) * 3000}'>" for number in range(80))
    steps = reading(text, "http://a.example/", "gb18030", frozenset({"a"}))
    assert walk(steps)[1] >= 40
    assert walk(reading(text, "http://a.example/", "utf-8", frozenset({"a"})))[1] < 40


@pytest.mark.parametrize("read_tags", [tags, xhtml_tags])
def test_the_attributes_of_a_long_tag_are_another_step_than_its_end(
    read_tags: Callable[[str, frozenset[str]], Iterator[Tag | None]],
) -> None:
    tag = "<a " + "x=' ' " * 200_000 + "/>"
    without_end, whole = (list(read_tags(text, frozenset({"a"}))) for text in (tag[:-1], tag))
    assert whole[-1] == ("a", tag[2:-1], len(tag))
    assert len(whole) == len(without_end) + 2  # a step ends behind the tag, before it is told


def test_xhtml_that_holds_no_markup_is_read_in_steps() -> None:
    for start, end in (
        ("<![CDATA[", "]]>"),
        ("<!--", "-->"),
        ("<?", "?>"),
        ("<script><!--", "-->"),
    ):
        text = start + end[0] * (8 << 20) + end
        close = "</script>" if "script" in start else ""
        steps = list(xhtml_tags(f"{text}{close}<a href='1'/>", frozenset({"a"})))
        assert steps.count(None) >= 8
        assert [step[:2] for step in steps if step] == [("a", " href='1'/")]


def test_the_end_of_xhtml_without_markup_may_lie_across_steps() -> None:
    for shift in range(5):
        text = "<![CDATA[" + "]" * ((1 << 20) - shift) + "]]><a/>"
        assert [step[:2] for step in xhtml_tags(text, frozenset({"a"})) if step] == [("a", "/")]


def test_a_long_name_of_xhtml_is_no_link_and_ends_where_it_ends() -> None:
    name = "a" * 1_000_000
    text = f"<a{name}><{name}:a href='2'/></a{name}><a href='1'/>"
    [tag] = [step for step in xhtml_tags(text, frozenset({"a"})) if step]
    assert tag == ("a", " href='1'/", len(text))


SCRIPT = st.lists(
    st.sampled_from(
        ["<!--", "-->", "<script>", "</script>", "<SCRIPT ", "</script/", "-", ">", "<!-->", "x"]
    )
)


@given(SCRIPT, st.integers(0, 64))
def test_where_a_script_ends_is_not_a_matter_of_windows(marks: list[str], shift: int) -> None:
    script = "".join(marks)

    def places(before: str) -> list[int]:
        text = f"<script>{before}{script}</x><a href=1><!--x--><a href=2>"
        return [len(text) - text.index(tag[1]) for tag in tags(text, frozenset({"a"})) if tag]

    assert places("x") == places("x" * ((1 << 17) - shift))


def test_a_tag_has_so_many_attributes_that_links_need() -> None:
    assert attributes_of(" name=x" * 2000 + " href=y") == {"name": "x"}
    assert attributes_of(" b" * 2000 + " href=y") == {"href": "y"}


def test_a_value_that_is_far_too_long_is_empty_and_known() -> None:
    value = attributes_of(f" href='http://b/{'x' * 300_000}'")["href"]
    assert value == ""
    assert isinstance(value, TooLong)
    assert value.start.startswith("http://b/x")
    assert len(value.start) < 1000


def test_references_to_characters_with_many_digits() -> None:
    assert unescape("&#" + "0" * 5000 + "65;") == "A"
    assert unescape("&#" + "1" * 5000 + ";") == "\ufffd"


# --- headers


def test_link_headers_come_in_steps() -> None:
    value = "<>;rel=next," * 40_000
    links = list(reading_links([value]))
    assert links.count(None) >= len(value) // (1 << 14)
    assert len(links) - links.count(None) == 40_000
    one = "<x>" + ";a=b" * 100_000 + ";rel=next"
    assert header_links([one]) == []
    assert header_links(["<x>" + ";a=b" * 50 + ";rel=next"]) != []


def test_the_links_of_headers_are_bounded_too() -> None:
    base = f"{A}/{'a' * 2000}/"
    settings = config.load(None, [])
    value = ", ".join(f"<{number}>;rel=next" for number in range(20_000)).encode()
    fetched = Fetched(found(base), 0.0, response(base, b"x", headers=[
        (b"Content-Type", b"text/html"), (b"Link", value)
    ]))  # fmt: skip
    scope = make_scope(settings, [f"{A}/"], 2027)
    for _ in PageReader(settings, scope).read(fetched):
        pass
    assert sum(len(link.url) for link in fetched.links) < (1 << 20) + 4000
    assert len(fetched.links) + scope.trapped["max_link_bytes"] == 20_000


def test_meta_elements_and_headers_for_robots_are_read_up_to_a_length() -> None:
    metas = "<meta name=robots content='" + "a," * 8000 + "'>"
    links, _, _ = read(metas * 20)
    assert sum(len(content) for _, content in links.metas) <= 1 << 15


# --- traps


def test_names_of_sessions_are_found_in_a_time_that_grows_with_the_url() -> None:
    watch = TrapMonitor(config.Traps(max_session_ids=1))
    address = f"{A}/?" + "sess" * 4000
    assert watch.admit(found(address), None)  # quadratic, it would take a second
    ids = [f"{A}/?xsessx={n}aaaaaa" for n in range(2)]
    assert [watch.admit(found(each), None) for each in ids] == [True, False]


@given(st.text("ab", max_size=6), st.text("ab", max_size=6), st.text("ab", min_size=1, max_size=4))
def test_what_has_been_put_into_a_url(head: str, tail: str, put: str) -> None:
    old, new = head + tail, head + put + tail
    more = _put_in(old, new)
    assert len(more) == len(put)
    assert any(old[:at] + more + old[at:] == new for at in range(len(old) + 1))
    assert _put_in(old + "c", new + "ddc" + "d") == ""


def steps(work: Iterator[None]) -> int:
    return sum(1 for _ in work)


def test_links_are_held_against_the_scope_in_steps_of_characters() -> None:
    settings = config.load(None, [])
    text = "".join(f"<a href='/{number}{'a' * 10_000}'>" for number in range(200))
    fetched = Fetched(found(PAGE), 0.0, response(PAGE, text.encode()))
    reader = PageReader(settings, make_scope(settings, [f"{A}/"], 2027))
    assert steps(reader.read(fetched)) >= len(text) // CHARACTERS
    assert len(fetched.links) == 200
    assert Shapes(settings.traps, 2027).rule(fetched.links[0].url) == "max_url_length"
    assert url.key(fetched.links[0].url) == fetched.links[0].key


# --- sitemaps


def test_the_urls_of_a_sitemap_are_bounded_by_its_bytes() -> None:
    base = f"{A}/{'a' * 2000}/sitemap.xml"
    listed = "".join(f"<url><loc>{number}</loc></url>" for number in range(20_000))
    body = f"<urlset>{listed}</urlset>".encode()
    found_urls = [entry.url for entry in entries(body, base) if entry is not None]
    total = sum(map(len, found_urls))
    assert len(found_urls) > 1000
    assert total <= (1 << 20) + 16 * len(body) + MAX_LENGTH


def test_a_gzip_file_of_very_many_members_ends_early() -> None:
    empty = gzip.compress(b"")
    entry = gzip.compress(b"<urlset><url><loc>/x</loc></url>")
    assert len([each for each in entries(empty * 1000 + entry, f"{A}/s.xml.gz") if each]) == 1
    assert not [each for each in entries(empty * 5000 + entry, f"{A}/s.xml.gz") if each]


# --- Retry-After


@pytest.mark.parametrize("value", [b"9" * 500_000, b"Sun, " * 100_000, b"1 " * 250_000])
def test_a_long_retry_after_says_nothing(value: bytes) -> None:
    answer = response(PAGE, b"", status=503, headers=[(b"Retry-After", value)])
    assert retry_after_s(answer, 0.0) is None
