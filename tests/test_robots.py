"""Rules and their cache; the files are small enough to judge by eye."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.robots import MAX_BYTES, RobotsCache, Rules

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
