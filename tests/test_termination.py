"""The detection of the end, against schedules meant to fool it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.core.termination import Termination
from crawler.messages import Report, Sums


class EarlyEndError(AssertionError):
    """An end was declared with work left."""


def detect(make: type[Termination], seed: int) -> None:
    """Ranks that do nothing but send each other work; `make` has to notice when it is over.

    Whatever can happen next is drawn at random: any message in flight arrives, any busy rank
    sends work or becomes passive. A message may so be overtaken by any number of others.
    """
    chance = random.Random(seed)
    ranks = chance.randint(1, 5)
    ends = [make(rank, ranks) for rank in range(ranks)]
    budget = chance.randint(0, 30)  # work that may still be sent: the computation is finite
    busy = [chance.random() < 0.5 for _ in range(ranks)]
    sent, received = [0] * ranks, [0] * ranks
    work: list[int] = []  # receivers of what is in flight
    control: list[tuple[int, int, Report | Sums]] = []  # sender, receiver, message
    slow = chance.choice([0.1, 0.5, 0.9])  # how likely work is overtaken by control messages
    for _ in range(20_000):
        for rank in range(ranks):
            if not busy[rank]:
                ends[rank].passive(sent[rank], received[rank])
            control += ((rank, to, message) for to, message in ends[rank].messages)
            ends[rank].messages.clear()
        if any(end.ended for end in ends) and (work or any(busy)):
            raise EarlyEndError(f"seed {seed}: {len(work)} in flight, busy {busy}")
        if all(end.ended for end in ends):
            assert not control
            return
        kinds = ["work"] * bool(work) + ["control"] * bool(control) + ["rank"] * any(busy)
        kind = chance.choice(kinds)  # IndexError: nothing can happen, and no end was noticed
        if kind == "work" and len(kinds) > 1 and chance.random() < slow:
            continue
        if kind == "work":
            rank = work.pop(chance.randrange(len(work)))
            received[rank] += 1
            busy[rank] = True
        elif kind == "control":
            sender, rank, message = control.pop(chance.randrange(len(control)))
            ends[rank].received(sender, message)
        else:
            rank = chance.choice([rank for rank in range(ranks) if busy[rank]])
            if budget and ranks > 1 and chance.random() < 0.6:
                budget -= 1
                sent[rank] += 1
                work.append(chance.choice([other for other in range(ranks) if other != rank]))
            else:
                busy[rank] = False
    raise AssertionError(f"seed {seed}: no end after 20,000 events")


class OneWave(Termination):
    """The classic mistake: equal counts in one wave, taken at different moments."""

    def _conclude(self, sums: Sums) -> None:
        super()._conclude(sums)
        self.ended = sums.sent == sums.received


class Backwards(Termination):
    """Another: this wave's received against the last one's sent."""

    _sent_before: int | None = None

    def _conclude(self, sums: Sums) -> None:
        super()._conclude(sums)
        self.ended = self._sent_before == sums.received
        self._sent_before = sums.sent


@settings(max_examples=400)
@given(st.integers(0, 2**32))
def test_the_end_is_never_early_and_always_comes(seed: int) -> None:
    detect(Termination, seed)


@pytest.mark.parametrize("wrong", [OneWave, Backwards])
def test_the_same_schedules_catch_a_wrong_detection(wrong: type[Termination]) -> None:
    def try_many() -> None:
        for seed in range(2000):
            detect(wrong, seed)

    with pytest.raises(EarlyEndError):
        try_many()


def test_a_rank_joins_a_wave_once() -> None:
    end = Termination(1, 2)
    end.passive(3, 4)
    end.passive(3, 4)
    assert end.messages == [(0, Report(0, 3, 4))]
    for _ in range(2):  # the second time, it is late
        end.received(0, Sums(0, 3, 4))
        end.passive(3, 4)
    assert end.messages == [(0, Report(0, 3, 4)), (0, Report(1, 3, 4))]


def test_rank_0_sums_up_when_all_have_reported_and_a_report_counts_once() -> None:
    end = Termination(0, 3)
    end.received(2, Report(0, 1, 0))
    end.received(2, Report(0, 1, 0))
    end.passive(0, 2)
    assert end.messages == []
    end.received(1, Report(0, 5, 3))
    assert end.messages == [(1, Sums(0, 6, 5)), (2, Sums(0, 6, 5))]
    assert not end.ended


def test_two_quiet_waves_end_a_crawl_and_nothing_is_reported_after() -> None:
    end = Termination(1, 2)
    for wave in range(2):
        end.passive(5, 5)
        assert not end.ended
        end.received(0, Sums(wave, 9, 9))
    assert end.ended
    end.messages.clear()
    end.passive(5, 5)
    assert end.messages == []


def test_a_rank_alone_ends_at_once() -> None:
    end = Termination(0, 1)
    end.passive(5, 5)
    assert end.ended
    assert end.messages == []
