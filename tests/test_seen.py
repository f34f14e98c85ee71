"""URL-seen tests against the plainest models."""

from hypothesis import given
from hypothesis import strategies as st

from crawler import config
from crawler.seen import CacheSeen, MemorySeen, NothingSeen, sent_memory

KEYS = st.lists(st.integers(0, 12) | st.integers(2**64 - 2, 2**64 - 1))


@given(KEYS)
def test_memory_knows_every_key_ever_met(keys: list[int]) -> None:
    seen = MemorySeen()
    assert [seen.add(key) for key in keys] == [
        key not in keys[:index] for index, key in enumerate(keys)
    ]


@given(KEYS, st.integers(1, 8))
def test_a_cache_knows_the_latest_different_keys(keys: list[int], capacity: int) -> None:
    seen = CacheSeen(capacity)
    latest: list[int] = []  # newest last
    for key in keys:
        assert seen.add(key) == (key not in latest)
        latest = [other for other in latest if other != key][1 - capacity :] if capacity > 1 else []
        latest.append(key)


def test_a_key_met_again_stays_longer_in_the_cache() -> None:
    seen = CacheSeen(2)
    assert [seen.add(key) for key in (1, 2, 1, 3, 1, 2)] == [True, True, False, True, False, True]


def test_without_memory_every_key_is_new() -> None:
    assert NothingSeen().add(1)
    assert NothingSeen().add(1)


def test_what_remember_means() -> None:
    own = MemorySeen()

    def memory(**exchange: object) -> object:
        return sent_memory(config.Exchange.model_validate(exchange), own)

    assert memory(remember="all") is own
    assert isinstance(memory(remember="batch"), NothingSeen)
    cache = memory(remember="cache", cache_urls=1)
    assert isinstance(cache, CacheSeen)
    assert [cache.add(key) for key in (1, 2, 1)] == [True, True, True]
