"""The page quota, between ranks whose batches arrive in any order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import config
from crawler.core.outboxes import Outboxes
from crawler.core.quota import Quota
from crawler.messages import Batch


class Table:
    """The quotas of several ranks, and the batches in flight: sender, receiver, batch."""

    def __init__(self, limit: int, ranks: int) -> None:
        self.outboxes = [Outboxes(ranks, config.Exchange()) for _ in range(ranks)]
        self.quotas = [Quota(limit, rank, ranks, self.outboxes[rank]) for rank in range(ranks)]
        self.flights: list[tuple[int, int, Batch]] = []

    def send(self) -> None:
        for sender, outboxes in enumerate(self.outboxes):
            due = outboxes.due(0, everything=False)
            self.flights += ((sender, receiver, box.batch(0)) for receiver, box in due)

    def deliver(self, number: int) -> None:
        sender, receiver, batch = self.flights.pop(number)
        self.quotas[receiver].received(sender, batch, 0)
        self.send()

    def settle(self) -> list[int]:
        """What each rank has left once all has arrived, oldest first."""
        self.send()
        while self.flights:
            self.deliver(0)
        return [int(quota.left) for quota in self.quotas]


@settings(max_examples=300)
@given(
    st.integers(1, 40),
    st.integers(1, 5),
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "end", "fail", "give back", "deliver"]), st.integers(0, 99)
        ),
        max_size=120,
    ),
)
def test_quota_never_exceeds_the_limit_and_none_lies_while_a_rank_waits(
    limit: int, ranks: int, steps: list[tuple[str, int]]
) -> None:
    """Ranks begin visits, asking if they may not; end them, with and without a page; give back."""
    table = Table(limit, ranks)
    open_, fetched = [0] * ranks, 0
    for step, number in steps:
        rank = number % ranks
        quota = table.quotas[rank]
        if step == "begin" and quota.left < 1:
            quota.ask(0)
        elif step == "begin":
            quota.left -= 1
            open_[rank] += 1
        elif step == "end" and open_[rank]:
            open_[rank] -= 1
            fetched += 1
        elif step == "fail" and open_[rank]:
            open_[rank] -= 1
            quota.left += 1
        elif step == "give back" and quota.left >= 1:
            quota.give_back(0)
        elif step == "deliver" and table.flights:
            table.deliver(number % len(table.flights))
        table.send()
        under_way = sum(batch.allow + batch.returned for _, _, batch in table.flights)
        left = sum(int(quota.left) for quota in table.quotas)
        assert fetched + sum(open_) + left + under_way <= limit
    left = sum(table.settle())
    assert fetched + sum(open_) + left <= limit
    if any(quota.starved for quota in table.quotas):
        assert fetched + sum(open_) + left == limit


def test_shares_are_a_part_of_what_is_left_and_small() -> None:
    for limit, shares in ((1, [0, 1, 0, 0]), (1000, [0, 62, 58, 0]), (10**6, [0, 64, 64, 0])):
        table = Table(limit, 4)  # 1000 / 16 = 62.5; 938 / 16 = 58.6
        for rank in (1, 2):
            table.quotas[rank].ask(0)
        assert table.settle() == shares


def test_earlier_runs_have_used_the_limit_up() -> None:
    table = Table(10, 2)
    for quota in table.quotas:
        quota.spend(12)
    table.quotas[1].ask(0)
    assert table.settle() == [0, 0]
    assert table.quotas[1].starved


def test_a_limit_of_one_page_goes_to_the_first_who_asks_and_then_to_the_next() -> None:
    table = Table(1, 7)
    for rank in (3, 0, 5):
        table.quotas[rank].ask(0)
        table.settle()
    for rank, after in ((3, 0), (0, 5)):
        assert table.settle() == [int(other == rank) for other in range(7)]
        table.quotas[rank].give_back(0)
        assert table.settle()[after] == 1
