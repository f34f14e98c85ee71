"""Schemes: each by hand-checkable cases, and what consistent hashing promises."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import config, url
from crawler.core.schemes import Hierarchical, SiteHash, UrlHash, make_scheme
from crawler.ports import UserError
from partition import partvector

SITES = [f"{number}.example" for number in range(2000)]


def assignment(**values: object) -> config.Assignment:
    return config.Assignment(**values)


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


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
