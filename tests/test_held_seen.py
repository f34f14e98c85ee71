"""The store of URL-seen of a client that may give sites away, against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from crawler.core.dynamic.held_seen import HeldSeen
from crawler.core.seen import MemorySeen

KEYS = st.sets(st.integers(0, 9), max_size=6)


@given(st.lists(st.tuples(st.sampled_from(["meet", "add", "update", "take", "give"]), KEYS)))
def test_it_knows_what_was_met_and_not_given_away(steps: list[tuple[str, set[int]]]) -> None:
    seen, known = HeldSeen(MemorySeen()), set[int]()
    for what, keys in steps:
        if what == "meet":
            unmet = seen.unmet(iter(keys))
            assert {key for key in range(10) if key in unmet} == keys - known
            for key in keys:
                unmet.discard(key)
                assert key not in unmet
            known |= keys
        elif what == "add":
            for key in keys:
                seen.add(key)
            known |= keys
        elif what == "give":
            seen.give(keys & known)
            known -= keys
        else:
            (seen.update if what == "update" else seen.take)(keys)
            known |= keys
        assert {key for key in range(10) if key in seen} == set(seen) == known
    assert seen.earlier.tolist() == [
        key for what, keys in steps if what == "update" for key in keys
    ]
