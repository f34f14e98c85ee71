"""A cache in two generations: what it finds, and how much memory it takes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from crawler.recent import Recent

MOST = 60  # bytes
texts = st.text("ab", max_size=8)


def size_of(text: str) -> int:
    return 4 + len(text)


@given(st.lists(texts | st.just("c" * MOST), max_size=200))
def test_what_was_used_last_is_found_in_so_many_bytes(used: Sequence[str]) -> None:
    cache = Recent[str](MOST, size_of)
    latest: list[str] = []  # different texts, the last one used first
    for text in used:
        found = cache.find(text)
        assert found in {text.upper(), None}
        if found is None:
            cache.keep(text, text.upper())
        elif text in latest:
            latest.remove(text)
        latest = [text, *(other for other in latest if other != text)]
        kept = [*cache.young, *cache._old]
        assert len(set(kept)) == len(kept) == len(cache)
        assert cache.nbytes() == sum(map(size_of, kept)) <= MOST
        room = MOST // 2
        for other in latest:
            room -= size_of(other)
            if room < 0:
                break
            assert other in kept


def test_a_text_that_takes_too_much_is_not_kept() -> None:
    cache = Recent[int](MOST, size_of)
    cache.keep("x", 1)
    cache.keep("y" * MOST, 2)
    assert cache.find("y" * MOST) is None
    assert cache.find("x") == 1


def test_everything_can_be_forgotten() -> None:
    cache = Recent[int](MOST, size_of)
    for number in range(10):
        cache.keep(str(number), number)
    assert len(cache) > len(cache.young)  # the old generation has some
    cache.clear()
    assert not any(cache.find(str(number)) for number in range(10))
    assert cache.nbytes() == len(cache) == 0
