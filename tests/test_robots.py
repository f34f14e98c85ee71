"""Rules and their cache; the files are small enough to judge by eye."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.reading.robots import MAX_BYTES, Rules
from crawler.reading.robots_cache import RobotsCache

AGENT = "abc-crawler"


def rules(text: str | bytes) -> Rules:
    return Rules.parse(text if isinstance(text, bytes) else text.encode(), AGENT)


def url(path: str) -> str:
    return f"http://a.example{path}"


def test_own_group_replaces_the_group_for_all() -> None:
    found = rules("User-agent: abc-crawler\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n")
    assert not found.allows(url("/a/page"))
    assert found.allows(url("/b/page"))


def test_groups_of_one_agent_are_merged_and_others_dont_matter() -> None:
    found = rules(
        "User-agent: ABC-Crawler\nDisallow: /a\n"
        "User-agent: otherbot\nUser-agent: thirdbot\nDisallow: /\n"
        "User-agent: abc-crawler\nDisallow: /b\n"
    )
    assert [found.allows(url(path)) for path in ("/a", "/b", "/c")] == [False, False, True]


def test_longest_match_wins_and_a_tie_allows() -> None:
    found = rules("User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /t\nAllow: /t\n")
    assert [found.allows(url(path)) for path in ("/a/c", "/a/b/c", "/t")] == [False, True, True]


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b"\0\xff\n", b"<html>\n", b"# none\r\n"])
def test_dirt_before_the_rules(prefix: bytes) -> None:
    assert not rules(prefix + b"User-agent: *\nDisallow: /a\n").allows(url("/a"))


_TEXT = "User-agent: *\nDisallow: /a\nDisallow: /\u00fc\n"
_ENCODINGS = ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("encoding", _ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_rules_in_every_encoding_of_unicode(encoding: str, marked: bool, end: str) -> None:
    text = ("\ufeff" if marked else "") + _TEXT.replace("\n", end)
    found = rules(text.encode(encoding))
    assert not found.allows(url("/a"))
    assert found.allows(url("/b"))
    # UTF-32 without a mark is nothing that anybody writes.
    if marked or "32" not in encoding:
        assert not found.allows(url("/%C3%BC"))


def test_a_rule_in_latin_1_is_of_the_url_in_latin_1() -> None:
    found = rules(_TEXT.encode("latin-1"))
    assert not found.allows(url("/%FC"))
    assert found.allows(url("/%C3%BC"))


def test_marks_inside_a_file_and_zeros_anywhere_hide_no_rule() -> None:
    found = rules(b"\xef\xbb\xbf# one\n\n\xef\xbb\xbfUser-agent: *\nDis\0allow: /a\0\n")
    assert not found.allows(url("/a"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_of_a_long_file_the_cut_line_goes_in_any_encoding(encoding: str) -> None:
    width = len("x".encode(encoding))
    head = "\ufeffUser-agent: *\nDisallow: /a\n#"
    filler = "x" * (MAX_BYTES // width - len((head + "\nDisallow: /").encode(encoding)) // width)
    found = rules((head + filler + "\nDisallow: /private\n").encode(encoding))
    assert not found.allows(url("/a"))
    assert found.allows(url("/b"))


@given(st.binary(max_size=300), st.sampled_from(_ENCODINGS))
def test_any_bytes_are_a_robots_txt(body: bytes, encoding: str) -> None:
    rules(body).allows(url("/a"))
    rules("\ufeff".encode(encoding) + body).allows(url("/a"))


def test_html_holds_no_rules() -> None:
    assert rules("<html><body>Disallow: /</body></html>").allows(url("/a"))


def test_what_robots_txt_itself_may() -> None:
    for found in (Rules.deny_all(), rules("User-agent: *\nDisallow: /\n")):
        assert found.allows(url("/robots.txt"))
        assert found.decide(url("/robots.txt")) == (True, None)
        assert not found.allows(url("/"))


def test_delay_and_sitemaps() -> None:
    found = rules(
        "Sitemap: http://a.example/1.xml\nUser-agent: *\nCrawl-delay: 2.5\nSitemap: /2.xml\n"
    )
    assert found.crawl_delay == 2.5
    assert found.sitemaps == ("http://a.example/1.xml", "/2.xml")
    assert Rules.allow_all().crawl_delay is None
    assert rules("User-agent: *\nCrawl-delay: inf\n").crawl_delay is None


def test_only_the_first_half_megabyte_counts_and_no_cut_line() -> None:
    head = b"User-agent: *\nDisallow: /a\n"
    line = b"Disallow: /bb\n"
    filler = b"#" * (MAX_BYTES - len(head) - len(line)) + b"\n"
    found = rules(head + filler + line)  # one byte too long: the last line goes
    assert not found.allows(url("/a"))
    assert found.allows(url("/bb"))
    assert not rules(head + filler[1:] + line).allows(url("/bb"))


def test_many_agents_over_many_rules_cost_no_more_than_their_lines() -> None:
    agents = "".join(f"User-agent: bot{n}\n" for n in range(10_000))
    disallowed = "".join(f"Disallow: /{n}\n" for n in range(10_000))
    found = rules(agents + disallowed + "User-agent: *\nDisallow: /a\n")
    assert [found.allows(url(path)) for path in ("/1", "/a")] == [True, False]


DECIDED = """\
User-agent: otherbot
Disallow: /
User-agent: *
Disallow: /a   # a remark
Allow: /a/open
Disallow: /*.pdf$
Dissallow: /misspelt
User-agent: thirdbot
Disallow: /a/longer/but/not/ours
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", (True, None)),
        ("/a/x", (False, "Disallow: /a   # a remark")),
        ("/a/open/x", (True, "Allow: /a/open")),
        ("/x.pdf", (False, "Disallow: /*.pdf$")),
        ("/x.pdf?", (True, None)),
        ("/misspelt", (False, "Dissallow: /misspelt")),
        ("/a/longer/but/not/ours", (False, "Disallow: /a   # a remark")),
    ],
)
def test_the_line_that_decides(path: str, expected: tuple[bool, str | None]) -> None:
    assert rules(DECIDED).decide(url(path)) == expected


@pytest.mark.parametrize(
    ("pattern", "path", "matched"),
    [
        # RFC 9309, section 2.2.2: the table, and what is said around it
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", True),
        ("/foo/bar?baz=http://foo.bar", "/foo/bar?baz=http%3A%2F%2Ffoo.bar", False),
        ("/foo/bar?baz=http%3A%2F%2Ffoo.bar", "/foo/bar?baz=http%3A%2F%2Ffoo.bar", True),
        ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A", True),
        ("/a b", "/a%20b", True),
        ("/a%2Fb", "/a/b", False),
        # section 2.2.3: special characters
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-x.html", False),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/path/foo-%24", "/path/foo-", False),
        ("/a$b", "/a$b", True),
        ("/a$b", "/a", False),
        ("/this/*/exactly$", "/this/is/not/exactly", True),
        ("/this/*/exactly$", "/this/is/not/exactly/so", False),
        ("/*s=", "/?s=x", True),
        ("*/test", "/test", True),
        ("*/test", "/a/test/b", True),
        ("/a**b*", "/axxbyy", True),
        ("/*a*b$", "/xaxb", True),
        ("/*ab*b$", "/ab", False),
        ("/$", "/", True),
        ("/$", "/a", False),
        ("$", "/", False),
        ("*", "/", True),
        ("test", "/test", False),
        ("/A", "/a", False),
    ],
)
def test_patterns(pattern: str, path: str, matched: bool) -> None:
    found = rules(f"User-agent: *\nDisallow: {pattern}\n")
    assert found.allows(url(path)) is not matched


def test_bytes_that_are_no_utf8_stand_for_themselves() -> None:
    found = rules(b"User-agent: *\nDisallow: /caf\xe9\n")
    assert not found.allows(url("/caf%E9"))
    assert found.allows(url("/caf%C3%A9"))
    assert found.decide(url("/caf%E9")) == (False, "Disallow: /caf\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n", " \n\t"])
def test_line_ends(end: str) -> None:
    found = rules(
        end.join(["\ufeffUser-Agent:*", "Disallow:/a", "disallow :\t/b # c", "ALLOW: /b/c"])
    )
    verdicts = [found.allows(url(path)) for path in ("/a", "/b", "/b/c", "/c")]
    assert verdicts == [False, False, True, True]


def test_only_ends_of_lines_end_lines() -> None:
    assert not rules("User-agent: *\nDisallow: /a\x0b\x85\u2028b\n").allows(
        url("/a%0B%C2%85%E2%80%A8b")
    )


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("abc-crawler", True),
        ("ABC-Crawler/2.1 (+http://a.example/)", True),
        ("abc-crawler otherbot", True),
        ("abc-crawler*", True),
        ("abc", False),
        ("abc-crawler-news", False),
        ("crawler", False),
        ("", False),
    ],
)
def test_product_tokens(name: str, ours: bool) -> None:
    found = rules(f"User-agent: {name}\nDisallow: /a\nUser-agent: *\nDisallow: /b\n")
    assert [found.allows(url("/a")), found.allows(url("/b"))] == [not ours, ours]


def test_groups() -> None:
    # Lines without meaning, and those that belong to no group, are between the names of a group.
    found = rules(
        "Disallow: /x\nUser-agent: otherbot\nSitemap: http://a.example/s\n<br>\n\n"
        "User-agent: abc-crawler\nDisallow: /a\n\nDisallow: /b\nUser-agent: *\nDisallow: /c\n"
    )
    verdicts = [found.allows(url(path)) for path in ("/x", "/a", "/b", "/c")]
    assert verdicts == [True, False, False, True]
    # An own group without rules allows everything.
    assert rules("User-agent: *\nDisallow: /\n\nUser-agent: abc-crawler\nDisallow:").allows(
        url("/a")
    )


def test_an_allowed_index_page_allows_its_folder() -> None:
    found = rules("User-agent: *\nDisallow: /\nAllow: /a/index.html\n")
    assert [found.allows(url(path)) for path in ("/a/", "/a/index.html", "/a/b")] == [
        True,
        True,
        False,
    ]
    assert found.decide(url("/a/")) == (True, "Allow: /a/index.html")


def test_delays_are_for_the_agents_named_before_them() -> None:
    text = (
        "User-agent: abc-crawler\nCrawl-delay: 3\nCrawl-delay: 2\nUser-agent: *\ncrawl-delay: 9\n"
    )
    found = rules(text + "Disallow: /a\n")
    assert found.crawl_delay == 3
    assert not found.allows(url("/a"))  # the rule is for both
    assert rules("User-agent: *\nCrawl-delay: -1\nCrawl-delay: x\n").crawl_delay is None


HOSTILE = {
    "rules": (b"Disallow: /%d\n", 40_000),
    "wildcards": (b"Disallow: *%d*x\n", 30_000),
    "lengths": (b"Disallow: /" + b"x" * 100 + b"%d\n", 4_000),
    "agents": (b"User-agent: bot%d\n", 25_000),
    "stars": (b"*a%d", 100_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_take_a_time_that_grows_with_their_length(name: str) -> None:
    line, count = HOSTILE[name]
    found = rules(
        b"User-agent: *\nDisallow: /" + b"".join(line % number for number in range(count))
    )
    assert found.allows(url("/" + "a" * 2000))


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_comes_in_steps(name: str) -> None:
    line, count = HOSTILE[name]
    body = b"User-agent: *\n" + b"\n".join(line % number for number in range(count))
    steps = Rules.reading(body, "abc-crawler")
    assert sum(step is None for step in steps) > 30


def test_a_line_that_is_longer_than_any_url_is_none() -> None:
    found = rules("User-agent: *\nDisallow: /" + "x" * (1 << 16) + "\nDisallow: /a\n")
    assert not found.allows(url("/a"))
    assert found.allows(url("/" + "x" * (1 << 16)))


def test_patterns_that_backtrack_elsewhere() -> None:
    found = rules("User-agent: *\nDisallow: /" + "*a" * 1000 + "b\n")
    assert found.allows(url("/" + "a" * 100_000))
    assert not found.allows(url("/" + "a" * 100_000 + "b"))


def test_without_rules_no_line_decides() -> None:
    assert Rules.allow_all().decide(url("/a")) == (True, None)
    assert Rules.deny_all().decide(url("/a")) == (False, None)


LINES = st.one_of(
    st.text(max_size=30),
    st.builds(
        lambda field, value: f"{field}: {value}",
        st.sampled_from(["User-agent", "Disallow", "allow", "Crawl-delay", "Sitemap", "Host"]),
        st.one_of(st.sampled_from(["*", "abc-crawler", "abc*", "/", "/a", "/*a$"]), st.text()),
    ),
)


@given(st.lists(LINES).map("\n".join), st.sampled_from(["/", "/a", "/xa", "/a?b=%C3%A9", "//["]))
def test_any_text_is_harmless_and_decide_agrees_with_allows(text: str, path: str) -> None:
    found = rules(text.encode("utf-8", "surrogatepass"))
    allowed, line = found.decide(url(path))
    assert allowed == found.allows(url(path))
    assert allowed or line is not None
    assert line is None or line in text.replace("\ufeff", "") or "\N{REPLACEMENT CHARACTER}" in line


@given(st.binary())
def test_any_bytes_are_harmless(body: bytes) -> None:
    assert rules(body).allows(url("/robots.txt"))


def test_cache_keeps_an_answer_a_day_and_no_answer_ten_minutes() -> None:
    cache = RobotsCache()
    cache.put("http://a.example", Rules.allow_all(), now=0)
    denied = Rules.deny_all()
    cache.put("http://b.example", denied, now=0)
    assert cache.get("http://a.example", now=86_399) is Rules.allow_all()
    assert cache.get("http://a.example", now=86_400) is None
    assert cache.get("http://b.example", now=599) is denied
    assert cache.get("http://b.example", now=600) is None
    assert len(cache) == 0


def test_cache_lets_go_of_what_was_used_least_recently() -> None:
    cache = RobotsCache(max_sites=2)
    cache.put("http://a.example", Rules.allow_all(), now=0)
    cache.put("http://b.example", Rules.allow_all(), now=0)
    assert cache.get("http://a.example", now=1)
    cache.put("http://c.example", Rules.allow_all(), now=1)
    assert cache.get("http://b.example", now=1) is None
    assert cache.get("http://a.example", now=1)
    assert len(cache) == 2
