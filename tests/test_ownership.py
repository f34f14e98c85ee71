"""Ownership: all ranks agree on the owner of a URL, also when its site was claimed or has moved."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import config, url
from crawler.core.ownership import Ownership
from crawler.core.schemes import (
    Hierarchical,
    Scheme,
    SiteHash,
    UrlHash,
    make_scheme,
    place_parts,
    replicated_urls,
)
from crawler.modes import CROSS_OVER, EXCHANGE, FIREWALL, INDEPENDENT, Mode
from crawler.ports import CrawlUrl
from partition import partvector

SITES = [f"{number}.example" for number in range(200)]


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
