"""Stores on disks that are full or fail, at every call that writes."""

import errno
import os
from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from test_late_stores import STORES, Make, contents, drain, numbered, run, submit

from crawler.session import failed_file
from crawler.stores import files, folder
from crawler.stores.batch_store import BatchStore

WRITES = (
    (files.ContentWriter, "_put"),
    (files.ContentWriter, "end"),
    (folder, "as_bytes"),  # called right before each write, so blocks of buckets are torn
    (os, "fsync"),
    (Path, "replace"),
)

SOME = ("drum, native", "veuniq, the fullest", "veuniq, texts")
EACH = pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, marks=[] if name in SOME else pytest.mark.slow, id=name)
        for name, make in STORES.items()
    ],
)


class Disk:
    """A disk that fails from the call numbered `first` on, for `times` calls that write."""

    def __init__(self, patch: pytest.MonkeyPatch, code: int) -> None:
        self.first, self.times, self.failed = 10**9, 3, 0
        self._calls = 0
        self._code = code
        patch.setattr(os, "fsync", lambda descriptor: None)
        for owner, name in WRITES:
            patch.setattr(owner, name, self._guarded(getattr(owner, name)))

    def fail(self, first: int) -> None:
        self._calls, self.first = 0, first

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **how: Any) -> Any:
            self._calls += 1
            if self._calls > self.first and self.failed < self.times:
                self.failed += 1
                raise OSError(self._code, os.strerror(self._code))
            return call(*args, **how)

        return guarded


def filled(make: Make, path: Path) -> BatchStore:
    """A store that knows some URLs, and has more to find out about others."""
    store = make(path)
    submit(store, numbered(range(40)))
    list(run(store))
    submit(store, numbered(range(20, 60)))
    return store


def check(store: BatchStore) -> tuple[list[Any], dict[int, Any]]:
    """All answers that a store still owes, and what it knows then."""
    return sorted(drain(store)), contents(store)


@EACH
def test_a_cycle_without_room_goes_on_when_there_is_some(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every answer comes once, and as on a disk with room."""
    store = filled(make, tmp_path / "healthy")
    expected, total = check(store), 0
    store.close()
    for first, code in zip(count(), cycle((errno.ENOSPC, errno.EDQUOT, errno.EROFS))):
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, code)
            store = filled(make, tmp_path / str(first))
            caplog.clear()
            disk.fail(first)
            assert check(store) == expected
            assert store.folder.has_room
            assert not list(store.folder.path.glob("*.new"))
            store.close()
        # If only the name of the manifest can't be forced to disk, the cycle counts.
        told = caplog.text.count(f"no room: {tmp_path / str(first)}")
        assert caplog.text.count("is room again") == told <= bool(disk.failed)
        total += told
        if not disk.failed:
            break
    assert 8 < total >= first - 2


@EACH
def test_a_broken_disk_is_told_with_its_file(make: Make, tmp_path: Path) -> None:
    """The crawl ends in one line. The store is then as before the cycle, or as after it."""
    for first in count():
        path = tmp_path / str(first)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, errno.EIO)
            disk.times = 1
            store = filled(make, path)
            disk.fail(first)
            try:
                drain(store)
            except OSError as error:
                told = failed_file(error, tmp_path)
                assert told is not None
                assert told.endswith(os.strerror(errno.EIO))
            store.close()
        store = make(path)
        drain(store)
        assert len(contents(store)) in {40, 60}
        store.close()
        if not disk.failed:
            break
    assert first > 8
