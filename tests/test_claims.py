"""Claims: a registrar decides once who owns a site, and gives each rank its share."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.claims import Registrar

SITES = [f"{number}.example" for number in range(6)]


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


def test_sites_given_away_count_as_load_until_the_rank_tells_its_load() -> None:
    """The other registrar gives sites away as well, so each site counts as two URLs here."""
    registrar = Registrar(2)
    owners = Counter(registrar.grant(f"{number}.example", 1) for number in range(400))
    # Rank 1 gets sites up to 1.1 times the mean of 400 and 100 more, which is 540 URLs.
    assert owners == {1: 270, 0: 130}
    registrar.hear(1, 50)
    registrar.hear(0, 2000)
    assert registrar.grant("new.example", 1) == 1


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
