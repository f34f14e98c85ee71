"""URL-seen, and the memory of what was sent, against the plainest models."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import config
from crawler.core.seen import MemorySeen, UrlSeen
from crawler.core.sent import LatestSent, NothingSent, SentMemory, keys_to_keep, make_memory

KEYS = st.lists(st.integers(0, 12) | st.integers(2**64 - 2, 2**64 - 1))


def meet(seen: UrlSeen | SentMemory, keys: Iterable[int]) -> list[bool]:
    """Whether each of the keys is known when it comes."""
    known = []
    for key in keys:
        known.append(key in seen)
        seen.add(key)
    return known


@given(KEYS)
def test_memory_knows_every_key_ever_met(keys: list[int]) -> None:
    known = [key in keys[:index] for index, key in enumerate(keys)]
    assert meet(MemorySeen(), keys) == known


@given(KEYS, st.integers(1, 8))
def test_a_cache_knows_the_latest_different_keys(keys: list[int], capacity: int) -> None:
    seen = LatestSent(capacity)
    latest: list[int] = []  # newest last
    for key in keys:
        assert (key in seen) == (key in latest)
        seen.add(key)
        latest = [*(other for other in latest if other != key), key][-capacity:]


def test_a_key_met_again_stays_longer_in_the_cache() -> None:
    assert meet(LatestSent(2), (1, 2, 1, 3, 1, 2)) == [False, False, True, False, True, False]


def test_without_memory_every_key_is_new() -> None:
    assert meet(NothingSent(), (1, 1)) == [False, False]


@pytest.mark.parametrize("seen", [MemorySeen(), LatestSent(5), NothingSent()])
def test_many_keys_at_once_are_as_one_after_another(seen: UrlSeen | SentMemory) -> None:
    one_by_one = type(seen)(5) if isinstance(seen, LatestSent) else type(seen)()
    meet(one_by_one, range(8))
    seen.update(range(8))
    assert [key in seen for key in range(9)] == [key in one_by_one for key in range(9)]


def test_what_remember_means() -> None:
    def memory(**exchange: object) -> SentMemory:
        return make_memory(config.Exchange(**exchange), MemorySeen())

    assert meet(memory(remember="all"), (1, 2, 1)) == [False, False, True]
    assert meet(memory(remember="batch"), (1, 2, 1)) == [False] * 3
    assert meet(memory(remember="cache", cache_urls=1), (1, 2, 1)) == [False] * 3
    assert meet(memory(remember="cache", cache_urls=2), (1, 2, 1)) == [False, False, True]


def test_what_a_snapshot_keeps_of_each_memory() -> None:
    kept = []
    for memory in (MemorySeen(), LatestSent(5), NothingSent()):
        memory.update((1, 2, 1))
        keys = keys_to_keep(memory)
        kept.append(None if keys is None else sorted(keys))
    assert kept == [[1, 2], None, []]


@given(KEYS, KEYS)
def test_what_is_unmet_becomes_known_by_discarding(before: list[int], page: list[int]) -> None:
    for memory in (MemorySeen(), LatestSent(5)):
        memory.update(before)
        unmet, known = memory.unmet(page), {key for key in page if key in memory}
        assert [key in unmet for key in page] == [key not in known for key in page]
        for key in page[-3:]:
            unmet.discard(key)
            assert key not in unmet
            assert key in memory
    assert 1 in NothingSent().unmet([1])
