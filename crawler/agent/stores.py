"""What a rank remembers of URLs: its two stores of keys, and what stays of them after a stop.

The files of the stores are in a folder for each run of the session. If the rank leaves a snapshot,
the files of stores on disk stay. The snapshot names them with their lengths and checksums, and
leaves out their keys (`stores.files.Generation`). The next run checks the files, goes on with them,
and removes all others. If it has another kind of store, it reads the keys from the files.

Until the run leaves a snapshot of its own, the snapshot that it began with counts: after a kill the
next run begins with it again. So the files that it names get second names (hard links) in another
folder, the *base*, before the run changes anything.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from crawler import config
from crawler.core.budget import Budget
from crawler.core.seen import LateSeen
from crawler.stores.auto import AutoStore, load_runs
from crawler.stores.files import RUNS, DamagedStoreError, Generation, check_generation
from crawler.stores.memory import MemoryStore

if TYPE_CHECKING:  # they import numba
    from crawler.stores.batch_store import BatchStore
    from crawler.stores.late import LateStore
    from crawler.stores.runs import RunStore

_LOG = logging.getLogger("crawler")
_MET: Final = "met"
_SENT: Final = "sent"
_STEP: Final = 1 << 20  # keys that go from one store to another at a time


class Kept(NamedTuple):
    """A store of an earlier run, opened."""

    run: int
    kind: str
    store: "RunStore | BatchStore"


class Stores:
    """The stores of a rank, both empty at first."""

    def __init__(self, settings: config.Seen, root: Path, run: int = 0) -> None:
        """`root`: a folder for the files of all runs. `run`: the number of this run."""
        if root.is_symlink():
            root.unlink()
        self._settings = settings
        self._root = root
        self._runs = {_MET: run, _SENT: run}  # the runs that have begun the files
        self.kept: dict[str, tuple[int, bytes]] = {}  # for a snapshot: by name, run and generation
        self._base: set[Path] = set()  # folders with the files that the last snapshot names
        self.stays = False  # whether a snapshot names the files, so that they must stay
        self.seen: MemoryStore | AutoStore | LateStore  # URLs that the rank has met as their owner
        self.sent: MemoryStore | AutoStore  # URLs that it has sent
        if settings.store == "memory":
            self.seen, self.sent = MemoryStore(), MemoryStore()
            return
        at_once = settings.store == "runs"
        make = partial(AutoStore, most_bytes=settings.memory, at_once=at_once)
        self.sent = make(self._folder(_SENT, run))
        if settings.store in {"auto", "runs"}:
            self.seen = make(self._folder(_MET, run))
        else:
            from crawler.stores.late import open_store  # noqa: PLC0415 (it imports numba: a second)

            self.seen = open_store(settings, self._folder(_MET, run))

    def _folder(self, name: str, run: int) -> Path:
        return self._root / str(run) / name

    def register(self, budget: Budget) -> None:
        """Register what the stores take, and those that can move to disk."""
        for name, store in (("seen", self.seen), ("sent", self.sent)):
            give = store.give if isinstance(store, AutoStore) else None
            budget.add(name, store.nbytes, give)

    def close(self) -> None:
        """Close the stores, and remove the files that no snapshot names."""
        if not self.stays:
            self.seen.close()
            self.sent.close()
            self._remove_all_but(self._base)
            return
        self.seen.end()
        self.sent.end()
        self._remove_all_but({self._folder(name, run) for name, (run, _) in self.kept.items()})

    def forget_base(self) -> None:
        """Have `close` also remove the files that the last snapshot names."""
        self._base.clear()

    def _remove_all_but(self, used: set[Path]) -> None:
        for path in self._root.glob("*/*"):
            if path not in used:
                shutil.rmtree(path, ignore_errors=True)
        for path in (*self._root.glob("*"), self._root):
            with suppress(OSError):  # there are files in it
                path.rmdir()

    # --- from run to run ----------------------------------------------------------------------

    def keep(self, keys: Iterable[int]) -> bool:
        """Whether files hold the keys of a store. Then `kept` names the files.

        Raises NoRoomError or OSError.
        """
        for name, store in ((_MET, self.seen), (_SENT, self.sent)):
            generation = store.keep() if keys is store else None
            if generation is not None:
                self.kept[name] = self._runs[name], msgspec.msgpack.encode(generation)
                return True
        return False

    def open(self, kept: Mapping[str, tuple[int, bytes]]) -> dict[str, Kept]:
        """Open the stores that a snapshot names, and check all of their files.

        Raises OSError, for example DamagedStoreError.
        """
        opened: dict[str, Kept] = {}
        try:
            for name in (_MET, _SENT):
                if name in kept:
                    opened[name] = self._open(name, *kept[name])
        except BaseException:
            for one in opened.values():
                one.store.close()
            raise
        return opened

    def _open(self, name: str, run: int, encoded: bytes) -> Kept:
        generation = msgspec.msgpack.decode(encoded, type=Generation)
        folder, kind = self._folder(name, run), generation.kind
        base = _base_of(folder)
        for path in (folder.parent, base if base.exists() else folder):
            if path.is_symlink() or not path.is_dir():
                raise DamagedStoreError(path, "there is no such folder")
        if base.exists():  # a run that went on with the files was killed, or left no snapshot
            shutil.rmtree(folder, ignore_errors=True)
            base.rename(folder)
        check_generation(folder, generation)
        self._keep_base(folder, generation)
        if kind == RUNS:
            return Kept(run, kind, load_runs(folder, self._settings.memory))
        from crawler.stores.late import open_batch_store  # noqa: PLC0415 (it imports numba)

        return Kept(run, kind, open_batch_store(kind, folder, self._settings))

    def _keep_base(self, folder: Path, generation: Generation) -> None:
        """Give the files of a generation second names, so that they stay as they are.

        Without hard links, the files are changed, and after a kill all logs are read.
        """
        base = _base_of(folder)
        new = base.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir()
            for name in generation.files:
                os.link(folder / name, new / name)
            new.rename(base)
        except OSError as error:
            _LOG.warning("%s: %s; after a kill, all logs will be read", base, error.strerror)
            return
        self._base.add(base)

    def go_on_with(self, opened: Mapping[str, Kept], *, use: bool = True) -> None:
        """Go on with stores that `open` gave, and remove all other files of earlier runs.

        A store of another kind gets the keys. `use`: if false, the stores are closed and removed.
        """
        for name, (run, kind, old) in opened.items():
            store = self.seen if name == _MET else self.sent
            if not use:
                old.close()
                self._base.clear()
            elif store.kind == kind:
                if isinstance(store, AutoStore):
                    store.go_on_with(cast("RunStore", old))
                elif isinstance(store, LateSeen):
                    store.go_on_with(cast("BatchStore", old))
                self._runs[name] = run
            else:
                keys = iter(old)
                while some := list(islice(keys, _STEP)):
                    store.update(some)
                old.close()
        folders = {self._folder(name, run) for name, run in self._runs.items()}
        self._remove_all_but(folders | self._base)


def _base_of(folder: Path) -> Path:
    return folder.with_suffix(".base")
