"""Independent searches on several cores."""

import threading

import pytest

from partition.threads import at_once


@pytest.mark.parametrize("threads", [1, 2, 3, 0])
def test_results_come_in_order_whatever_ends_first(threads: int) -> None:
    assert at_once(lambda number: number * number, range(20), threads) == [n * n for n in range(20)]


def test_they_run_at_the_same_time() -> None:
    met = threading.Barrier(3, timeout=60)
    assert sorted(at_once(lambda _: met.wait(), range(3), 3)) == [0, 1, 2]


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_error_in_order_is_raised(threads: int) -> None:
    with pytest.raises(ValueError, match=r"^3$"):
        at_once(lambda number: fail(number) if number in (3, 5) else number, range(9), threads)


def fail(number: int) -> int:
    raise ValueError(number)
