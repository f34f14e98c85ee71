"""Many rules, packed, decide as few ones do, and take a memory that grows with their file."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.reading import patterns
from crawler.reading.robots import MAX_BYTES, Rules
from crawler.reading.robots_cache import RobotsCache

A = "http://a.example"


def filled(line: bytes, size: int = MAX_BYTES) -> bytes:
    """A robots.txt of that many bytes with the lines that `line` makes of numbers."""
    lines = [b"User-agent: *\n"]
    left = size - len(lines[0])
    number = 0
    while left > 0:
        lines.append((line % number if b"%" in line else line) + b"\n")
        left -= len(lines[-1])
        number += 1
    return b"".join(lines[:-1])


PIECES = st.sampled_from(["a", "b", "ab", "aab", "*", "**", "/", "%61", "%2f", "c", "index.html"])
LINES = st.tuples(
    st.sampled_from(["allow", "disallow"]),
    st.lists(PIECES, max_size=6).map("".join),
    st.sampled_from(["", "$"]),
)
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "/", "%2F", "c", "index.html"]), max_size=8)


@settings(max_examples=300)
@given(st.lists(LINES, min_size=1, max_size=30), st.lists(PATHS, min_size=1, max_size=8))
def test_packed_rules_decide_as_loose_ones_do(
    lines: list[tuple[str, str, str]], paths: list[list[str]]
) -> None:
    text = "User-agent: *\n" + "".join(f"{kind}: /{p}{end}\n" for kind, p, end in lines)
    loose = Rules.parse(text.encode(), "abc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "_LOOSE_BYTES", 1000)  # of which a rule or two make more
        packed = Rules.parse(text.encode() + b"Disallow: /zz\nDisallow: /z*z\n" * 3, "abc")
    for pieces in paths:
        address = f"{A}/{''.join(pieces)}"
        allowed, line = packed.decide(address)
        expected, expected_line = loose.decide(address)
        assert allowed == expected
        if line is None or expected_line is None:
            assert line == expected_line
        else:  # of rules of one length any may be named
            assert line.partition(":")[0] == expected_line.partition(":")[0]


# By name: a line, with a number in it; a path that rules match, and one that they don't.
MANY = {
    "prefixes": (b"Disallow: /p%d", "/p77x", "/q"),
    "wildcards": (b"Disallow: *x%d", "/abcx1234", "/abc1234"),
    "hard wildcards": (b"Disallow: *aabaa%d", "/" + "a" * 2000 + "aabaa99", "/" + "a" * 2000),
    "ends": (b"Disallow: /*a%d$", "/xa77", "/xa"),
    "exact": (b"Disallow: /p%d$", "/p77", "/p77x"),
    "folders": (b"Allow: /p%d/index.html\nDisallow: /p", "/px", "/p77/"),
    "pieces": (b"Disallow: /" + b"*a" * 100 + b"*b%d", "/" + "a" * 120 + "b77", "/" + "a" * 99),
    "bytes": (b"Disallow: /\xe9*%d", "/%E9/77", "/%C3%A9/77"),
    "heads": (b"Disallow: /a%d/*/x", "/a77/b/x", "/a77/x"),
}


UNENDED = {"ends", "exact", "pieces"}  # which the longer rule of the test isn't longer than


@pytest.mark.parametrize("name", MANY)
def test_of_half_a_megabyte_every_rule_counts(name: str) -> None:
    line, denied, allowed = MANY[name]
    body = filled(line)
    rules = Rules.parse(body, "abc")
    assert not rules.allows(A + denied)
    assert rules.allows(A + allowed)
    verdict, decisive = rules.decide(A + denied)
    assert (verdict, decisive is not None and decisive.encode("utf-8", "replace")[:9]) == (
        False,
        b"Disallow:",
    )
    # The longest of those that match decides, and Allow before Disallow.
    if name != "folders":
        longer = body[: MAX_BYTES - 5000] + b"\nAllow: %b*\n" % denied.encode()
        assert Rules.parse(longer, "abc").allows(A + denied) or name in UNENDED


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (place % 3 > 0))
        for place, name in enumerate(MANY)
    ],
)
def test_rules_take_a_memory_that_grows_with_their_file(name: str) -> None:
    body = filled(MANY[name][0])
    Rules.parse(body, "abc")  # what is made once
    tracemalloc.start()
    try:
        rules = Rules.parse(body, "abc")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= 2 * len(body)
    assert rules.size >= held // 3
    assert peak <= 50 * len(body)  # while it is read


@pytest.mark.parametrize("line", [b"sitemap:/%d", b"user-agent:b%d", b"crawl-delay:%d", b"#%d"])
def test_lines_without_rules_take_little(line: bytes) -> None:
    rules = Rules.parse(filled(line), "abc")
    assert rules.size < 1 << 20
    assert len(rules.sitemaps) in {0, 5000}


def test_the_cache_is_bounded_in_bytes() -> None:
    small = Rules.parse(filled(b"Disallow: /%d", 5000), "abc")
    large = Rules.parse(filled(b"Disallow: *%d"), "abc")
    cache = RobotsCache(max_bytes=20 * small.size, max_large_bytes=3 * large.size)
    cache.put("http://good.example", small, now=0)
    for number in range(200):
        cache.put(f"http://large{number}.example", large, now=0)
        assert cache.bytes <= 20 * small.size + 3 * large.size
    assert cache.get("http://large199.example", now=1) is large
    assert cache.get("http://good.example", now=1) is small  # large ones don't push it out
    for number in range(200):
        cache.put(f"http://small{number}.example", small, now=0)
    assert cache.bytes <= 20 * small.size + 3 * large.size
    assert cache.get("http://good.example", now=1) is None
    assert cache.get("http://small199.example", now=1) is small
    cache = RobotsCache()  # by default large ones may have 2 MiB
    for number in range(20):
        cache.put(f"http://large{number}.example", large, now=0)
    assert cache.bytes <= 2 << 20


def test_a_site_counts_once_however_often_its_rules_change() -> None:
    small = Rules.parse(filled(b"Disallow: /%d", 5000), "abc")
    large = Rules.parse(filled(b"Disallow: *%d"), "abc")
    cache = RobotsCache()
    for rules in (small, large, Rules.allow_all(), large, small):
        cache.put("http://a.example", rules, now=0)
        assert cache.get("http://a.example", now=1) is rules
        assert len(cache) == 1
        assert cache.bytes - rules.size < 1000


def test_expired_rules_are_kept_for_when_there_are_no_others() -> None:
    cache = RobotsCache(ttl_s=10, keeps_expired=True)
    cache.put("http://a.example", Rules.allow_all(), now=0)
    assert cache.get("http://a.example", now=10) is None
    assert cache.latest("http://a.example") is Rules.allow_all()
    assert cache.latest("http://b.example") is None


@pytest.mark.parametrize(
    "lines",
    [
        [b"allow:*%s*b\n" % (b"a" * size) for size in range(1, 1000)],  # many lengths
        [b"allow:*%sc%s\n" % (b"a" * 45, b"a" * 45)] * 400,  # few enough to be tried one by one
    ],
    ids=["lengths", "wildcards"],
)
def test_a_long_path_is_judged_in_steps(lines: list[bytes]) -> None:
    rules = Rules.parse(b"User-agent: *\n" + b"".join(lines) + b"Disallow: *ab\n", "abc")
    for address, expected in ((f"{A}/{'a' * 16_000}", True), (f"{A}/{'a' * 16_000}bx", None)):
        steps, count = rules.judging(address), 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                verdict = end.value
                break
            count += 1
        assert count > 10
        assert verdict == rules.allows(address)
        assert expected is None or verdict == expected
