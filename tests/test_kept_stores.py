"""Stores whose files stay from run to run: which keys the next run knows, after any damage."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler import config, url
from crawler.agent.stores import Stores
from crawler.core.seen import Candidate, LateSeen
from crawler.ports import CrawlUrl
from crawler.session import replacing
from crawler.stores.files import DamagedStoreError

KINDS = ("runs", "drum", "veuniq")
EACH = pytest.mark.parametrize("kind", KINDS)
Kept = dict[str, tuple[int, bytes]]


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill of a process leaves doesn't depend on what is forced to disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def made(kind: str, root: Path, run: int) -> Stores:
    settings = config.Seen(store=kind, memory=16 << 20, repositories=3)
    return Stores(settings, root, run)


def meet(stores: Stores, numbers: range) -> set[int]:
    """Meet URLs, and finish finding out which are new. Returns the keys of those."""
    seen, new = stores.seen, set()
    for number in numbers:
        text = f"http://s{number % 7}.example/{number}"
        found = CrawlUrl(url.key(text), text, url.site(text), 0)
        if isinstance(seen, LateSeen):
            seen.submit(Candidate(found, None), 0)
        elif found.key not in seen:
            seen.add(found.key)
            new.add(found.key)
    while isinstance(seen, LateSeen) and seen.pending:
        new |= {one.found.key for one, is_new in seen.take_answers(0, hurry=True) if is_new}
    return new


def left(kind: str, root: Path, numbers: range = range(40)) -> tuple[Kept, set[int]]:
    """What a snapshot names after a run that has met URLs, and their keys."""
    stores = made(kind, root, 0)
    keys = meet(stores, numbers)
    assert stores.keep(stores.seen)
    stores.stays = True
    stores.close()
    return stores.kept, keys


@EACH
@pytest.mark.parametrize("other", ["same", "memory", *KINDS])
def test_the_next_run_knows_the_same_keys(kind: str, other: str, tmp_path: Path) -> None:
    kept, keys = left(kind, tmp_path)
    other = kind if other == "same" else other
    home = "0"
    for run in (1, 2):
        stores = made(other, tmp_path, run)
        stores.go_on_with(stores.open(kept))
        folders = {path.parent.name for path in tmp_path.glob("*/met")}
        home = home if other == kind else str(run)  # of the files
        assert folders <= {home}
        keys |= meet(stores, range(30, 30 + 20 * run))
        assert len(keys) == 30 + 20 * run
        assert stores.keep(stores.seen) is (other != "memory")
        assert set(stores.seen) == keys
        kept, stores.stays = stores.kept, True
        stores.close()
        if other == "memory":
            assert not tmp_path.exists()
            break
        kind = other


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def linked(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@EACH
@pytest.mark.parametrize("damage", [flipped, cut, Path.unlink, linked])
def test_damaged_files_are_never_believed(
    kind: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    kept, _ = left(kind, tmp_path / "whole")
    names = [path.relative_to(tmp_path / "whole") for path in tmp_path.glob("whole/0/met/*")]
    assert len(names) >= 2
    for number, name in enumerate(names):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", root)
        damage(root / name)
        stores = made(kind, root, 1)
        with pytest.raises(DamagedStoreError, match="must be rebuilt from the logs"):
            stores.open(kept)
        stores.go_on_with({})
        assert not list(stores.seen)
        assert [path.parent.name for path in root.glob("*/met")] == ["1"]
        stores.close()


@EACH
def test_files_of_another_crawl_are_never_believed(kind: str, tmp_path: Path) -> None:
    """They have the same names, and are whole."""
    kept, _ = left(kind, tmp_path / "a")
    left(kind, tmp_path / "b", range(5, 45))
    for path in tmp_path.glob("a/0/met/*"):
        foreign = tmp_path / "b" / path.relative_to(tmp_path / "a")
        if path.name != "manifest" and foreign.exists():
            shutil.copy(foreign, path)
    stores = made(kind, tmp_path / "a", 1)
    with pytest.raises(DamagedStoreError, match="not the file that the snapshot names"):
        stores.open(kept)
    stores.close()


# --- kills ------------------------------------------------------------------------------------


def kill_before(change: int) -> None:
    """Let this process be killed before the change of files with this number."""
    left = change

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def changing(*args: Any, **how: Any) -> Any:
            nonlocal left
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return call(*args, **how)

        return changing

    for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "truncate"):
        setattr(os, name, guarded(getattr(os, name)))


def killed_at_each_change(act: Callable[[], None]) -> Iterator[int]:
    """Act in processes that are killed, each at a later change, and in one that isn't."""
    change = killed = 0
    while not killed or change <= killed:
        pid = os.fork()
        if not pid:
            try:
                kill_before(change)
                act()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        assert status in {0, signal.SIGKILL}
        yield change
        if status == 0:
            break
        change += 1
        killed = change


@EACH
def test_a_snapshot_names_whole_files_after_a_kill_at_any_moment(kind: str, tmp_path: Path) -> None:
    """The run is killed while it ends, and the next one while it begins."""
    expected = left(kind, tmp_path / "expected")[1]

    def end() -> None:
        stores = made(kind, root, 0)
        meet(stores, range(40))
        stores.keep(stores.seen)
        with replacing(root / "snapshot") as file:
            file.write(msgspec.msgpack.encode(stores.kept))
        stores.stays = True
        stores.close()

    def begin() -> None:
        stores = made(kind, root, 1)
        stores.go_on_with(stores.open(kept))

    root, snapshots = tmp_path / "0", 0
    root.mkdir()
    for change in killed_at_each_change(end):
        if (root / "snapshot").exists():
            snapshots += 1
            kept = msgspec.msgpack.decode((root / "snapshot").read_bytes(), type=Kept)
            for _ in killed_at_each_change(begin) if snapshots == 1 else [0]:
                stores = made(kind, root, 2)
                stores.go_on_with(stores.open(kept))
                assert set(stores.seen) == expected
                stores.seen.end()
        root = tmp_path / str(change + 1)
        root.mkdir()
    assert 0 < snapshots <= change
