"""The part vector: what is written is read, and nothing else is."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import url
from partition import partvector
from partition.partvector import PartVector, PartVectorError, jump_hash, jump_hashes, pack

KEYS = st.integers(0, 2**64 - 1)
SITES = {"a.example": 0, "b.example:8080": 2, "ümlaut.example": 1}


def write(path: Path, **changes: object) -> Path:
    values = {"parts": 3, "sites": SITES, "model": "site-graph", "sessions": ["first"]} | changes
    partvector.write(path, **values)
    return path


def arrays(urls: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(list(urls), np.uint64), np.array(list(urls.values()), np.int64)


def test_reads_what_was_written(tmp_path: Path) -> None:
    vector = PartVector.open(write(tmp_path / "pv", metadata={"seed": 7}))
    assert (vector.parts, vector.model, vector.sites) == (3, "site-graph", 3)
    assert (vector.sessions, vector.metadata) == (("first",), {"seed": 7})
    assert {site: vector.site_part(site) for site in SITES} == SITES
    assert vector.site_part("a.example:81") is None
    assert vector.site_part("a") is None
    assert vector.url_part(0) is None


def test_page_goes_before_its_site(tmp_path: Path) -> None:
    urls = np.array([2**64 - 1, 5], np.uint64), np.array([1, 2])
    vector = PartVector.open(write(tmp_path / "pv", urls=urls))
    assert vector.part(5, "a.example") == 2
    assert vector.part(2**64 - 1, "nowhere.example") == 1
    assert vector.part(6, "a.example") == 0
    assert vector.part(6, "nowhere.example") is None


@given(
    sites=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        st.integers(0, 99_999),
    ),
    urls=st.dictionaries(KEYS, st.integers(0, 99_999)),
    strangers=st.lists(KEYS),
    parts=st.sampled_from([100_000, 2**32]),
)
def test_looks_up_like_dicts(
    tmp_path_factory: pytest.TempPathFactory,
    sites: dict[str, int],
    urls: dict[int, int],
    strangers: list[int],
    parts: int,
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "pv", parts=parts, sites=sites, urls=arrays(urls))
    vector = PartVector.open(path)
    assert vector.sites == len(sites)
    assert {site: vector.site_part(site) for site in sites} == sites
    for key in [*urls, *strangers]:
        assert vector.url_part(key) == urls.get(key)


def test_the_nearest_directory_goes_before_the_site(tmp_path: Path) -> None:
    directories = {"https://a.example/x/": 1, "https://a.example/x/y/": 2}
    path = write(tmp_path / "pv", urls=arrays({5: 0}), directories=directories)
    vector = PartVector.open(path)
    assert vector.has_directories
    for text, part in {
        "https://a.example/x/y/z/1": 2,
        "https://a.example/x/y?to=/x/y/": 1,
        "https://a.example/x": 0,
        "https://nowhere.example/x/": None,
    }.items():
        assert vector.part_of_url(text, 6, url.site(text)) == part
    assert vector.part_of_url("https://a.example/x/y/z", 5, "a.example") == 0
    plain = PartVector.open(write(tmp_path / "plain"))
    assert not plain.has_directories
    assert plain.part_of_url("https://a.example/x/", 6, "a.example") == 0


def test_knows_which_sites_may_have_directories(tmp_path: Path) -> None:
    of_site = {("a.example", "https://a.example/x/"): 1}
    vector = PartVector.open(write(tmp_path / "one", directories=of_site))
    assert vector.divides("a.example")
    assert not vector.divides("b.example:8080")
    assert not vector.divides("nowhere.example")
    for_all = PartVector.open(write(tmp_path / "all", directories={"https://a.example/x/": 1}))
    assert for_all.divides("nowhere.example")
    assert not PartVector.open(write(tmp_path / "none")).divides("a.example")


def test_loads_and_replicated_urls(tmp_path: Path) -> None:
    loads = np.array([[1, 2], [3, 4], [1 << 40, 6]])
    urls = ["https://a.example/", "https://b.example/"]
    vector = PartVector.open(write(tmp_path / "pv", loads=loads, replicated=urls))
    assert vector.loads.tolist() == loads.tolist()
    assert vector.replicated == tuple(urls)
    plain = PartVector.open(write(tmp_path / "plain"))
    assert (plain.loads.shape, plain.replicated) == ((0, 2), ())


def test_parts_are_packed_by_both_loads() -> None:
    """Two parts heavy in bytes, two in requests: a rank gets one of each."""
    loads = np.array([[90, 10], [90, 10], [10, 90], [10, 90]])
    assert pack(loads, 2) == [0, 1, 0, 1]
    assert pack(loads, 4) == [0, 1, 2, 3]
    assert pack(loads, 1) == [0] * 4
    for ranks in (0, 5):
        with pytest.raises(ValueError, match=f"{ranks} ranks for 4 parts: must be from 1 to 4"):
            pack(loads, ranks)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=20),
    st.integers(1, 20),
)
def test_every_rank_gets_a_part_and_none_too_much(loads: list[tuple[int, int]], ranks: int) -> None:
    """No rank has more than its share and the heaviest part, for each of the weights."""
    ranks = min(ranks, len(loads))
    rank_of = pack(np.array(loads), ranks)
    assert set(rank_of) == set(range(ranks))
    assert rank_of == pack(np.array(loads), ranks)
    if ranks == len(loads):
        return
    share = np.array(loads) / np.maximum(np.sum(loads, axis=0), 1)
    carried = np.zeros((ranks, 2))
    np.add.at(carried, rank_of, share)
    assert carried.max() <= 2 / ranks + share.max() + 1e-9


@pytest.mark.parametrize(("parts", "width"), [(1 << 16, 2), ((1 << 16) + 1, 4)])
def test_parts_are_as_wide_as_needed(tmp_path: Path, parts: int, width: int) -> None:
    urls = np.array([1], np.uint64), np.array([parts - 1])
    path = write(tmp_path / "pv", parts=parts, sites={"x": parts - 1}, urls=urls)
    vector = PartVector.open(path)
    assert vector.url_parts.itemsize == width
    assert vector.site_part("x") == vector.url_part(1) == parts - 1


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    urls = {9: 1, 3: 2, 5: 0}
    one = write(tmp_path / "1", urls=arrays(urls))
    other = write(
        tmp_path / "2",
        sites=dict(reversed(SITES.items())),
        urls=arrays(dict(reversed(urls.items()))),
    )
    assert one.read_bytes() == other.read_bytes()


@given(st.data())
def test_any_damage_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "pv"
    content = bytearray(write(path, urls=arrays({5: 1})).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(PartVectorError, match="format"):
        PartVector.open(path)


def test_any_other_length_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "pv")
    content = path.read_bytes()
    for length in (*range(40), *range(40, len(content), 50), len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(PartVectorError):
            PartVector.open(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(PartVectorError, match=f"{len(content) + 1} of {len(content)} bytes"):
        PartVector.open(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "0 bytes, shorter than any"),
        (b"PAR1" * 100, "not a part vector"),
        (b"ABCPV\r\n\x1a\x03" + bytes(100), "format 3"),
    ],
)
def test_refusal_says_path_what_and_what_is_allowed(
    tmp_path: Path, content: bytes, what: str
) -> None:
    path = tmp_path / "pv"
    path.write_bytes(content)
    with pytest.raises(PartVectorError) as refusal:
        PartVector.open(path)
    assert str(refusal.value).startswith(f"{path}: {what}")
    assert str(refusal.value).endswith("give a part vector of format 2; partition build writes one")


@pytest.mark.parametrize(
    "changes",
    [
        {"sites": {"x": 3}},
        {"sites": {"x": -1}},
        {"sites": {"x\0": 1}},
        {"urls": (np.array([1], np.uint64), np.array([3]))},
        {"urls": (np.array([1, 1], np.uint64), np.array([0, 1]))},
        {"urls": (np.array([1, 2], np.uint64), np.array([0]))},
        {"directories": {"https://a.example/": 3}},
        {"loads": np.zeros((2, 2), np.int64)},
        {"replicated": ["https://a.example/\nhttps://b.example/"]},
    ],
)
def test_impossible_content_isnt_written(tmp_path: Path, changes: dict[str, object]) -> None:
    path = write(tmp_path / "pv")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="part"):
        write(path, **changes)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_open_vector_outlives_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "pv")
    vector = PartVector.open(path)
    write(path, sites={"a.example": 1})
    assert vector.site_part("a.example") == 0
    path.unlink()
    assert vector.site_part("b.example:8080") == 2


@pytest.mark.parametrize(
    ("key", "buckets", "bucket"),
    [(1, 1, 0), (42, 57, 43), (0xDEAD10CC, 1, 0), (0xDEAD10CC, 666, 361), (256, 1024, 520)],
)
def test_jump_hash_as_elsewhere(key: int, buckets: int, bucket: int) -> None:
    """Values that other implementations of the paper test against."""
    assert jump_hash(key, buckets) == bucket


@given(st.lists(KEYS), st.integers(1, 100_000))
def test_jump_hashes_are_jump_hash(keys: list[int], buckets: int) -> None:
    expected = [jump_hash(key, buckets) for key in keys]
    assert jump_hashes(np.array(keys, np.uint64), buckets).tolist() == expected


@given(KEYS, st.integers(1, 1000))
def test_one_more_bucket_moves_keys_only_there(key: int, buckets: int) -> None:
    before, after = jump_hash(key, buckets), jump_hash(key, buckets + 1)
    assert after in (before, buckets)
