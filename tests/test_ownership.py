"""Ownership: each scheme by hand-checkable cases, and what consistent hashing promises."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import config, url
from crawler.core.ownership import (
    Hierarchical,
    Ownership,
    Registrar,
    Scheme,
    SiteHash,
    UrlHash,
    make_scheme,
    place_parts,
    replicated_urls,
)
from crawler.modes import CROSS_OVER, EXCHANGE, FIREWALL, INDEPENDENT, Mode
from crawler.ports import CrawlUrl, UserError
from partition import partvector

SITES = [f"{number}.example" for number in range(2000)]


def at(site: str, key: int = 0) -> CrawlUrl:
    """Some URL of a site."""
    return CrawlUrl(key, f"{site}/{key}", site, 0)


class Listed:
    """A scheme that knows some sites: the part vector of these tests."""

    def __init__(self, parts: int, sites: dict[str, int]) -> None:
        self.parts = parts
        self.sites = sites

    def part(self, key: int, site: str) -> int | None:
        return self.sites.get(site)


def assignment(**values: object) -> config.Assignment:
    return config.Assignment.model_validate(values)


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


# --- schemes ----------------------------------------------------------------------------------


@given(st.integers(0, 2**64 - 1), st.integers(1, 1000))
def test_url_hash_is_the_key_modulo_the_parts(key: int, parts: int) -> None:
    assert UrlHash(parts).part(key, "a.example") == key % parts


@given(st.integers(1, 1000), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_site_hash_keeps_a_site_together_and_every_rank_agrees(
    parts: int, one: int, other: int
) -> None:
    part = SiteHash(parts).part(one, "a.example")
    assert 0 <= part < parts
    assert SiteHash(parts).part(other, "a.example") == part


def test_site_hash_is_the_same_in_every_process_and_version() -> None:
    """Sessions are resumed and compared across processes: these numbers may never change."""
    scheme = SiteHash(7)
    sites = ["http://a.example", "https://a.example", "http://a.example:81", "a.example", "[::1]"]
    assert [scheme.part(0, site) for site in sites] == [1, 2, 2, 4, 0]


@settings(max_examples=20)
@given(st.integers(1, 40))
def test_one_more_part_takes_its_share_of_the_sites_and_moves_no_other(parts: int) -> None:
    before, after = SiteHash(parts), SiteHash(parts + 1)
    moved = [site for site in SITES if before.part(0, site) != after.part(0, site)]
    assert {after.part(0, site) for site in moved} <= {parts}
    share = len(SITES) / (parts + 1)
    assert abs(len(moved) - share) < 5 * share**0.5  # five standard deviations


def test_site_hash_spreads_sites_evenly() -> None:
    counts = [0] * 10
    scheme = SiteHash(10)
    for site in SITES:
        counts[scheme.part(0, site)] += 1
    assert min(counts) > 140  # of 200 expected, with a deviation of 13
    assert max(counts) < 260


@pytest.mark.parametrize(
    ("site", "part"),
    [
        ("www.a.ac.uk", 2),
        ("a.ac.uk:8443", 2),
        ("ac.uk", 2),
        ("bbc.co.uk", 1),
        ("xac.uk", 1),  # a suffix begins at a dot
        ("special.a.ac.uk", 3),
        ("www.special.a.ac.uk", 3),
        ("a.de:81", 0),
        ("co.uk", 1),  # as a site with assignment.site = "domain"
        ("de", 0),
    ],
)
def test_hierarchical_goes_by_the_longest_suffix(site: str, part: int) -> None:
    table = {"DE": 0, "uk": 1, ".ac.uk": 2, "special.a.ac.uk": 3}
    scheme = Hierarchical(table, 5)
    assert scheme.part(0, site) == part
    assert scheme.part(1, site) == part  # also from memory


@pytest.mark.parametrize("site", ["a.example", "192.0.2.7:81", "[2001:db8::1]", "2001:db8::1"])
def test_hierarchical_leaves_other_hosts_to_the_site_hash(site: str) -> None:
    assert Hierarchical({"de": 0}, 5).part(0, site) == SiteHash(5).part(0, site)


def test_a_table_of_suffixes_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "suffixes"
    file.write_text("# countries by language\nde 0\nat 0   # too\n\nac.uk 2\n")
    table = {"suffixes": {"uk": 1}, "suffixes_file": str(file)}
    scheme = make_scheme(config.Config(assignment=assignment(scheme="hierarchical", **table)), 3)
    sites = ["a.de", "a.at", "a.ac.uk", "a.co.uk", "a.example"]
    assert [scheme.part(0, site) for site in sites[:4]] == [0, 0, 2, 1]
    assert scheme.part(0, sites[4]) == SiteHash(3).part(0, sites[4])


def test_make_scheme_gives_hash_schemes_as_many_parts_as_ranks() -> None:
    for name, kind in (
        ("url-hash", UrlHash),
        ("site-hash", SiteHash),
        ("hierarchical", Hierarchical),
    ):
        scheme = make_scheme(config.Config(assignment=assignment(scheme=name)), 5)
        assert isinstance(scheme, kind)
        assert scheme.parts == 5


def test_a_part_vector_knows_sites_and_pages(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "vector"
    key = url.key("http://a.example/moved")
    pages = (np.array([key], np.uint64), np.array([2]))
    partvector.write(path, parts=3, sites={"a.example": 1}, model="test", urls=pages)
    scheme = make_scheme(
        config.Config(assignment=assignment(scheme="part-vector", part_vector=str(path))), 3
    )
    assert scheme.parts == 3
    assert scheme.part(0, "a.example") == 1
    assert scheme.part(key, "a.example") == 2
    assert scheme.part(0, "b.example") is None


def test_a_users_mistakes_with_a_scheme_are_one_line_each(tmp_path: Path) -> None:
    def refused(ranks: int, **values: object) -> str:
        with pytest.raises(UserError) as error:
            make_scheme(config.Config(assignment=assignment(**values)), ranks)
        return one_line(error)

    def vector(name: str) -> dict[str, object]:
        return {"scheme": "part-vector", "part_vector": str(tmp_path / name)}

    text = refused(2, scheme="hierarchical", suffixes={"de": 0, "uk": 2})
    assert text == "assignment.suffixes.uk = 2: there are parts 0 to 1"

    suffixes = tmp_path / "suffixes"
    for content, mistake in (
        ("de 0\nuk", 'line 2: expected "SUFFIX PART", for example "uk 1"'),
        ("de -1", 'line 1: expected "SUFFIX PART", for example "uk 1"'),
        ("# none\n\nde 0\nde 1", "line 4: de has a part already; remove one of the two"),
        ("uk 0", "line 1: uk has a part already; remove one of the two"),
        ("fr 2", "assignment.suffixes.fr = 2: there are parts 0 to 1"),
    ):
        suffixes.write_text(content)
        table = {"suffixes": {"uk": 1}, "suffixes_file": str(suffixes)}
        assert refused(2, scheme="hierarchical", **table).endswith(mistake)
    text = refused(2, scheme="hierarchical", suffixes_file=str(tmp_path / "none"))
    assert "assignment.suffixes_file" in text
    assert "No such file" in text

    text = refused(2, **vector("none"))
    assert "part_vector" in text
    assert "No such file" in text

    text = refused(2, **vector("."))
    assert "part_vector" in text

    (tmp_path / "foreign").write_bytes(b"PAR1" * 100)
    text = refused(2, **vector("foreign"))
    assert "not a part vector" in text

    partvector.write(tmp_path / "small", parts=2, sites={"a.example": 1}, model="test")
    assert make_scheme(config.Config(assignment=assignment(**vector("small"))), 2).parts == 2
    text = refused(3, **vector("small"))
    assert "has 2 parts for 3 ranks" in text


# --- what a rank knows ------------------------------------------------------------------------


def ownership(rank: int, unlisted: str, parts: int = 5, ranks: int = 3) -> Ownership:
    """Site 0 is listed in part 4, no other; parts 0 and 3 are rank 0's, 1 and 4 rank 1's."""
    scheme = Listed(parts, {SITES[0]: 4})
    return Ownership(rank, scheme, [part % ranks for part in range(parts)], unlisted)


@pytest.mark.parametrize("unlisted", ["claim", "discoverer", "site-hash"])
def test_a_listed_site_belongs_to_the_rank_that_holds_its_part(unlisted: str) -> None:
    for rank in range(3):
        known = ownership(rank, unlisted)
        assert known.part(at(SITES[0], 0)) == 4
        assert known.owner(at(SITES[0], 0)) == 1
        assert known.starts(at(SITES[0], 0)) == (rank == 1)


@pytest.mark.parametrize("unlisted", ["claim", "discoverer", "site-hash"])
def test_one_rank_alone_begins_with_a_seed_and_all_agree_on_the_registrar(unlisted: str) -> None:
    ranks = [ownership(rank, unlisted) for rank in range(3)]
    for site in SITES[:200]:
        (registrar,) = {known.registrar(site) for known in ranks}
        starting = [known.rank for known in ranks if known.starts(at(site, 0))]
        assert len(starting) == 1
        assert site == SITES[0] or starting == [registrar]


def test_who_owns_an_unlisted_site() -> None:
    site = SITES[1]
    for rank in range(3):
        hashed = ownership(rank, "site-hash")
        assert hashed.part(at(site, 0)) == SiteHash(5).part(0, site)
        assert hashed.owner(at(site, 0)) == hashed.registrar(site)

        discoverer = ownership(rank, "discoverer")
        assert discoverer.owner(at(site, 0)) == rank
        assert discoverer.part(at(site, 0)) == discoverer.home == rank

        claimed = ownership(rank, "claim")
        assert claimed.part(at(site, 0)) is None
        assert claimed.owner(at(site, 0)) is None
        claimed.learn(site, 3)
        assert claimed.part(at(site, 0)) == 3
        assert claimed.owner(at(site, 0)) == 0


@pytest.mark.parametrize("unlisted", ["claim", "discoverer", "site-hash"])
@pytest.mark.parametrize("mode", [EXCHANGE, FIREWALL, CROSS_OVER, INDEPENDENT])
def test_all_ranks_agree_on_who_alone_may_fetch_a_url(unlisted: str, mode: Mode) -> None:
    scheme = Listed(5, {SITES[0]: 4})
    ranks = [Ownership(rank, scheme, [0, 1, 2, 0, 1], unlisted, mode) for rank in range(3)]
    for site in SITES[:50]:
        (only,) = {known.only_fetcher(at(site, 0)) for known in ranks}
        owning = [known.rank for known in ranks if known.owner(at(site, 0)) in {None, known.rank}]
        assert owning == [only] if only is not None else mode.overlaps or owning == [0, 1, 2]


def test_what_was_learned_never_changes() -> None:
    known = ownership(0, "claim")
    known.learn(SITES[1], 2)
    known.learn(SITES[1], 2)
    with pytest.raises(ValueError, match="is in part 2 and now in 3"):
        known.learn(SITES[1], 3)
    assert known.part(at(SITES[1], 0)) == 2


def test_each_part_needs_a_rank() -> None:
    with pytest.raises(ValueError, match="2 ranks given for 5 parts"):
        Ownership(0, Listed(5, {}), [0, 1])


@pytest.mark.parametrize("scheme", [UrlHash(7), SiteHash(7), Hierarchical({"example": 6}, 7)])
def test_more_parts_than_ranks_share_the_urls_out_once(scheme: Scheme) -> None:
    table = [0, 1, 2, 0, 1, 2, 0]
    ranks = [Ownership(rank, scheme, table) for rank in range(3)]
    for site in SITES[:50]:
        key = url.key(site + "/")
        part = scheme.part(key, site)
        assert part is not None
        assert [known.owner(at(site, key)) for known in ranks] == [table[part]] * 3
        assert [known.starts(at(site, key)) for known in ranks].count(True) == 1


# --- sites that move to another rank ----------------------------------------------------------

MOVES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 2), st.integers(0, 9)), max_size=40
)


@pytest.mark.parametrize("unlisted", ["claim", "discoverer", "site-hash"])
@pytest.mark.parametrize(
    "scheme",
    [
        Listed(5, {SITES[0]: 4, SITES[1]: 0}),
        UrlHash(5),
        SiteHash(5),
        Hierarchical({"1.example": 2}, 5),
    ],
)
@given(steps=MOVES)
def test_all_urls_of_a_site_belong_to_the_rank_that_it_moved_to_last(
    unlisted: str, scheme: Scheme, steps: list[tuple[bool, int, int, int]]
) -> None:
    """Moves and questions in any order: each answer is that of a rank which knows no cache."""
    table = [part % 3 for part in range(5)]
    known, never_moved = (Ownership(0, scheme, table, unlisted) for _ in range(2))
    homes = [never_moved.clock_home(site) for site in SITES[:5]]
    moved: dict[str, int] = {}
    for moves, number, rank, key in steps:
        site = SITES[number]
        if moves:
            known.move(site, rank)
            moved[site] = rank
        url_of_site = at(site, key)
        wanted = moved.get(site, never_moved.owner(url_of_site))
        assert known.owner(url_of_site) == wanted
        assert known.rank_of_site.get(site, wanted) == wanted
        part = known.part(url_of_site)
        assert (None if part is None else table[part]) == wanted
    assert [known.clock_home(site) for site in SITES[:5]] == homes


def test_a_site_moves_only_where_sites_have_owners() -> None:
    known = ownership(0, "claim")
    with pytest.raises(ValueError, match="rank 3: that rank holds no part"):
        known.move(SITES[0], 3)
    alone = Ownership(0, SiteHash(2), [0, 1], mode=INDEPENDENT)
    with pytest.raises(ValueError, match="no site has an owner"):
        alone.move(SITES[0], 1)
    assert alone.owner(at(SITES[0])) == 0


# --- the registrar ----------------------------------------------------------------------------


def test_the_first_to_claim_a_site_gets_it() -> None:
    registrar = Registrar(3)
    assert registrar.grant(SITES[0], 2) == 2
    assert registrar.grant(SITES[0], 1) == 2
    assert registrar.grant(SITES[1], 1) == 1


@pytest.mark.parametrize(
    ("loads", "owner"),
    [
        ([0, 0, 100], 2),  # every load is small at first
        ([1000, 1000, 1200], 2),  # mean 1066.7: up to 1,273 is its share and some
        ([1000, 1000, 1400], 0),  # mean 1133.3: over 1,346
        ([1000, 900, 3000], 1),  # the least loaded takes its place
    ],
)
def test_who_has_had_its_share_gets_no_more_sites(loads: list[int], owner: int) -> None:
    registrar = Registrar(3)
    registrar.loads[:] = loads
    assert registrar.grant(SITES[0], 2) == owner


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3), st.integers(0, 5000)),
        max_size=40,
    )
)
def test_a_registrar_never_gives_two_answers(claims: list[tuple[int, int, int, int]]) -> None:
    registrar = Registrar(4)
    answers: dict[str, int] = {}
    for number, claimant, busy, load in claims:
        registrar.loads[busy] = load
        site = SITES[number]
        assert answers.setdefault(site, registrar.grant(site, claimant)) == registrar.grant(site, 0)


def test_what_a_part_vector_says_beyond_sites(tmp_path: Path) -> None:
    """New pages of a split site go by directory; parts are packed by load; popular URLs known."""
    path = tmp_path / "vector"
    partvector.write(
        path,
        parts=4,
        sites={"a.example": 0, "b.example": 1},
        directories={"http://a.example/x/": 2, "http://a.example/x/y/": 3},
        loads=np.array([[9, 9], [1, 1], [2, 2], [8, 8]]),
        replicated=["http://b.example/"],
        model="hybrid",
    )
    assignment = config.Assignment(scheme="part-vector", part_vector=str(path))
    scheme = make_scheme(config.Config(assignment=assignment), 2)
    ranks = place_parts(scheme, 2)
    assert sorted(ranks) == [0, 0, 1, 1]
    assert ranks[0] != ranks[3]  # the two heavy ones
    assert place_parts(UrlHash(5), 2) == [0, 1, 0, 1, 0]
    known = Ownership(0, scheme, ranks, "claim")
    urls = [
        "http://a.example/",
        "http://a.example/x/1",
        "http://a.example/x/y/z?q",
        "http://c.example/",
    ]
    places = [CrawlUrl(url.key(one), one, url.site(one), 0) for one in urls]
    assert [known.part(place) for place in places] == [0, 2, 3, None]
    assert list(replicated_urls(scheme)) == ["http://b.example/"]
    assert replicated_urls(UrlHash(5)) == ()
