"""Sorted runs on disk, against a set; with kills at every change of a file, and full disks."""

import errno
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.stores import files
from crawler.stores.files import DamagedStoreError
from crawler.stores.runs import RunStore
from crawler.stores.sorted_run import merged

KEYS = st.integers(0, 40) | st.integers(0, 2**64 - 1) | st.just(2**64 - 1)
BATCHES = st.lists(st.lists(KEYS, max_size=30), max_size=30)


def opened(directory: Path) -> RunStore:
    return RunStore(directory, table_keys=5, cache_keys=8)


def fill(store: RunStore, first: int, last: int) -> None:
    """Meet keys, a page of four at a time."""
    for start in range(first, last, 4):
        unmet = store.unmet(range(start, start + 4))
        for key in range(start, min(start + 4, last)):
            unmet.discard(key)
        store.settle()


@settings(max_examples=60)
@given(pages=BATCHES, waits=st.booleans())
def test_runs_know_every_key_ever_met(
    pages: list[list[int]], waits: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("runs")
    store, model = opened(directory), set[int]()
    for page in pages:
        unmet = store.unmet(iter(page))
        for key in page:
            assert (key in unmet) == (key not in model)
            unmet.discard(key)
            model.add(key)
            assert key in store
        if waits:
            store.settle()
        assert len(store) == len(model)
    store.flush()
    assert sorted(store) == sorted(model)
    store.close()
    again = opened(directory)
    assert sorted(again) == sorted(model)
    again.update(range(50))
    again.update(model)
    assert len(again) == len(model | set(range(50)))
    again.close()
    shutil.rmtree(directory)


def test_runs_are_sorted_and_merged_by_eight(tmp_path: Path) -> None:
    store = opened(tmp_path)
    draw = np.random.default_rng(1)
    keys = draw.integers(0, 2**64, 3000, dtype=np.uint64).tolist()
    for start in range(0, len(keys), 6):
        store.update(keys[start : start + 6])
    store.settle()
    assert len(store._runs) < 25  # of 500 tables
    assert len(store) == len(keys)
    for run in store._runs:
        parts = np.concatenate(list(merged([run])))
        assert len(parts) == run.keys
        assert (np.diff(parts.astype(object)) > 0).all()
    assert store.unmet(key ^ 1 for key in keys) == {key ^ 1 for key in keys}
    assert not store.unmet(keys)
    assert sorted(int(path.name) for path in tmp_path.glob("0*")) == sorted(
        int(run.path.name) for run in store._runs
    )
    store.close()


def test_a_merge_makes_no_run_that_is_too_large(tmp_path: Path) -> None:
    """Its filter and index are in memory beside those of the runs that it replaces."""
    store = opened(tmp_path)
    for start in range(0, 350, 5):
        store.update(range(start, start + 5))
    store.settle()
    assert 200 < max(run.keys for run in store._runs) <= 250  # 50 tables
    assert not store.unmet(range(350))
    store.close()


def test_large_runs_are_found_again(tmp_path: Path) -> None:
    """With an index of more than 16 bits, and a merge in several steps."""
    store = RunStore(tmp_path, table_keys=300_000, cache_keys=1000)
    keys = np.random.default_rng(2).integers(0, 2**64, 2_400_000, dtype=np.uint64)
    for start in range(0, len(keys), 300_000):
        store.update(keys[start : start + 300_000].tolist())
    store.flush()
    assert max(run.keys for run in store._runs) == len(keys)
    asked = keys[::5].tolist()
    assert not store.unmet(asked)
    other = (keys[::5] + np.uint64(1)).tolist()
    assert store.unmet(other) == set(other)
    assert store.nbytes() < 2 * len(keys) + (2 << 20) + 8000
    store.close()
    again = RunStore(tmp_path, table_keys=300_000, cache_keys=1000)
    assert not again.unmet(asked)
    assert sum(len(part) for part in merged(again._runs)) == len(keys)
    again.close()


# --- kills, full disks, damage ----------------------------------------------------------------


class KilledError(BaseException):
    """Stands for kill -9: nothing more is done to the files."""


class Breaking:
    """Lets the changes of files go on until a number of them is done."""

    def __init__(self, patch: pytest.MonkeyPatch, error: Callable[[], BaseException]) -> None:
        self.left = 10**9
        self.done = 0
        self._error = error
        for owner, name in (
            (files.ContentWriter, "_put"),
            (files.ContentWriter, "end"),
            (files, "sync_directory"),
            (Path, "replace"),
            (Path, "unlink"),
        ):
            patch.setattr(owner, name, self._guarded(getattr(owner, name)))

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **how: Any) -> Any:
            if self.done >= self.left:
                raise self._error()
            self.done += 1
            return call(*args, **how)

        return guarded


class StepByStep(ThreadPoolExecutor):
    """A thread whose every call ends before the caller goes on, so that all runs are the same."""

    def submit(self, *args: Any, **how: Any) -> Future[Any]:
        future = super().submit(*args, **how)
        wait([future])
        return future


def kills(directory: Path) -> Iterator[tuple[int, set[int]]]:
    """For each change of a file: its number, and the keys after a kill before that change."""
    base = directory / "base"
    store = opened(base)
    fill(store, 0, 56)
    store.flush()
    assert len(store._runs) == 7  # the next one begins a merge
    store.close()
    number, killed = 0, True
    while killed:
        copy = directory / str(number)
        shutil.copytree(base, copy)
        with pytest.MonkeyPatch.context() as patch:
            breaking = Breaking(patch, KilledError)
            store = opened(copy)
            store._thread = StepByStep(1)
            breaking.left = breaking.done + number
            try:
                fill(store, 56, 68)
                store.flush()
            except KilledError:
                killed = True
            else:
                killed = False
            store._thread.shutdown()
        again = opened(copy)
        yield number, set(again)
        again.close()
        shutil.rmtree(copy)
        number += 1


def test_after_a_kill_the_store_is_as_before_a_write_or_as_after(tmp_path: Path) -> None:
    before = 56
    states = []
    for _, keys in kills(tmp_path):
        assert keys == set(range(len(keys)))
        assert len(keys) >= before  # a later kill loses no more
        before = len(keys)
        states.append(len(keys))
    assert states[-1] == 68
    assert len(set(states)) >= 3
    assert len(states) > 40


def test_on_a_full_disk_keys_stay_in_memory(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        breaking = Breaking(patch, lambda: OSError(errno.ENOSPC, "No space left on device"))
        store = opened(tmp_path)
        fill(store, 0, 20)
        breaking.left = 0
        store.update(range(20, 30))
        store.update(range(20, 30))
        store.add(30)
        store.flush()
        assert store.unmet(range(40)) == set(range(31, 40))
        breaking.left = 10**9
        store.flush()
    assert store._frozen is None
    assert store.unmet(range(40)) == set(range(31, 40))
    store.close()
    assert sorted(opened(tmp_path)) == list(range(31))


def test_a_damaged_store_says_that_it_must_be_rebuilt(tmp_path: Path) -> None:
    store = opened(tmp_path / "runs")
    fill(store, 0, 20)
    store.flush()
    store.close()
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(names) > 2
    for name in names:
        for damage in (bytes, lambda content: content[:-1], lambda content: b"?" + content[1:]):
            copy = tmp_path / "copy"
            shutil.copytree(tmp_path / "runs", copy)
            content = (copy / name).read_bytes()
            (copy / name).write_bytes(damage() if damage is bytes else damage(content))
            with pytest.raises(DamagedStoreError, match="must be rebuilt from the logs"):
                opened(copy)
            shutil.rmtree(copy)


def test_files_that_no_manifest_names_are_removed(tmp_path: Path) -> None:
    (tmp_path / "00000007").write_bytes(b"of a write that was killed")
    store = opened(tmp_path)
    assert not list(tmp_path.iterdir())
    assert not len(store)
    store.close()
