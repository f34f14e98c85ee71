"""The workbench against a model: for each site a list of URLs and the time of the next request."""

from collections import deque
from math import inf

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
from crawler.core.leases import Leases
from crawler.core.order import Backlinks, BreadthFirst, DepthFirst
from crawler.core.outcomes import BUSY, DENIED, DONE, FAILED, RETRY, Outcome
from crawler.core.seen import SiteGroups
from crawler.core.visits import Visit
from crawler.core.workbench import Workbench
from crawler.ports import CrawlUrl

SITES = [f"{letter}.example" for letter in "abcd"]


def bench(
    delay_s: float = 1,
    connections: int = 1,
    longest: float = 60,
    per: str = "site",
    order: BreadthFirst | None = None,
    groups: SiteGroups | None = None,
    **retry: float,
) -> Workbench:
    return Workbench(
        config.Politeness(
            delay_s=delay_s,
            connections_per_site=connections,
            max_crawl_delay_s=longest,
            per=per,
        ),
        config.Retry(**retry),
        order,
        groups=groups,
    )


class Pairs:
    """Two groups of two sites. A store of URL-seen works with one of them at a time."""

    def __init__(self) -> None:
        self.turn = 0

    def at_hand(self) -> int:
        return self.turn

    def group_of(self, site: str) -> int:
        return SITES.index(site) % 2

    def first(self, sites: list[str]) -> list[str]:
        """Those of the sites that come before the others."""
        return [site for site in sites if self.group_of(site) == self.turn] or sites


def under_way(bench: Workbench) -> int:
    """Visits that are issued and not given back."""
    return sum(state.active for state in bench._states.values())


def found(number: int, site: str = SITES[0]) -> CrawlUrl:
    return CrawlUrl(number, f"{site}/{number}", site, 0)


class Model(RuleBasedStateMachine):
    """Times are quarters of a second, so that sums are exact."""

    order: type[BreadthFirst] = BreadthFirst
    visits = Bundle("visits")
    ended = Bundle("ended")
    groups: Pairs | None = None

    @initialize(
        delay_s=st.sampled_from([0, 1, 2.5]),
        connections=st.integers(1, 3),
        longest=st.sampled_from([0, 5]),
        tries=st.integers(1, 3),
        give_up_after=st.sampled_from([0, 2, 4]),
    )
    def begin(
        self, delay_s: float, connections: int, longest: float, tries: int, give_up_after: int
    ) -> None:
        self.bench = bench(
            delay_s,
            connections,
            longest,
            order=self.order(),
            groups=self.groups,
            tries=tries,
            give_up_after=give_up_after,
            base_s=1,
            busy_base_s=8,
            max_s=20,
        )
        self.tries, self.give_up_after = tries, give_up_after
        self.failures = dict.fromkeys(SITES, 0)  # in a row
        self.tried: dict[int, int] = {}  # failures of a URL that isn't dealt with
        self.delay_s, self.connections, self.longest = delay_s, connections, longest
        self.now = 0.0
        self.urls = 0
        self.queue: dict[str, deque[CrawlUrl]] = {site: deque() for site in SITES}
        self.active = dict.fromkeys(SITES, 0)
        self.delay: dict[str, float] = dict.fromkeys(SITES, delay_s)
        self.allowed = dict.fromkeys(SITES, 0.0)  # the earliest next request
        self.handed: list[int] = []  # URLs dealt with or under way
        self.begun = dict.fromkeys(SITES, -inf)  # the latest start of a request
        self.unbegun: set[Visit] = set()  # issued, and their requests have not started
        self.starting: dict[str, Visit] = {}  # of them those that others of the site wait for

    def candidates(self) -> list[str]:
        """Sites that may be asked as soon as their time comes."""
        return [
            site
            for site in SITES
            if self.queue[site]
            and self.active[site] < self.connections
            and site not in self.starting
        ]

    def due(self) -> list[str]:
        return [site for site in self.candidates() if self.allowed[site] <= self.now]

    @rule(site=st.sampled_from(SITES), count=st.integers(1, 3))
    def enqueue(self, site: str, count: int) -> None:
        for _ in range(count):
            self.queue[site].append(found(self.urls, site))
            self.bench.enqueue(self.queue[site][-1])
            self.urls += 1

    @rule(quarters=st.integers(1, 24))
    def time_passes(self, quarters: int) -> None:
        self.now += quarters / 4

    @rule(target=visits, at_once=st.booleans())
    def acquire(self, at_once: bool) -> object:
        due = self.due()
        visit = self.bench.acquire(self.now)
        if visit is None:
            assert due == []
            return multiple()
        site = visit.found.site
        assert site in due
        self.take(visit.found, due)
        assert visit.failures == self.failures[site]
        assert visit.retries == self.tried.get(visit.found.key, 0)
        self.active[site] += 1
        assert self.active[site] <= self.connections
        if self.connections > 1:
            self.unbegun.add(visit)
            if self.delay_s:
                self.starting[site] = visit
        self.handed.append(visit.found.key)
        self.forget()
        if at_once:
            assert self.starts(visit)
        return visit

    def starts(self, visit: Visit) -> bool:
        """Whether the request of a visit has started, or does so now; else the visit is over."""
        if visit not in self.unbegun:
            return True
        site = visit.found.site
        may_start = self.allowed[site] <= self.now
        assert self.bench.begin(visit, self.now) == may_start
        self.never_began(visit)
        if may_start:
            self.begun[site] = visit.begun = self.now
            self.allowed[site] = self.now + self.delay[site]
        else:
            self.active[site] -= 1
            self.wait_again(visit.found)
            self.handed.remove(visit.found.key)
        return may_start

    def never_began(self, visit: Visit) -> None:
        self.unbegun.discard(visit)
        if self.starting.get(visit.found.site) is visit:
            del self.starting[visit.found.site]

    def first(self, due: list[str]) -> list[str]:
        """Those of the due sites that come before others."""
        return due if self.groups is None else self.groups.first(due)

    def take(self, found: CrawlUrl, due: list[str]) -> None:
        """A URL comes out while these sites are due: in order, those put back first."""
        assert found.site in self.first(due)
        assert found == self.queue[found.site].popleft()

    def wait_again(self, found: CrawlUrl) -> None:
        self.queue[found.site].appendleft(found)

    def forget(self) -> None:
        """What the bench has dropped begins anew: with our own delay."""
        for site in SITES:
            if site not in self.bench._states:
                self.delay[site] = self.delay_s
                self.begun[site] = -inf

    @rule(
        target=ended,
        visit=consumes(visits),
        requested=st.booleans(),
        crawl_delay_s=st.none() | st.sampled_from([0.0, 1.5, 4.0, 9.0]),
    )
    def release(self, visit: Visit, requested: bool, crawl_delay_s: float | None) -> Visit:
        if requested and not self.starts(visit):
            return visit
        outcome = DONE if requested else DENIED
        assert self.bench.end(visit, outcome, self.now, crawl_delay_s=crawl_delay_s)
        self.gave_back(visit, requested, crawl_delay_s)
        if requested:
            self.failures[visit.found.site] = 0
        return visit

    @rule(
        target=ended,
        visit=consumes(visits),
        busy=st.booleans(),
        retry_after_s=st.none() | st.sampled_from([0, 3, 1000]),
        crawl_delay_s=st.none() | st.sampled_from([1.5, 4.0]),
    )
    def fail(
        self, visit: Visit, busy: bool, retry_after_s: float | None, crawl_delay_s: float | None
    ) -> Visit:
        if not self.starts(visit):
            return visit
        site, key = visit.found.site, visit.found.key
        again = not self.bench.end(
            visit,
            BUSY if busy else FAILED,
            self.now,
            retry_after_s=retry_after_s,
            crawl_delay_s=crawl_delay_s,
        )
        failures = visit.failures + 1
        self.failures[site] = max(self.failures[site], failures)
        self.tried[key] = self.tried.get(key, 0) + 1
        given_up = 0 < self.give_up_after <= self.failures[site]
        assert again == (self.tried[key] < self.tries and not given_up)
        if again:
            self.wait_again(visit.found)
            self.handed.remove(key)
        self.gave_back(visit, True, crawl_delay_s)
        if not given_up:
            rest_s = retry_after_s
            if rest_s is None:
                rest_s = (8 if busy else 1) * 2 ** (failures - 1)
            rest_s = min(rest_s, 20)
            next_time = self.bench._states[site].next_time
            self.allowed[site] = max(self.allowed[site], self.now + rest_s)
            assert self.allowed[site] <= next_time
            assert next_time <= max(self.allowed[site], self.now + 1.25 * rest_s)
            self.allowed[site] = next_time
        return visit

    @rule(
        target=ended,
        visit=consumes(visits),
        crawl_delay_s=st.none() | st.sampled_from([0.0, 1.5, 4.0, 9.0]),
    )
    def put_back(self, visit: Visit, crawl_delay_s: float | None) -> Visit:
        if not self.starts(visit):
            return visit
        assert not self.bench.end(visit, RETRY, self.now, crawl_delay_s=crawl_delay_s)
        self.wait_again(visit.found)
        self.handed.remove(visit.found.key)
        self.gave_back(visit, True, crawl_delay_s)
        return visit

    def gave_back(self, visit: Visit, requested: bool, crawl_delay_s: float | None) -> None:
        site = visit.found.site
        self.active[site] -= 1
        self.never_began(visit)
        if crawl_delay_s is not None and min(crawl_delay_s, self.longest) > self.delay[site]:
            self.delay[site] = min(crawl_delay_s, self.longest)
            if self.connections > 1:
                self.begun[site] = max(self.begun[site], visit.begun)
                self.allowed[site] = max(self.allowed[site], self.begun[site] + self.delay[site])
        if requested and self.connections == 1:
            self.allowed[site] = self.now + self.delay[site]

    @precondition(lambda self: self.urls)
    @rule(visit=ended)
    def give_back_twice(self, visit: Visit) -> None:
        with pytest.raises(RuntimeError, match="twice"):
            self.bench.end(visit, DONE, self.now)
        with pytest.raises(RuntimeError, match="twice"):
            self.bench.end(visit, RETRY, self.now)
        before = dict(self.bench.failures.in_a_row)
        with pytest.raises(RuntimeError, match="twice"):
            self.bench.end(visit, FAILED, self.now)
        assert self.bench.failures.in_a_row == before

    @invariant()
    def counts_are_true(self) -> None:
        assert self.bench.backlog.waiting == sum(map(len, self.queue.values()))
        assert under_way(self.bench) == sum(self.active.values())
        assert self.bench.backlog.enqueued == self.urls

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
            due, visit = self.due(), self.bench.acquire(self.now)
            assert visit is not None
            self.handed.append(visit.found.key)
            self.take(visit.found, due)
            self.bench.end(visit, DENIED, self.now)
        assert self.candidates() == []
        left = [url.key for queue in self.queue.values() for url in queue]
        assert sorted(self.handed + left) == list(range(self.urls))


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=80, stateful_step_count=40)


class Best(Model):
    """By back-links: of all the sites that are due, the one with the best URL."""

    order = Backlinks

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[int, float] = {}
        self.back: dict[int, tuple[float, float]] = {}  # URLs put back, with the rank they had
        self.taken: dict[int, tuple[float, float]] = {}

    @rule(site=st.sampled_from(SITES), links=st.integers(1, 5), low=st.booleans())
    def enqueue_linked(self, site: str, links: int, low: bool) -> None:
        url = found(self.urls, site)
        self.queue[site].append(url)
        self.links[url.key] = -inf if low else links
        self.bench.enqueue(url, links, low)
        self.urls += 1

    @precondition(lambda self: self.urls)
    @rule(data=st.data(), links=st.integers(1, 5))
    def linked(self, data: st.DataObject, links: int) -> None:
        key = data.draw(st.integers(0, self.urls - 1))
        self.bench.backlog.count_links(key, links)
        if key not in self.back:
            self.links[key] = self.links.get(key, 1) + links

    def rank(self, url: CrawlUrl) -> tuple[float, float]:
        return -self.links.get(url.key, 1), url.key

    def head(self, site: str) -> tuple[float, float]:
        first = self.queue[site][0].key
        return self.back[first] if first in self.back else min(map(self.rank, self.queue[site]))

    def take(self, found: CrawlUrl, due: list[str]) -> None:
        queue = self.queue[found.site]
        head = self.head(found.site)
        assert head == min(self.head(site) for site in self.first(due))
        if queue[0].key in self.back:
            assert found == queue[0]
            del self.back[found.key]
        else:
            assert head == self.rank(found)
        queue.remove(found)
        self.taken[found.key] = head

    def wait_again(self, found: CrawlUrl) -> None:
        super().wait_again(found)
        self.back[found.key] = self.taken[found.key]


TestBest = Best.TestCase
TestBest.settings = settings(max_examples=80, stateful_step_count=40)


class Grouped(Model):
    """Of the sites that are due, those of the group at hand come first."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Pairs()

    @rule()
    def next_turn(self) -> None:
        assert self.groups is not None
        self.groups.turn ^= 1


TestGrouped = Grouped.TestCase
TestGrouped.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class GroupedBest(Grouped, Best):
    """The same by back-links."""


TestGroupedBest = GroupedBest.TestCase
TestGroupedBest.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_delay_runs_from_the_end_of_a_request() -> None:
    one = bench(delay_s=2)
    one.enqueue(found(0))
    one.enqueue(found(1))
    first = one.acquire(0)
    assert first is not None
    assert one.next_time() is None  # nobody can know when the fetch ends
    assert one.acquire(100) is None
    one.end(first, DONE, 5)
    assert one.next_time() == 7
    assert one.acquire(6.99) is None
    assert one.acquire(7) is not None


def test_a_site_that_was_not_bothered_needs_no_rest() -> None:
    one = bench(delay_s=2)
    one.enqueue(found(0))
    one.enqueue(found(1))
    first = one.acquire(0)
    assert first is not None
    one.end(first, DENIED, 0)
    assert one.acquire(0) is not None


def test_several_connections_start_a_delay_apart() -> None:
    one = bench(delay_s=2, connections=2)
    for number in range(3):
        one.enqueue(found(number))
    first = one.acquire(0)
    assert first is not None
    assert one.acquire(1) is None  # the request of the first visit has not started
    assert one.begin(first, 1)
    assert one.acquire(2) is None
    second = one.acquire(3)
    assert second is not None
    assert one.begin(second, 3)
    assert one.acquire(10) is None  # both connections are in use
    one.end(first, DONE, 10)
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
    one.end(visit, DONE, 0, crawl_delay_s=asked)
    assert one.next_time() == delay


def test_due_sites_take_turns() -> None:
    one = bench(delay_s=0)
    for number in range(6):
        one.enqueue(found(number, SITES[number // 3]))
    order = []
    while visit := one.acquire(0):
        order.append(visit.found.key)
        one.end(visit, DONE, 0)
    assert order == [0, 3, 1, 4, 2, 5]


def test_the_site_that_has_been_due_for_longest_is_first() -> None:
    one = bench(delay_s=10)
    for site in SITES[:3]:
        for number in range(2):
            one.enqueue(found(number, site))
    visits = [one.acquire(0) for _ in range(3)]
    for visit, end in zip(visits, (3, 1, 2), strict=True):
        assert visit is not None
        one.end(visit, DONE, end)
    again = [one.acquire(20) for _ in range(3)]
    assert [visit and visit.found.site for visit in again] == [SITES[1], SITES[2], SITES[0]]


def test_sites_that_are_done_are_forgotten() -> None:
    one = bench(delay_s=1)
    for number in range(1000):
        one.enqueue(found(number, f"{number}.example"))
        visit = one.acquire(number)
        assert visit is not None
        one.end(visit, DONE, number)
    assert len(one._states) < 10


def test_what_is_kept_to_be_forgotten_does_not_grow_with_the_fetches() -> None:
    one = bench(delay_s=60)
    for round_ in range(50):
        for number in range(20):  # each site's next URL is found just when its delay has passed
            now = round_ * 60.5 + number * 3
            one.enqueue(found(round_, SITES[0] + str(number)))
            visit = one.acquire(now)
            assert visit is not None
            one.end(visit, DONE, now)
    assert len(one.states.resting) <= 20


def test_a_new_site_queues_behind_those_that_are_due() -> None:
    one = bench(delay_s=1)
    for number in range(4):
        one.enqueue(found(number, SITES[number % 2]))
    for visit in (one.acquire(5), one.acquire(5)):
        assert visit is not None
        one.end(visit, DONE, 5)
    one.acquire(7)  # one of the two sites that are due at 6
    one.enqueue(found(4, SITES[2]))
    order = [one.acquire(7), one.acquire(7)]
    assert [visit and visit.found.key for visit in order] == [3, 4]


# --- failures ---------------------------------------------------------------------------------


def rests(one: Workbench, times: int, **how: object) -> list[float]:
    """How long the site rests after each of so many failures in a row."""
    seconds, now = [], 0.0
    for _ in range(times):
        visit = one.acquire(now)
        assert visit is not None
        one.end(visit, BUSY, now, **how)  # type: ignore[arg-type]
        next_time = one.next_time()
        assert next_time is not None
        seconds.append(next_time - now)
        now = next_time
    return seconds


def test_a_busy_site_is_asked_again_after_twice_as_long_each_time() -> None:
    """From 60 s on, with up to a quarter more, so that sites don't all come back at once."""
    one = bench(tries=9, give_up_after=0)
    one.enqueue(found(0))
    seconds = rests(one, 7)
    for rest_s, base_s in zip(seconds, [60, 120, 240, 480, 960, 1920, 3600], strict=True):
        assert base_s <= rest_s <= 1.25 * base_s
    other = bench(tries=9, give_up_after=0)
    other.enqueue(found(0, SITES[1]))
    assert rests(other, 1) != seconds[:1]


@pytest.mark.parametrize(("asked", "rest_s"), [(10, 10), (0, 1), (7200, 3600)])
def test_a_site_rests_as_long_as_it_asks_for_up_to_the_longest(asked: float, rest_s: float) -> None:
    one = bench(tries=3)
    one.enqueue(found(0))
    (seconds,) = rests(one, 1, retry_after_s=asked)
    assert rest_s <= seconds <= 1.25 * rest_s


def test_a_url_is_tried_so_often_before_the_others_of_its_site_then_it_is_over() -> None:
    one = bench(tries=3, give_up_after=0)
    one.enqueue(found(0))
    one.enqueue(found(1))
    finals = []
    for _ in range(4):
        now = one.next_time()
        assert now is not None
        visit = one.acquire(now)
        assert visit is not None
        finals.append((visit.found.key, visit.retries, not one.end(visit, FAILED, now)))
    assert finals == [(0, 0, True), (0, 1, True), (0, 2, False), (1, 0, True)]
    assert one.backlog.waiting == 1


def test_visits_that_fail_together_count_as_one_failure() -> None:
    one = bench(connections=3, delay_s=0, give_up_after=2)
    for number in range(4):
        one.enqueue(found(number))
    together = [one.acquire(0) for _ in range(3)]
    for visit in together:
        assert visit is not None
        assert not one.end(visit, FAILED, 0)
    now = one.next_time()
    assert now is not None
    last = one.acquire(now)
    assert last is not None
    assert last.failures == 1
    assert one.end(last, FAILED, now)
    given_up = one.acquire(now)
    assert given_up is not None
    assert one.failures.are_too_many(given_up.failures)


def test_a_host_that_is_given_up_stays_so_after_its_site_is_forgotten() -> None:
    one = bench(delay_s=0, give_up_after=1)
    one.enqueue(found(0))
    visit = one.acquire(0)
    assert visit is not None
    assert one.end(visit, FAILED, 0)
    for number in range(3):
        one.enqueue(found(number + 1, SITES[1]))
        visit = one.acquire(1)
        assert visit is not None
        one.end(visit, DONE, 1)
    assert SITES[0] not in one._states
    one.enqueue(found(9))
    visit = one.acquire(2)
    assert visit is not None
    assert one.failures.are_too_many(visit.failures)


# --- addresses --------------------------------------------------------------------------------


def test_sites_of_one_address_take_turns_and_leave_the_delay_between() -> None:
    one = bench(delay_s=2, per="address")
    for site in SITES[:3]:
        for number in range(2):
            one.enqueue(found(number, site))
    first = one.acquire(0)
    assert first is not None
    assert one.locate(first, "10.0.0.1", 0)
    for _ in range(2):  # only DNS knows that the others live there too
        visit = one.acquire(0)
        assert visit is not None
        assert not one.locate(visit, "10.0.0.1", 0)
    assert one.acquire(100) is None
    assert one.backlog.waiting == 5
    one.end(first, DONE, 100)
    order, in_vain = [], 0
    while (now := one.next_time()) is not None:
        visit = one.acquire(now)
        if visit is None:
            in_vain += 1
            continue
        assert one.locate(visit, "10.0.0.1", now)
        order.append((now, visit.found.site))
        one.end(visit, DONE, now)
    assert in_vain <= 5  # once a URL, when the site learns that it has to wait for another
    a, b, c = SITES[:3]
    assert order == [(102, b), (104, c), (106, a), (108, b), (110, c)]


def test_sites_of_other_addresses_do_not_wait() -> None:
    one = bench(delay_s=2, per="address")
    one.enqueue(found(0, SITES[0]))
    one.enqueue(found(0, SITES[1]))
    for number in (1, 2):
        visit = one.acquire(0)
        assert visit is not None
        assert one.locate(visit, f"10.0.0.{number}", 0)


def test_a_site_that_has_to_rest_does_not_keep_its_address() -> None:
    one = bench(delay_s=1, per="address")
    one.enqueue(found(0, SITES[0]))
    one.enqueue(found(0, SITES[1]))
    first = one.acquire(0)
    assert first is not None
    assert one.locate(first, "10.0.0.1", 0)
    second = one.acquire(0)
    assert second is not None
    assert not one.locate(second, "10.0.0.1", 0)
    assert not one.end(first, BUSY, 0)  # a minute
    assert one.next_time() == 1
    second = one.acquire(1)
    assert second is not None
    assert second.found.site == SITES[1]
    one.end(second, DONE, 1)
    assert one.next_time() == pytest.approx(67.5, abs=7.5)


def test_a_site_may_move_to_another_address() -> None:
    one = bench(delay_s=0, per="address")
    for number in range(2):
        one.enqueue(found(number, SITES[0]))
        one.enqueue(found(number, SITES[1]))
    held = one.acquire(0)
    assert held is not None
    assert one.locate(held, "10.0.0.1", 0)
    other = one.acquire(0)
    assert other is not None
    assert not one.locate(other, "10.0.0.1", 0)
    one.end(held, DONE, 0)
    moved = one.acquire(0)
    assert moved is not None
    assert moved.found.site == SITES[1]
    assert one.locate(moved, "10.0.0.2", 0)
    again = one.acquire(0)  # the first address is free again
    assert again is not None
    assert again.found.site == SITES[0]
    assert one.locate(again, "10.0.0.1", 0)


@pytest.mark.parametrize("order", [None, Backlinks()])
def test_what_waits_of_a_site_moves_with_it_to_an_address_that_is_taken(
    order: BreadthFirst | None,
) -> None:
    """The site waits for its second connection, or is parked, while its first visit moves."""
    one = bench(delay_s=0, connections=2, per="address", order=order)
    for number in range(4):
        one.enqueue(found(number, SITES[0]))
        one.enqueue(found(4 + number, SITES[1]))
    visits: dict[str, list[Visit]] = {SITES[0]: [], SITES[1]: []}
    for _ in range(4):
        visit = one.acquire(0)
        assert visit is not None
        visits[visit.found.site].append(visit)
    assert all(one.locate(visit, "10.0.0.1", 0) for visit in visits[SITES[0]])
    assert all(one.locate(visit, "10.0.0.2", 0) for visit in visits[SITES[1]])
    one.end(visits[SITES[0]].pop(), DONE, 0)  # the site may be asked again
    assert not one.locate(visits[SITES[0]].pop(), "10.0.0.2", 0)
    while (visit := one.acquire(0)) is not None:
        assert not one.locate(visit, "10.0.0.2", 0)
    one.end(visits[SITES[1]].pop(), DONE, 0)
    visit = one.acquire(0)
    assert visit is not None
    assert one.locate(visit, "10.0.0.2", 0)


def test_an_address_is_forgotten_with_its_sites() -> None:
    one = bench(delay_s=1, per="address")
    for number in range(200):
        one.enqueue(found(0, f"{number}.example"))
        visit = one.acquire(number * 2)
        assert visit is not None
        assert one.locate(visit, f"10.0.0.{number}", number * 2)
        one.end(visit, DONE, number * 2)
    assert len(one._addresses._known) < 5


class Shared(RuleBasedStateMachine):
    """Sites on two addresses: never more connections, never sooner, and nobody is left behind."""

    order: type[BreadthFirst] = BreadthFirst
    visits = Bundle("visits")

    @initialize(connections=st.integers(1, 3), delay_s=st.sampled_from([0, 1]))
    def begin(self, connections: int, delay_s: float) -> None:
        self.bench = bench(
            delay_s, connections, per="address", order=self.order(), give_up_after=0, tries=2
        )
        self.connections, self.delay_s = connections, delay_s
        self.now = 0.0
        self.urls = self.done = 0
        self.active: dict[str, list[Visit]] = {}
        self.started: dict[str, float] = {}
        self.free: dict[str, float] = {}

    @rule(site=st.sampled_from(SITES), count=st.integers(1, 3))
    def enqueue(self, site: str, count: int) -> None:
        for _ in range(count):
            self.bench.enqueue(found(self.urls, site))
            self.urls += 1

    @rule(quarters=st.integers(1, 8))
    def time_passes(self, quarters: int) -> None:
        self.now += quarters / 4

    @rule(target=visits, moved=st.integers(0, 9))
    def acquire(self, moved: int) -> object:
        visit = self.bench.acquire(self.now)
        if visit is None:
            return multiple()
        site = SITES.index(visit.found.site)
        address = str(site % 2 if moved else 2)
        if not self.bench.locate(visit, address, self.now):
            return multiple()
        if not self.bench.begin(visit, self.now):
            return multiple()
        if self.connections == 1:  # else it goes where it went when it has other visits
            assert not self.active.get(address)
            assert self.free.get(address, 0) <= self.now
            self.active[address] = [visit]
        return visit

    def gave_back(self, visit: Visit) -> None:
        for address, visits in self.active.items():
            if visit in visits:
                visits.remove(visit)
                self.free[address] = self.now + self.delay_s

    @rule(visit=consumes(visits), how=st.sampled_from(["release", "put_back", "fail"]))
    def give_back(self, visit: Visit, how: str) -> None:
        self.gave_back(visit)
        if how == "release":
            self.bench.end(visit, DONE, self.now)
            self.done += 1
        elif how == "put_back":
            self.bench.end(visit, RETRY, self.now)
        else:
            self.done += self.bench.end(visit, FAILED, self.now)

    @invariant()
    def connections_are_counted(self) -> None:
        if hasattr(self, "bench"):
            for address in self.bench._addresses._known.values():
                assert 0 <= address.active <= self.connections

    def teardown(self) -> None:
        """Once every visit has ended, the rest comes out without anybody being woken in vain."""
        if not hasattr(self, "bench"):
            return
        active = under_way(self.bench)
        assert self.bench.backlog.waiting + active + self.done == self.urls
        if active:
            return
        for _ in range(10 * self.urls):
            time = self.bench.next_time()
            if time is None:
                break
            self.now = max(self.now, time)
            visit = self.bench.acquire(self.now)
            if visit and self.bench.locate(visit, visit.found.site, self.now):
                self.bench.end(visit, DONE, self.now)
        assert self.bench.backlog.waiting == 0


TestShared = Shared.TestCase
TestShared.settings = settings(max_examples=100, stateful_step_count=40)


class SharedByScores(Shared):
    """The latest URL first; each new one changes the head of its site, wherever that stands."""

    order = DepthFirst


TestSharedByScores = SharedByScores.TestCase
TestSharedByScores.settings = settings(max_examples=100, stateful_step_count=40)


def test_of_the_sites_parked_at_an_address_the_one_with_the_best_url_is_next() -> None:
    one = bench(delay_s=1, per="address", order=Backlinks())
    held = None
    for number, site in enumerate(SITES):
        one.enqueue(found(number, site), links=1 + number)
        visit = one.acquire(0)
        assert visit is not None
        if one.locate(visit, "10.0.0.1", 0):
            held = visit
    assert held is not None
    assert held.found.key == 0
    one.end(held, DONE, 0)
    order = []
    for now in (1, 2, 3):
        visit = one.acquire(now)
        assert visit is not None
        assert one.locate(visit, "10.0.0.1", now)
        order.append(visit.found.key)
        one.end(visit, DONE, now)
    assert order == [3, 2, 1]


def test_a_site_that_is_held_while_its_clock_is_away_asks_for_it_once_woken() -> None:
    leases = Leases(lambda site: 1, lambda site: 2)
    polite = config.Politeness(delay_s=0, connections_per_site=2)
    one = Workbench(polite, config.Retry(), leases=leases)
    lease = leases.of(SITES[0])
    assert lease is not None
    lease.held, lease.free = True, 2
    for number in range(2):
        one.enqueue(found(number))
    visit = one.acquire(0)
    assert visit is not None
    lease.held = False  # it leaves while a request is under way
    assert one.acquire(0) is None
    one.end(visit, Outcome.HELD, 0)
    assert one.sharing is not None
    assert not one.sharing.wants_clock(lease)
    leases.marked.clear()  # as the clocks do, once they have seen that it isn't wanted
    lease.marked = False
    one.wake(SITES[0])
    assert one.sharing.wants_clock(lease)
    assert list(leases.marked) == [lease]


def test_a_crawl_delay_outlives_the_state_of_a_site_whose_clock_may_be_lent() -> None:
    leases = Leases(lambda site: None, lambda site: 1)  # this rank owns whole sites
    one = Workbench(config.Politeness(delay_s=1), config.Retry(), leases=leases)
    for number, site in enumerate(SITES[:2]):
        one.enqueue(found(number, site))
    first = one.acquire(0)
    assert first is not None
    one.end(first, DONE, 0, crawl_delay_s=10)
    second = one.acquire(20)  # with it the first site is forgotten
    assert second is not None
    assert first.found.site not in one._states
    lease = leases.share(first.found.site, 0)
    assert one.sharing is not None
    one.sharing.share(lease)
    assert lease.rests[first.found.site].delay_s == 10
