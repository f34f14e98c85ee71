"""The stores on disk that answer late, against a dict, with random cycles and kills."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st

from crawler import url
from crawler.stores.batch_store import BatchStore
from crawler.stores.drum import Drum
from crawler.stores.entries import CHECK, MAX_LINKS, UPDATE, Entries, Value
from crawler.stores.files import DamagedStoreError
from crawler.stores.texts import texts_in
from crawler.stores.veuniq import Veuniq

Make = Callable[[Path], BatchStore]
Known = dict[int, Value]

STORES: dict[str, Make] = {
    "drum, each cycle": lambda path: Drum(path, 2),
    "drum, one bucket": lambda path: Drum(path, 0),
    "drum, native": lambda path: Drum(path, 2, bucket_bytes=200),
    "veuniq, one": lambda path: Veuniq(path, 1),
    "veuniq, in turn": lambda path: Veuniq(path, 4, in_turn=True),
    "veuniq, the fullest": lambda path: Veuniq(path, 7),
    "veuniq, soon": lambda path: Veuniq(path, 3, max_delay_s=2),
    "veuniq, texts": lambda path: Veuniq(path, 3, records="texts"),
    "veuniq, texts in turn": lambda path: Veuniq(path, 2, records="texts", in_turn=True),
}
EACH = pytest.mark.parametrize("make", STORES.values(), ids=STORES)


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill of a process leaves doesn't depend on what is forced to disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Killed(BaseException):
    """Stands for the end of the process."""


class Entry(NamedTuple):
    """One entry. Its number is its aux."""

    number: int
    site: str
    text: str
    operation: int
    value: Value

    @property
    def key(self) -> int:
        return url.key(self.text)


def submit(store: BatchStore, entries: list[Entry], now: float = 0) -> None:
    columns = Entries.of(
        [one.key for one in entries],
        [one.value.packed(one.operation) for one in entries],
        [one.text.encode() for one in entries],
        [b"%d" % one.number for one in entries],
    )
    store.submit(columns, np.array([url.key(one.site) for one in entries], np.uint64), now)


Answer = tuple[int, str, bool, Value]  # number, text, whether it is new, what is known now


def run(store: BatchStore, now: float = 0, *, answer: bool = False) -> Iterator[Answer]:
    """Run a cycle; its answers."""
    for answers in store.cycle(now, answer=answer):
        if answers is None:
            continue
        values, new = answers.entries.values.tolist(), answers.new.tolist()
        keys = answers.entries.keys.tolist()
        for key, value, is_new, (text, aux) in zip(
            keys, values, new, answers.entries.pieces(), strict=True
        ):
            assert url.key(text.decode()) == key
            yield int(aux), text.decode(), is_new, Value.of(value)


def drain(store: BatchStore) -> list[Answer]:
    """The answers about all that is pending."""
    answers = []
    while store.pending:
        answers += run(store, answer=True)
    return answers


def apply(known: Known, entry: Entry) -> tuple[bool, Value]:
    """What the store must answer about an entry; notes the entry."""
    old = known.get(entry.key)
    now = old or Value()
    if entry.operation & UPDATE:
        now = Value(
            now.crawled or entry.value.crawled,
            entry.value.meta if entry.value.crawled else now.meta,
            min(MAX_LINKS, now.links + entry.value.links),
        )
        known[entry.key] = now
    return old is None, now


def contents(store: BatchStore) -> Known:
    """All that a store knows. Checks that its repositories are in order, and disjoint by site."""
    known: Known = {}
    for name in store.repositories():
        found = [
            pair
            for keys, values in store.contents(name)
            for pair in zip(keys.tolist(), values.tolist(), strict=True)
        ]
        keys = [key for key, _ in found]
        if isinstance(store, Veuniq):
            number = int(name[1:].partition("-")[0])
            sites = [store.repository_of(np.array([SITES[key]], np.uint64))[0] for key in keys]
            assert set(sites) <= {number}
        if isinstance(store, Veuniq) and store._records == "texts":
            texts = [text for text, _ in texts_in(store.folder, name)]
            assert texts == sorted(texts)
        else:
            assert keys == sorted(keys)
        assert not known.keys() & set(keys)
        known |= {key: Value.of(value) for key, value in found}
    noted = {key: Value() for key in store.noted().tolist()}
    assert sorted(noted.keys() | known.keys()) == store.keys().tolist()
    return noted | known


# Few URLs, so that they come again, and long ones that share much or nothing with others.
PATHS = [
    "",
    *"abc",
    "a/b",
    *(f"{'x' * 300}{n}" for n in range(3)),
    *(f"{n:0>9}" for n in range(30)),
]
NAMES = [f"s{number}.example" for number in range(6)]
URLS = [f"http://{name}/{path}" for name in NAMES for path in PATHS]


SITES = {
    url.key(f"http://{name}/{path}"): url.key(name)
    for name in NAMES
    for path in [*PATHS, *range(100)]
}


@st.composite
def some_entries(draw: st.DrawFn) -> list[Entry]:
    dice = draw(st.randoms(use_true_random=False))
    entries = []
    for _ in range(draw(st.integers(0, 60))):
        site = dice.choice(NAMES)
        entries.append(
            Entry(
                0,
                site,
                f"http://{site}/{dice.choice(PATHS)}",
                dice.choice([CHECK | UPDATE, CHECK | UPDATE, CHECK, UPDATE]),
                Value(
                    dice.random() < 0.3, dice.randrange(2**32), dice.choice([0, 1, 5, MAX_LINKS])
                ),
            )
        )
    return entries


class Machine(stateful.RuleBasedStateMachine):
    """A store, and what it must know and answer."""

    make: Make

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.store = self.make(Path(self.directory.name))
        self.known: Known = {}  # when all that was submitted is dealt with
        self.kept: Known = {}  # the same without what no cycle has seen
        self.unseen: list[Entry] = []  # what no cycle has seen
        self.open: dict[int, tuple[str, bool, Value]] = {}  # answers to come, by number
        self.new: set[str] = set()
        self.numbers = 0
        self.now = 0.0

    @stateful.rule(entries=some_entries(), later=st.sampled_from([0, 1, 5]))
    def submit(self, entries: list[Entry], later: float) -> None:
        self.now += later
        entries = [one._replace(number=self.numbers + n) for n, one in enumerate(entries)]
        self.numbers += len(entries)
        self.unseen += entries
        for one in entries:
            is_new, value = apply(self.known, one)
            if one.operation & CHECK:
                self.open[one.number] = one.text, is_new, value
        submit(self.store, entries, self.now)
        assert self.store.in_memory == len(self.unseen)

    def see(self) -> None:
        for one in self.unseen:
            apply(self.kept, one)
        self.unseen.clear()

    def take(self, answers: list[Answer]) -> None:
        for number, text, is_new, value in answers:
            assert self.open.pop(number) == (text, is_new, value)

    @stateful.rule(answer=st.booleans())
    def cycle(self, answer: bool) -> None:
        pending = self.store.pending
        self.take(list(run(self.store, self.now, answer=answer)))
        self.see()
        assert self.store.pending < pending or not (answer and pending)

    @stateful.rule()
    def finish(self) -> None:
        self.take(drain(self.store))
        self.see()
        assert not self.open
        assert self.store.oldest == float("inf")
        assert contents(self.store) == self.known

    @stateful.rule(numbers=st.lists(st.sampled_from([url.key(one) for one in URLS])))
    def note(self, numbers: list[int]) -> None:
        """Keys without a site come while nothing is pending."""
        self.finish()
        list(self.store.note(np.array(numbers, np.uint64)))
        for known in (self.known, self.kept):
            known.update({key: Value() for key in numbers if key not in known})

    @stateful.rule()
    def open_again(self) -> None:
        """What no cycle has seen is lost, and all else is kept."""
        self.store.close()
        self.store = self.make(Path(self.directory.name))
        self.forget(self.kept)

    @stateful.rule(changes=st.integers(0, 30), answer=st.booleans())
    def kill(self, changes: int, answer: bool) -> None:
        """A kill before a change on disk. Then the store is as before the cycle or as after it."""
        left = changes

        def before_change(what: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed(what)

        self.store.folder.before_change = before_change  # type: ignore[method-assign]
        answers = []
        with contextlib.suppress(Killed):
            answers += run(self.store, self.now, answer=answer)
        self.store.close()
        after = dict(self.kept)
        for one in self.unseen:
            apply(after, one)
        self.store = self.make(Path(self.directory.name))
        drained = drain(self.store)
        assert len({number for number, *_ in drained}) == len(drained)
        for number, *rest in drained:
            assert self.open[number] == tuple(rest)
        found = contents(self.store)
        assert found in (self.kept, after)
        self.forget(found)

    def forget(self, found: Known) -> None:
        """Go on with what a store knows, as a crawl that replays its logs."""
        self.take([one for one in drain(self.store) if one[0] in self.open])
        self.known, self.kept = dict(found), dict(found)
        self.unseen, self.open = [], {}

    def teardown(self) -> None:
        self.finish()
        self.store.close()
        self.directory.cleanup()


@EACH
def test_stores_against_a_dict(make: Make) -> None:
    machine = type("Machine", (Machine,), {"make": staticmethod(make)})
    stateful.run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine, settings=settings(max_examples=25, stateful_step_count=12)
    )


def numbered(numbers: range) -> list[Entry]:
    return [
        Entry(n, name, f"http://{name}/{n}", CHECK | UPDATE, Value(links=1))
        for n in numbers
        for name in [NAMES[n % len(NAMES)]]
    ]


@EACH
def test_each_input_is_new_once(make: Make, tmp_path: Path) -> None:
    store, answers = make(tmp_path), []
    for cycle in range(10):
        submit(store, numbered(range(cycle * 10, cycle * 10 + 30)))
        answers += run(store)
    answers += drain(store)
    new = [text for _, text, is_new, _ in answers if is_new]
    assert len(answers) == 300
    assert sorted(new) == sorted({text for _, text, *_ in answers})
    store.close()


@EACH
def test_kill_at_every_change_on_disk(make: Make, tmp_path: Path) -> None:
    """A process of its own is killed. The next one opens what it has left."""
    first, second = numbered(range(40)), numbered(range(20, 60))
    before = {one.key: Value(links=1) for one in first}
    after = before | {one.key: Value(links=1) for one in second}
    after |= {one.key: Value(links=2) for one in first[20:]}
    killed = states = 0
    while True:
        path = tmp_path / str(killed)
        store = make(path)
        submit(store, first)
        list(run(store))
        store.close()
        pid = os.fork()
        if not pid:
            cycle_until_killed(make, path, second, killed)
        if os.waitpid(pid, 0)[1] == 0:
            break
        store = make(path)
        drain(store)
        found = {key: value.links for key, value in contents(store).items()}
        store.close()
        assert found in tuple({k: v.links for k, v in one.items()} for one in (before, after))
        states |= 1 if len(found) == len(before) else 2
        killed += 1
    assert killed > 3
    assert states == 3 or (states == 1 and "native" in str(make))


def cycle_until_killed(make: Make, path: Path, entries: list[Entry], changes: int) -> None:
    """Run a cycle in this process, which is killed before its next change after so many."""

    def before_change(what: str) -> None:
        nonlocal changes
        changes -= 1
        if changes < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        store = make(path)
        submit(store, entries)
        store.folder.before_change = before_change  # type: ignore[method-assign]
        list(run(store))
        os._exit(0)
    finally:
        os._exit(1)


@EACH
def test_damage_is_noticed(make: Make, tmp_path: Path) -> None:
    """A wrong byte in any file, in the middle or at the end, and a file that is too short."""
    store = make(tmp_path)
    for start in (0, 20):
        submit(store, numbered(range(start, start + 40)))
        list(run(store))
    store.close()
    for path in list(tmp_path.iterdir()):
        whole = path.read_bytes()
        for place in (len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert is_damaged(make, tmp_path), path
        path.write_bytes(whole[:-1])
        assert is_damaged(make, tmp_path), path
        path.write_bytes(whole)


def is_damaged(make: Make, path: Path) -> bool:
    saved = {one: one.read_bytes() for one in path.iterdir()}
    try:
        store = make(path)
        try:
            submit(store, numbered(range(6)))
            drain(store)
            contents(store)
        finally:
            store.close()
    except DamagedStoreError:
        return True
    finally:
        for one in path.iterdir():
            one.unlink()
        for one, content in saved.items():
            one.write_bytes(content)
    return False


def test_a_store_of_another_kind_is_refused(tmp_path: Path) -> None:
    Veuniq(tmp_path, 3).close()
    store = Drum(tmp_path, 1)  # nothing was written yet
    submit(store, numbered(range(5)))
    drain(store)
    store.close()
    with pytest.raises(DamagedStoreError, match="names a store 'drum 1', not 'veuniq 3 keys'"):
        Veuniq(tmp_path, 3)
