"""The workbench against a model: for each site a list of URLs and the time of the next request."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from crawler import config
from crawler.ports import Found
from crawler.workbench import Visit, Workbench

SITES = [f"http://{letter}.example" for letter in "abcd"]


def bench(delay_s: float = 1, connections: int = 1, longest: float = 60) -> Workbench:
    return Workbench(
        config.Politeness(
            delay_s=delay_s, connections_per_site=connections, max_crawl_delay_s=longest
        )
    )


def found(number: int, site: str = SITES[0]) -> Found:
    return Found(number, f"{site}/{number}", site, 0)


class Model(RuleBasedStateMachine):
    """Times are quarters of a second, so that sums are exact."""

    visits = Bundle("visits")
    ended = Bundle("ended")

    @initialize(
        delay_s=st.sampled_from([0, 1, 2.5]),
        connections=st.integers(1, 3),
        longest=st.sampled_from([0, 5]),
    )
    def begin(self, delay_s: float, connections: int, longest: float) -> None:
        self.bench = bench(delay_s, connections, longest)
        self.delay_s, self.connections, self.longest = delay_s, connections, longest
        self.now = 0.0
        self.urls = 0
        self.queue: dict[str, deque[Found]] = {site: deque() for site in SITES}
        self.active = dict.fromkeys(SITES, 0)
        self.delay: dict[str, float] = dict.fromkeys(SITES, delay_s)
        self.allowed = dict.fromkeys(SITES, 0.0)  # the earliest next request
        self.handed: list[int] = []  # URLs dealt with or under way

    def candidates(self) -> list[str]:
        """Sites that may be asked as soon as their time comes."""
        return [s for s in SITES if self.queue[s] and self.active[s] < self.connections]

    @rule(site=st.sampled_from(SITES), count=st.integers(1, 3))
    def enqueue(self, site: str, count: int) -> None:
        for _ in range(count):
            self.queue[site].append(found(self.urls, site))
            self.bench.enqueue(self.queue[site][-1])
            self.urls += 1

    @rule(quarters=st.integers(1, 24))
    def time_passes(self, quarters: int) -> None:
        self.now += quarters / 4

    @rule(target=visits)
    def acquire(self) -> object:
        due = [site for site in self.candidates() if self.allowed[site] <= self.now]
        visit = self.bench.acquire(self.now)
        if visit is None:
            assert due == []
            return multiple()
        site = visit.found.site
        assert site in due
        assert visit.found == self.queue[site].popleft()  # in order, those put back first
        self.active[site] += 1
        assert self.active[site] <= self.connections
        if self.connections > 1:
            self.allowed[site] = self.now + self.delay[site]
        self.handed.append(visit.found.key)
        self.forget()
        return visit

    def forget(self) -> None:
        """What the bench has dropped begins anew: with our own delay."""
        for site in SITES:
            if site not in self.bench._states:
                self.delay[site] = self.delay_s

    @rule(
        target=ended,
        visit=consumes(visits),
        requested=st.booleans(),
        crawl_delay_s=st.none() | st.sampled_from([0.0, 1.5, 4.0, 9.0]),
    )
    def release(self, visit: Visit, requested: bool, crawl_delay_s: float | None) -> Visit:
        self.bench.release(visit, self.now, requested=requested, crawl_delay_s=crawl_delay_s)
        self.gave_back(visit, requested, crawl_delay_s)
        return visit

    @rule(
        target=ended,
        visit=consumes(visits),
        crawl_delay_s=st.none() | st.sampled_from([0.0, 1.5, 4.0, 9.0]),
    )
    def put_back(self, visit: Visit, crawl_delay_s: float | None) -> Visit:
        self.bench.put_back(visit, self.now, crawl_delay_s=crawl_delay_s)
        self.queue[visit.found.site].appendleft(visit.found)
        self.handed.remove(visit.found.key)
        self.gave_back(visit, True, crawl_delay_s)
        return visit

    def gave_back(self, visit: Visit, requested: bool, crawl_delay_s: float | None) -> None:
        site = visit.found.site
        self.active[site] -= 1
        if crawl_delay_s is not None:
            self.delay[site] = max(self.delay[site], min(crawl_delay_s, self.longest))
        if requested and self.connections == 1:
            self.allowed[site] = self.now + self.delay[site]

    @precondition(lambda self: self.urls)
    @rule(visit=ended)
    def give_back_twice(self, visit: Visit) -> None:
        with pytest.raises(RuntimeError, match="twice"):
            self.bench.release(visit, self.now, requested=True)
        with pytest.raises(RuntimeError, match="twice"):
            self.bench.put_back(visit, self.now)

    @invariant()
    def counts_are_true(self) -> None:
        assert self.bench.waiting == sum(map(len, self.queue.values()))
        assert self.bench.active == sum(self.active.values())
        assert self.bench.enqueued == self.urls

    @invariant()
    def next_time_is_that_of_the_earliest_site(self) -> None:
        times = [self.allowed[site] for site in self.candidates()]
        time = self.bench.next_time()
        if time is None:
            assert times == []
        else:  # of times that have passed nothing has to be known
            assert max(time, self.now) == max(min(times), self.now)

    @invariant()
    def only_what_stands_for_nothing_is_forgotten(self) -> None:
        for site in SITES:
            if self.queue[site] or self.active[site] or self.allowed[site] > self.now:
                assert site in self.bench._states

    def teardown(self) -> None:
        """All that can be acquired comes out, and each URL has come out once."""
        if not hasattr(self, "bench"):
            return
        while (time := self.bench.next_time()) is not None:
            self.now = max(self.now, time)
            visit = self.bench.acquire(self.now)
            assert visit is not None
            self.handed.append(visit.found.key)
            self.queue[visit.found.site].popleft()
            self.bench.release(visit, self.now, requested=False)
        assert self.candidates() == []
        left = [url.key for queue in self.queue.values() for url in queue]
        assert sorted(self.handed + left) == list(range(self.urls))


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_a_delay_runs_from_the_end_of_a_request() -> None:
    one = bench(delay_s=2)
    one.enqueue(found(0))
    one.enqueue(found(1))
    first = one.acquire(0)
    assert first is not None
    assert one.next_time() is None  # nobody can know when the fetch ends
    assert one.acquire(100) is None
    one.release(first, 5, requested=True)
    assert one.next_time() == 7
    assert one.acquire(6.99) is None
    assert one.acquire(7) is not None


def test_a_site_that_was_not_bothered_needs_no_rest() -> None:
    one = bench(delay_s=2)
    one.enqueue(found(0))
    one.enqueue(found(1))
    first = one.acquire(0)
    assert first is not None
    one.release(first, 0, requested=False)
    assert one.acquire(0) is not None


def test_several_connections_start_a_delay_apart() -> None:
    one = bench(delay_s=2, connections=2)
    for number in range(3):
        one.enqueue(found(number))
    first = one.acquire(0)
    assert first is not None
    assert one.acquire(1) is None
    assert one.acquire(2) is not None
    assert one.acquire(10) is None  # both connections are in use
    one.release(first, 10, requested=True)
    assert one.acquire(10) is not None


@pytest.mark.parametrize(("asked", "delay"), [(None, 2), (0, 2), (1, 2), (3, 3), (5, 5), (3600, 5)])
def test_a_crawl_delay_counts_between_our_own_and_the_longest(
    asked: float | None, delay: float
) -> None:
    one = bench(delay_s=2, longest=5)
    one.enqueue(found(0))
    one.enqueue(found(1))
    visit = one.acquire(0)
    assert visit is not None
    one.release(visit, 0, requested=True, crawl_delay_s=asked)
    assert one.next_time() == delay


def test_due_sites_take_turns() -> None:
    one = bench(delay_s=0)
    for number in range(6):
        one.enqueue(found(number, SITES[number // 3]))
    order = []
    while visit := one.acquire(0):
        order.append(visit.found.key)
        one.release(visit, 0, requested=True)
    assert order == [0, 3, 1, 4, 2, 5]


def test_the_site_that_has_been_due_for_longest_is_first() -> None:
    one = bench(delay_s=10)
    for site in SITES[:3]:
        for number in range(2):
            one.enqueue(found(number, site))
    visits = [one.acquire(0) for _ in range(3)]
    for visit, end in zip(visits, (3, 1, 2), strict=True):
        assert visit is not None
        one.release(visit, end, requested=True)
    again = [one.acquire(20) for _ in range(3)]
    assert [visit and visit.found.site for visit in again] == [SITES[1], SITES[2], SITES[0]]


def test_sites_that_are_done_are_forgotten() -> None:
    one = bench(delay_s=1)
    for number in range(1000):
        one.enqueue(found(number, f"http://{number}.example"))
        visit = one.acquire(number)
        assert visit is not None
        one.release(visit, number, requested=True)
    assert len(one._states) < 10


def test_what_is_kept_to_be_forgotten_does_not_grow_with_the_fetches() -> None:
    one = bench(delay_s=60)
    for round_ in range(50):
        for number in range(20):  # each site's next URL is found just when its delay has passed
            now = round_ * 60.5 + number * 3
            one.enqueue(found(round_, SITES[0] + str(number)))
            visit = one.acquire(now)
            assert visit is not None
            one.release(visit, now, requested=True)
    assert len(one._resting) <= 20


def test_a_new_site_queues_behind_those_that_are_due() -> None:
    one = bench(delay_s=1)
    for number in range(4):
        one.enqueue(found(number, SITES[number % 2]))
    for visit in (one.acquire(5), one.acquire(5)):
        assert visit is not None
        one.release(visit, 5, requested=True)
    one.acquire(7)  # one of the two sites that are due at 6
    one.enqueue(found(4, SITES[2]))
    order = [one.acquire(7), one.acquire(7)]
    assert [visit and visit.found.key for visit in order] == [3, 4]
