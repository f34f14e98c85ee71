"""The scope: tables of rules and verdicts, small enough to judge by eye."""

import re
from typing import Any

import pytest
from cases import CASES, needs_cases
from hypothesis import given
from hypothesis import strategies as st

from crawler import config, url
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, UserError
from crawler.reading.scope import Scope, Sites

AUTHORITY = Sites("authority")
DOMAIN = Sites("domain")


def scope(*, seeds: tuple[str, ...] = (), sites: Sites = AUTHORITY, **rules: object) -> Scope:
    return Scope(config.Scope(**rules), sites, seeds)


@pytest.mark.parametrize(
    ("address", "authority", "domain"),
    [
        ("http://www.a.example/x", "www.a.example", "a.example"),
        ("https://www.a.example:8443/", "www.a.example:8443", "a.example"),
        ("http://a.b.co.uk/", "a.b.co.uk", "b.co.uk"),
        ("http://co.uk/", "co.uk", "co.uk"),  # a public suffix is nobody's: stays as it is
        ("http://user.github.io/", "user.github.io", "user.github.io"),
        ("http://localhost:81/", "localhost:81", "localhost"),
        ("http://192.0.2.7:8080/", "192.0.2.7:8080", "192.0.2.7"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080", "2001:db8::1"),
    ],
)
def test_sites_by_authority_and_by_registrable_domain(
    address: str, authority: str, domain: str
) -> None:
    assert url.normalise(address) == address
    assert AUTHORITY.of(address) == authority
    assert DOMAIN.of(address) == domain


@pytest.mark.parametrize(
    ("rules", "inside", "outside"),
    [
        (  # exact host names, whatever the scheme and the port
            {"hosts": ("A.example", "2001:db8::1", "192.0.2.7")},
            (
                "http://a.example/",
                "https://a.example:8443/x",
                "http://[2001:db8::1]:81/",
                "http://192.0.2.7:81/",
            ),
            ("http://www.a.example/", "http://example/", "http://[2001:db8::2]/"),
        ),
        (
            {"domains": ("a.example",)},
            ("http://a.example/", "http://www.a.example/", "http://x.y.a.example:81/"),
            ("http://ba.example/", "http://a.example.org/", "http://example/"),
        ),
        ({"domains": ("*",)}, ("http://a.example/", "http://[::1]/", "http://192.0.2.7/"), ()),
        (  # below a suffix, not the suffix itself
            {"suffixes": ("ac.uk", ".EDU")},
            ("http://x.ac.uk/", "http://y.x.ac.uk/", "http://x.edu/"),
            ("http://ac.uk/", "http://xac.uk/", "http://x.uk/", "http://edu/"),
        ),
        (  # one of several is enough
            {"hosts": ("a.example",), "suffixes": ("org",)},
            ("http://a.example/", "http://b.org/"),
            ("http://b.example/",),
        ),
    ],
)
def test_hosts_domains_and_suffixes(
    rules: dict[str, Any], inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    judge = scope(seeds=("http://seed.example/",), **rules).judge  # with rules, seeds open nothing
    assert [address for address in inside if not judge(address).allowed] == []
    assert [address for address in outside if judge(address).allowed] == []
    assert not judge("http://seed.example/").allowed or rules == {"domains": ("*",)}


def test_without_rules_the_scope_is_the_sites_of_the_seeds() -> None:
    judge = scope(seeds=("http://a.example:81/deep/page",)).judge
    assert judge("http://a.example:81/").allowed
    assert judge("https://a.example:81/") == (True, "site of a seed: a.example:81")
    for other in ("http://a.example/", "https://a.example/", "http://www.a.example:81/"):
        assert judge(other) == (False, "not the site of a seed")


def test_with_domain_sites_a_seed_opens_its_whole_domain() -> None:
    judge = scope(seeds=("http://www.a.example/", "http://[::1]:81/"), sites=DOMAIN).judge
    for same in ("https://b.a.example:8443/", "http://a.example/", "http://[::1]:82/"):
        assert judge(same).allowed
    assert not judge("http://b.example/").allowed
    assert not judge("http://127.0.0.1/").allowed


def test_only_below_the_folders_of_the_seeds() -> None:
    seeds = (
        "http://a.example/docs/intro.html?x=/y/",
        "http://b.example:81/x/",
        "http://c.example/",
    )
    rules = scope(seeds=seeds, of_seeds="path")
    for address in (
        *seeds,
        "https://a.example/docs/",
        "http://a.example/docs/en/2.html",
        "http://b.example:81/x/?/",
        "http://c.example/anything?at=all",
    ):
        assert rules.judge(address).allowed, address
    for address in (
        "http://a.example/",
        "http://a.example/docs",
        "http://a.example/docsy/",
        "http://a.example/x/docs/",
        "http://b.example:81/docs/",
        "http://b.example/x/",
        "http://www.a.example/docs/",
    ):
        assert not rules.judge(address).allowed, address


def test_a_redirect_of_a_seed_may_leave_its_folder_and_its_site() -> None:
    rules = scope(seeds=("http://a.example/docs/",), of_seeds="path")
    assert rules.judge_beyond("https://www.a.example/documentation/").allowed
    assert rules.join("www.a.example")
    assert rules.judge("https://www.a.example/docs/2").allowed
    assert not rules.judge("https://www.a.example/shop/").allowed


def test_subdomains_of_the_seeds() -> None:
    rules = scope(seeds=("http://www.a.example/x", "http://b.example/"), of_seeds="subdomains")
    for host in ("a.example", "x.y.a.example:8080", "b.example", "www.b.example"):
        assert rules.judge(f"https://{host}/").allowed, host
    for host in ("ba.example", "example", "b.example.org"):
        assert not rules.judge(f"http://{host}/").allowed, host


def test_hosts_that_are_named_make_the_seeds_say_nothing() -> None:
    for kind in ("site", "path", "subdomains"):
        rules = scope(seeds=("http://a.example/x/",), hosts=("a.example",), of_seeds=kind)
        assert rules.judge("http://a.example/").allowed
        assert not rules.judge("http://www.a.example/x/").allowed


def test_nothing_is_inside_an_empty_scope() -> None:
    assert not scope().judge("http://a.example/").allowed


def test_patterns_narrow_the_scope_and_never_widen_it() -> None:
    judge = scope(
        hosts=("a.example",), include=("/docs/", r"\.html$"), exclude=("[?]print=", "/old/")
    ).judge
    assert judge("http://a.example/docs/") == (True, "scope.include: /docs/")
    assert judge("http://a.example/x.html") == (True, r"scope.include: \.html$")
    assert judge("http://a.example/x") == (False, "scope.include: no pattern matches")
    assert judge("http://a.example/docs/?print=1") == (False, "scope.exclude: [?]print=")
    assert judge("http://a.example/old/x.html") == (False, "scope.exclude: /old/")
    assert not judge("http://b.example/docs/").allowed


def test_a_verdict_names_its_rule() -> None:
    assert scope(hosts=("a.example",)).judge("http://a.example/").rule == "scope.hosts: a.example"
    assert scope(domains=("example",)).judge("http://a.example/").rule == "scope.domains: example"
    assert scope(suffixes=("uk",)).judge("http://a.uk/").rule == "scope.suffixes: uk"
    assert scope(seeds=("http://a.uk/",)).judge("http://a.uk/x").rule == "site of a seed: a.uk"
    assert scope(hosts=("a.example",)).judge("http://b.example/").rule == (
        "no host, domain or suffix of the scope matches"
    )


def test_a_link_carries_key_site_and_its_place_in_the_scope() -> None:
    inside = scope(hosts=("a.example",)).link("http://a.example:81/x", NOFOLLOW)
    assert inside == (
        url.key("http://a.example:81/x"),
        "http://a.example:81/x",
        "a.example:81",
        NOFOLLOW,
    )
    outside = scope(hosts=("a.example",)).link("http://b.example/", NOFOLLOW)
    assert outside.flags == NOFOLLOW | OUT_OF_SCOPE


@given(st.lists(st.sampled_from(["a", "b", "co", "uk", "example"]), min_size=1, max_size=4))
def test_a_domain_holds_exactly_itself_and_what_ends_in_it_after_a_dot(labels: list[str]) -> None:
    host = ".".join(labels)
    judge = scope(domains=("b.example",)).judge
    assert judge(f"http://{host}/").allowed == (labels[-2:] == ["b", "example"])


NAMES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3).map(".".join)


@given(NAMES, st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=4))
def test_of_several_names_the_longest_decides(
    host: str, domains: list[str], suffixes: list[str]
) -> None:
    verdict = scope(hosts=("c",), domains=domains, suffixes=suffixes).judge(f"http://{host}/")
    below = [name for name in suffixes if host.endswith("." + name)]
    inside = [name for name in domains if host == name or host.endswith("." + name)]
    if inside:
        assert verdict == (True, f"scope.domains: {max(inside, key=len)}")
    elif below:
        assert verdict == (True, f"scope.suffixes: {max(below, key=len)}")
    else:
        assert not verdict.allowed


@given(
    st.lists(st.sampled_from(["a", "b", "co", "uk", "github", "io"]), min_size=1, max_size=4),
    st.sampled_from(["http", "https"]),
    st.sampled_from(["", ":81"]),
)
def test_a_domain_site_depends_on_the_host_alone_and_is_its_end(
    labels: list[str], scheme: str, port: str
) -> None:
    host = ".".join(labels)
    site = DOMAIN.of(f"{scheme}://{host}{port}/x")
    assert site == DOMAIN.of(f"http://{host}/")
    assert host == site or host.endswith("." + site)
    assert DOMAIN.of(f"http://{site}/") == site


@pytest.mark.parametrize(
    ("written", "host"),
    [("Bücher.example", "xn--bcher-kva.example"), ("[::1]", "[::1]"), ("A.example.", "a.example")],
)
def test_hosts_are_written_as_people_write_them(written: str, host: str) -> None:
    scope = Scope(config.Scope(hosts=(written,)), Sites("authority"), [])
    assert scope.judge(f"http://{host}/").allowed


@pytest.mark.parametrize("table", ["hosts", "domains", "suffixes"])
@pytest.mark.parametrize(
    "name", ["a.example:80", "abc:80", "http://a.example/", "*.a.example", "", "a b", "."]
)
def test_a_name_that_no_host_can_match_is_refused(table: str, name: str) -> None:
    with pytest.raises(UserError, match=rf"scope\.{table}: .*must be a host name"):
        Scope(config.Scope(**{table: [name]}), Sites("authority"), [])


@needs_cases
def test_registrable_domains_by_the_test_of_the_public_suffix_list() -> None:
    text = (CASES / "conformance" / "suffix" / "test_psl.txt").read_text("utf-8")
    # Hosts that begin with a dot are no hosts of URLs.
    tests = re.findall(r"(?m)^checkPublicSuffix\('([^.].*)', (?:'(.*)'|null)\)", text)
    assert len(tests) == 73
    for host, domain in tests:
        expected = url.host(url.normalise(f"http://{domain or host}/"))
        assert DOMAIN.of(url.normalise(f"http://{host}/")) == expected
