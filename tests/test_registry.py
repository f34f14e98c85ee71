"""The registry of a seed server, against a model that a reader can check by eye."""

import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import numpy as np
import pytest

from crawler.core.hands import Hand
from crawler.core.registry import Registry, arrays, records, registry, texts
from crawler.ports import CrawlUrl, NoRoomError
from crawler.session import SpillFiles

SITES = [f"http://s{number}.example" for number in range(7)]


class Disk:
    """A disk that is none, and often full."""

    def __init__(self, dice: random.Random) -> None:
        self.chunks: list[bytes] = []
        self.dice = dice

    def put(self, chunk: bytes) -> int:
        if self.dice.random() < 0.3:
            raise NoRoomError("full")
        self.chunks.append(chunk)
        return len(self.chunks) - 1

    def read(self, number: int) -> bytes:
        return self.chunks[number]

    def take(self, number: int) -> bytes:
        raise AssertionError(number)


def url(number: int, chain: tuple[int, ...] = (), hops: int = 0) -> CrawlUrl:
    """The URL with the key `number`; of each site, some aren't below the site's name."""
    site = SITES[number % len(SITES)]
    text = f"http://www{site[7:]}/{number}" if number % 5 == 0 else f"{site}/{number}?é"
    return CrawlUrl(number, text, site, hops, chain)


# --- the model --------------------------------------------------------------------------------


@dataclass
class Known:
    found: CrawlUrl | None
    row: int
    score: float = 0.0
    links: int = 0
    final: bool = False
    state: str = "visited"  # or waiting, back, out
    again: CrawlUrl | None = None


@dataclass
class Model:
    """What `Registry` promises, by looking at everything each time."""

    per_site: int
    pool_for: dict[str, int]
    priorities: dict[str, int]
    urls: dict[int, Known] = field(default_factory=dict)
    back: dict[str, list[Known]] = field(default_factory=lambda: {site: [] for site in SITES})

    def of(self, site: str, *states: str) -> list[Known]:
        every = self.urls.values()
        return [
            one for one in every if one.found and one.found.site == site and one.state in states
        ]

    def first(self, site: str) -> Known | None:
        if len(self.of(site, "out")) >= self.per_site:
            return None
        if self.back[site]:
            return self.back[site][-1]
        return min(self.of(site, "waiting"), key=lambda one: (-one.score, one.row), default=None)

    def firsts(self, pool: int) -> list[Known]:
        sites = [site for site in SITES if self.pool_for[site] == pool]
        return [first for site in sites if (first := self.first(site)) is not None]

    def best(self, pool: int) -> Known | None:
        return min(self.firsts(pool), key=self.place, default=None)

    def place(self, one: Known) -> tuple[float, float, int]:
        """Where the best URL of a site stands among those of other sites."""
        assert one.found is not None
        return -self.priorities.get(one.found.site, 0), -one.score, one.row

    def visit(self, key: int) -> None:
        known = self.urls.setdefault(key, Known(None, len(self.urls)))
        known.state, known.again = "visited", None
        for urls in self.back.values():
            if known in urls:
                urls.remove(known)

    def raise_score(self, key: int, amount: float) -> None:
        if (known := self.urls.get(key)) and known.state == "waiting" and not known.final:
            known.score += amount

    def waits(self) -> list[Known]:
        return [one for one in self.urls.values() if one.state in {"waiting", "back"}]


class Pair:
    """A registry and its model, to which the same happens."""

    def __init__(self, dice: random.Random, per_site: int, pools: int, spilled: bool) -> None:
        self.dice = dice
        self.pools = range(pools)
        pool_for = {site: dice.randrange(pools) for site in SITES}
        priorities = {site: dice.choice([-2, 0, 0, 5]) for site in SITES}
        priorities = dice.choice([priorities, {}])
        self.model = Model(per_site, dict(pool_for), priorities)
        self.real = Registry(
            per_site,
            Disk(dice) if spilled else None,
            pool_for.__getitem__,
            lambda site: priorities.get(site, 0),
        )
        self.next = 1

    def some_keys(self, most: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
        keys = [self.dice.randrange(1, self.next + 5) for _ in range(self.dice.randrange(most))]
        return np.array(keys, np.uint64)

    def one(self, *states: str) -> Known | None:
        those = [one for one in self.model.urls.values() if one.state in states]
        return self.dice.choice(those) if those else None

    # Each of these is a thing that may happen.

    def add(self) -> None:
        new = []
        for _ in range(self.dice.randrange(12)):
            key, self.next = self.next, self.next + self.dice.randrange(1, 3)
            if key in self.model.urls:
                continue
            score = self.dice.choice([0.0, 1.0, 1.0, 2.5, -inf, inf])
            links, final = self.dice.randrange(3), self.dice.random() < 0.2
            chain = (1, 2) if self.dice.random() < 0.2 else ()
            found = url(key, chain, self.dice.randrange(40))
            row = len(self.model.urls)
            new.append((found, (score, final), links))
            self.model.urls[key] = Known(found, row, score, links, final, "waiting")
        self.real.add(*map(list, zip(*new, strict=True)) if new else ([], [], []))

    def add_visited(self) -> None:
        keys = sorted(set(self.some_keys(6).tolist()))
        self.real.add_visited(iter(keys))
        for key in keys:
            self.model.visit(key)

    def count(self) -> None:
        keys = self.some_keys(40)
        links = np.array([self.dice.randrange(4) for _ in keys], np.uint32)
        more = self.dice.choice([0, 1, 1, 0.5])
        unknown = self.real.count(keys, links, more)
        assert unknown.tolist() == [
            i for i, key in enumerate(keys.tolist()) if key not in self.model.urls
        ]
        for key, number in zip(keys.tolist(), links.tolist(), strict=True):
            if key in self.model.urls:
                self.model.urls[key].links += number
                self.model.raise_score(key, more * number)

    def increase(self) -> None:
        keys = self.some_keys(10)
        amount = self.dice.choice([0.25, -0.25, -3.0])
        self.real.increase(keys, amount)
        for key in keys.tolist():
            self.model.raise_score(key, amount)

    def rescore(self) -> None:
        salt = self.dice.randrange(100)

        def score(key: int, links: int) -> float:
            return (key * salt) % 5 + links / 2

        def scores(keys: "np.ndarray", links: "np.ndarray") -> "np.ndarray":
            pairs = zip(keys.tolist(), links.tolist(), strict=True)
            return np.array([score(key, number) for key, number in pairs])

        self.real.rescore(scores)
        for key, known in self.model.urls.items():
            if known.state == "waiting" and not known.final:
                known.score = score(key, known.links)

    def deal(self) -> None:
        pools = [*self.pools, 40, 41]
        hands = [
            Hand(
                self.dice.choice(pools),
                self.dice.sample(pools, self.dice.randrange(3)),
                self.dice.randrange(4),
                self.dice.randrange(3),
            )
            for _ in range(self.dice.randrange(4))
        ]
        free = self.dice.choice([None, *self.pools])
        share, most = self.dice.randrange(5), self.dice.choice([0, 2, 100])
        dealt = self.real.deal(hands, free, share, most)
        assert [one.hand for one in dealt] == sorted({one.hand for one in dealt})
        columns = {
            one.hand: (one, deque(zip(one.found, one.pools, one.scores, strict=True)))
            for one in dealt
        }
        begun, place = Counter[int](), 0
        room, load = [hand.room for hand in hands], [hand.load for hand in hands]
        hungry = list(range(len(hands)))
        while hungry and most:
            still = []
            for number in hungry:
                own, others, *_ = hands[number]
                busy = load[number] + len(self.model.firsts(own))
                also = [free] if free is not None and busy < share else []
                pools = [own, *others, *also]
                firsts = [first for pool in pools if (first := self.model.best(pool)) is not None]
                best = min(firsts, key=self.model.place, default=None)
                if best is None or not room[number] or not most:
                    continue
                assert best.found is not None
                site = best.found.site
                was_in = self.model.pool_for[site]
                self.hand_out(best)
                self.model.pool_for[site] = own
                is_first = len(self.model.of(site, "out")) == 1
                one, urls = columns[number]
                assert urls.popleft() == (best.found, was_in, best.score)
                assert urls or one.last == place
                place += 1
                begun[number] += is_first
                load[number] += is_first
                room[number] -= 1
                most -= 1
                still.append(number)
            hungry = still
        assert not any(urls for _, urls in columns.values())
        assert all(one.begun == begun[one.hand] for one in dealt)

    def hand_out(self, best: Known) -> None:
        assert best.found is not None
        if best.state == "back":
            self.model.back[best.found.site].pop()
        best.state = "out"

    def end(self) -> None:
        out = [key for key, one in self.model.urls.items() if one.state == "out"]
        keys = self.dice.sample(out, min(len(out), self.dice.randrange(4)))
        ended = []
        for key in keys:
            known = self.model.urls[key]
            assert known.found is not None
            site = known.found.site
            known.state = "visited"
            if known.again:
                known.state, known.found, known.again = "waiting", known.again, None
            ended.append((site, len(self.model.of(site, "out"))))
        assert self.real.end(np.array(keys, np.uint64)) == ended

    def put_back(self) -> None:
        if known := self.one("out"):
            assert known.found is not None
            self.real.put_back(known.found.key)
            known.state = "back"
            known.found, known.again = known.again or known.found, None
            self.model.back[known.found.site].append(known)

    def wait_again(self) -> None:
        if self.model.urls:
            key = self.dice.choice(list(self.model.urls))
            known = self.model.urls[key]
            found = url(key, (3, self.dice.randrange(9)), 5)
            self.real.wait_again(found)
            if known.state == "out":
                known.again = found
            else:
                known.found = found
                known.state = "waiting" if known.state == "visited" else known.state

    def move(self) -> None:
        site, pool = self.dice.choice(SITES), self.dice.choice(self.pools)
        self.real.move(site, pool)
        self.model.pool_for[site] = pool

    def refuse(self) -> None:
        """What must not happen changes nothing."""
        if known := self.one("waiting", "visited", "back"):
            key = next(key for key, one in self.model.urls.items() if one is known)
            self.refuse_end(key)
            with pytest.raises(KeyError):
                self.real.put_back(key)
        self.refuse_end(self.next + 9)
        for call in (self.real.put_back, self.real.links_of):
            with pytest.raises(KeyError):
                call(self.next + 9)
        with pytest.raises(KeyError):
            self.real.wait_again(url(self.next + 9))

    def refuse_end(self, key: int) -> None:
        with pytest.raises(KeyError):
            self.real.end(np.array([key], np.uint64))

    def compare(self) -> None:
        real, model = self.real, self.model
        assert (len(real), list(real)) == (len(model.urls), list(model.urls))
        rows = [known.row for known in model.urls.values()]
        assert real.rows(np.array(list(model.urls), np.uint64)).tolist() == rows
        for key, known in list(model.urls.items())[:10]:
            assert key in real
            assert real.find(key) == known.row
        links = [(key, known.links) for key, known in model.urls.items()]
        assert list(real.link_counts()) == links
        assert [(key, real.links_of(key)) for key in real] == links
        assert self.next + 7 not in real
        assert real.waits == len(model.waits())
        assert list(real.waiting_urls()) == [one.found for one in model.waits()]
        assert real.handed == sum(len(model.of(site, "out")) for site in SITES)
        for site in SITES:
            assert real.pool_of(site) == model.pool_for[site]
            assert real.out(site) == len(model.of(site, "out"))
        for pool in (*self.pools, 99):
            best = model.best(pool)
            found = best.found if best else None
            assert real.best_site(pool) == (found.site if found else None)
            assert real.sites_waiting(pool) == len(model.firsts(pool))
            sites = [site for site in SITES if model.pool_for[site] == pool]
            assert real.waiting(pool) == sum(len(model.of(s, "waiting", "back")) for s in sites)


THINGS = {
    Pair.add: 20,
    Pair.add_visited: 2,
    Pair.count: 20,
    Pair.increase: 5,
    Pair.rescore: 1,
    Pair.deal: 20,
    Pair.end: 10,
    Pair.put_back: 5,
    Pair.wait_again: 3,
    Pair.move: 3,
    Pair.refuse: 1,
}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Arrays, steps and blocks so small that all of them grow often."""
    monkeypatch.setattr(records, "FIRST", 2)
    monkeypatch.setattr(records, "_PIECE", 100)
    monkeypatch.setattr(arrays, "_MOST_NOTED", 3)
    monkeypatch.setattr(registry, "_STEP", 5)
    monkeypatch.setattr(texts, "BLOCK", 4)
    return


def test_records_stay_as_they_are_when_their_array_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_PIECE", 5 << 12)  # so that whole pages are given back
    before = np.zeros(10_000, records.URL)
    before["key"] = np.arange(10_000)
    before["links"] = 7
    kept = before.copy()
    assert records.with_room(before, 10_000) is before
    after = records.with_room(before, 10_001)
    assert len(after) > 10_000
    assert (after[:10_000] == kept).all()
    assert not after["key"][10_000:].any()


@pytest.mark.parametrize("spilled", [False, True])
def test_texts_are_read_as_they_were_whatever_dictionary_they_were_written_with(
    spilled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_SAMPLES", 64)
    dice = random.Random(1)
    real = texts.Texts(Disk(dice) if spilled else None)
    words = [f"{dice.randrange(1 << 30):x}" for _ in range(40)]
    written: dict[int, str] = {}
    row = 0
    while row < 64 * 16 * texts.BLOCK + 50:
        row += dice.choice([0, 0, 0, 1, 30])  # rows without texts
        new = [f"5 /{'/'.join(dice.choices(words, k=5))}" for _ in range(dice.randrange(40))]
        real.extend(row, new)
        written |= dict(enumerate(new, row))
        row += len(new)
    assert len(real._decompress) == 3
    assert all(real.read(row) == text for row, text in written.items())
    if not spilled:
        assert real.memory < 0.7 * sum(map(len, written.values()))


def test_texts_that_have_nothing_in_common_need_no_dictionary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(texts, "_SAMPLES", 2)
    real = texts.Texts(None)
    written = [chr(number) for number in range(200, 300)]
    real.extend(0, written)
    assert [real.read(row) for row in range(100)] == written


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "seed",
    [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 60))],
)
def test_whatever_happens_the_registry_is_as_the_model(seed: int) -> None:
    dice = random.Random(seed)
    pair = Pair(dice, 1 + seed % 4, dice.randrange(1, 4), spilled=seed % 3 == 0)
    for _ in range(250):
        [thing] = dice.choices(list(THINGS), list(THINGS.values()))
        thing(pair)
        pair.compare()


def test_a_url_can_be_added_only_once() -> None:
    real = Registry(1)
    for _ in range(2):
        real.add([url(1)], [(1, False)], [1])
    with pytest.raises(AssertionError, match="key 1 is known"):
        real.find(1)


def test_texts_on_disk_can_be_read_any_number_of_times(tmp_path: Path) -> None:
    with SpillFiles(tmp_path / "texts") as spill:
        real = Registry(1, spill)
        every = [url(key) for key in range(1, 300)]
        for found in every:
            real.add([found], [(1, False)], [1])
        assert any((tmp_path / "texts").iterdir())
        assert list(real.waiting_urls()) == every
        assert list(real.waiting_urls()) == every
