"""The files of a store that answers late, and which of them count.

A store changes its files in *cycles*. A cycle writes new files as a whole (`files`), and appends to
others (`buckets`). At its end `Folder.commit` replaces the manifest, which names the files that
count, with their lengths. So after a kill at any moment the store is as before the cycle or as
after it: a folder that is opened removes the files that its manifest doesn't name, and cuts off
what was appended after the last commit. In the same way a cycle that found no room on the disk is
undone, and tried again (`Folder.change`).
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from crawler.ports import NoRoomError
from crawler.session import no_room_told, told_with
from crawler.stores.files import DamagedStoreError, Kind, reading, writing

T = TypeVar("T")
Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_LOG = logging.getLogger("crawler")
_MANIFEST: Final = "manifest"
_MANIFEST_KIND: Final = Kind(b"LATE", 1)
_REPOSITORY_KIND: Final = Kind(b"REPO", 1)
_WAIT_S: Final = 0.001


class FileState(msgspec.Struct, array_like=True, frozen=True):
    """What the manifest says of a file."""

    bytes: int
    records: int


class Manifest(msgspec.Struct, array_like=True):
    """The state of a store between two cycles."""

    kind: str  # of the store, with all on which its files depend
    files: dict[str, FileState] = {}  # by name
    cycles: int = 0  # so far; the files that a cycle begins have this number in their names
    turn: int = 0  # the repository whose turn comes next (VEUNIQ)


class NewFile:
    """A file that a cycle writes from its start to its end."""

    def __init__(self, folder: "Folder", name: str) -> None:
        self.name = name
        self._folder = folder
        self._records = 0
        folder.before_change(f"begin {name}")
        self._context = writing(folder.path / name, _REPOSITORY_KIND)
        self._writer = self._context.__enter__()
        folder.unfinished = self

    def write(self, piece: Array, records: int) -> None:
        """Append a piece that holds so many records. Raises NoRoomError or OSError."""
        self._records += records
        self._folder.before_change(f"write to {self.name}")
        path = self._folder.path / self.name
        with told_with(path), no_room_told(path):
            self._writer.write(as_bytes(piece))
        self._folder.written[self.name[0]] += piece.nbytes

    def finish(self) -> Iterator[None]:
        """Force the file to disk and close it, in steps. The next commit makes it count."""
        self._folder.before_change(f"finish {self.name}")
        self._folder.unfinished = None
        yield from self._folder.in_thread(lambda: self._context.__exit__(None, None, None))
        size = (self._folder.path / self.name).stat().st_size
        self._folder.manifest.files[self.name] = FileState(size, self._records)

    def drop(self, error: Exception) -> None:
        """Remove the file, because of an error."""
        with suppress(type(error)):
            self._context.__exit__(type(error), error, None)


class Folder:
    """The folder of one store. `read` and `written` count bytes, by the first letter of files."""

    def __init__(self, path: Path, kind: str) -> None:
        """Open the store in a folder, or begin an empty one.

        Raises DamagedStoreError if the folder holds a store of another kind, or a damaged one.
        """
        self.path = path
        self.manifest = Manifest(kind)
        self.read: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.unfinished: NewFile | None = None
        self.has_room = True  # on the disk, as far as is known
        self._threads = ThreadPoolExecutor(1)
        path.mkdir(parents=True, exist_ok=True)
        if (path / _MANIFEST).exists():
            self._open(kind)
        self._tidy()

    def _open(self, kind: str) -> None:
        path = self.path / _MANIFEST
        content = b"".join(reading(path, _MANIFEST_KIND))
        try:
            self.manifest = msgspec.msgpack.decode(content, type=Manifest)
        except msgspec.DecodeError as error:
            raise DamagedStoreError(path, str(error)) from error
        if self.manifest.kind != kind:
            raise DamagedStoreError(path, f"names a store {self.manifest.kind!r}, not {kind!r}")

    def _tidy(self) -> None:
        """Remove what a broken-off cycle has left. Raises DamagedStoreError if a file is short."""
        for path in self.path.iterdir():
            if path.name not in self.manifest.files and path.name != _MANIFEST:
                path.unlink()
        for name, state in self.manifest.files.items():
            path = self.path / name
            found = path.stat().st_size if path.exists() else 0
            if found < state.bytes:
                raise DamagedStoreError(path, f"has {found} bytes instead of {state.bytes}")
            if is_bucket(name) and found > state.bytes:
                os.truncate(path, state.bytes)

    def change(self, attempt: Callable[[], Iterator[T]]) -> Iterator[T | None]:
        """Change files in steps: all or nothing, up to a commit, which is the last step.

        If the disk has no room, all is undone, and the next step tries `attempt` again. Meanwhile
        `has_room` is false. Raises OSError.
        """
        before = msgspec.structs.replace(self.manifest, files=dict(self.manifest.files))
        while True:
            try:
                yield from attempt()
            except NoRoomError as error:
                if self.has_room:
                    _LOG.warning("no room: %s; URLs wait to be known as new or seen", error)
                self.has_room = False
                self._drop_unfinished(error)
                self.manifest = msgspec.structs.replace(before, files=dict(before.files))
                self._tidy()
                yield None
            else:
                if not self.has_room:
                    _LOG.warning("there is room again for seen URLs")
                self.has_room = True
                return

    def state(self, name: str) -> FileState:
        """Return what is known of a file; nothing is known of a file that doesn't count."""
        return self.manifest.files.get(name, FileState(0, 0))

    def append(self, name: str, parts: list[Array], records: int) -> None:
        """Append to a file that grows. Raises NoRoomError or OSError."""
        self.before_change(f"append to {name}")
        path = self.path / name
        with told_with(path), no_room_told(path), path.open("ab", buffering=0) as file:
            for part in parts:
                rest = as_bytes(part)
                while rest:
                    rest = rest[file.write(rest) :]
        added = sum(part.nbytes for part in parts)
        self.written[name[0]] += added
        old = self.state(name)
        self.manifest.files[name] = FileState(old.bytes + added, old.records + records)

    def read_bucket(self, name: str) -> Bytes:
        """Return the content of a file that grows, as far as it counts. Raises OSError."""
        size = self.state(name).bytes
        if not size:
            return np.zeros(0, np.uint8)
        self.read[name[0]] += size
        with told_with(self.path / name):
            return np.fromfile(self.path / name, np.uint8, size)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Give a file that was written as a whole, in pieces of a megabyte.

        Raises DamagedStoreError, perhaps only after the last piece.
        """
        if name in self.manifest.files:
            for piece in reading(self.path / name, _REPOSITORY_KIND):
                self.read[name[0]] += len(piece)
                yield piece

    def commit(self, obsolete: list[str]) -> Iterator[None]:
        """Make the files of `manifest` count, without the obsolete ones, and remove those."""
        obsolete = [name for name in obsolete if self.manifest.files.pop(name, None)]
        self.manifest.cycles += 1
        content = msgspec.msgpack.encode(self.manifest)
        self.before_change("write the manifest")
        yield from self.in_thread(lambda: self._write_manifest(content))
        self.written["m"] += len(content)
        for name in obsolete:
            self.before_change(f"remove {name}")
            (self.path / name).unlink()

    def _write_manifest(self, content: bytes) -> None:
        path = self.path / _MANIFEST
        try:
            with writing(path, _MANIFEST_KIND) as file:
                file.write(content)
        except NoRoomError:
            # Perhaps only the new name isn't on the disk yet. Then the change counts.
            if not path.exists() or b"".join(reading(path, _MANIFEST_KIND)) != content:
                raise

    def in_thread(self, call: Callable[[], object]) -> Iterator[None]:
        """Make a call that takes long, so that nothing else waits for it."""
        future = self._threads.submit(call)
        while not future.done():
            wait([future], _WAIT_S)
            yield
        future.result()

    def before_change(self, what: str) -> None:
        """Tests kill a store here, before each change on disk."""

    def _drop_unfinished(self, error: Exception) -> None:
        if self.unfinished is not None:
            self.unfinished.drop(error)
            self.unfinished = None

    def close(self) -> None:
        """End the thread, and remove a file that isn't finished."""
        self._threads.shutdown()
        self._drop_unfinished(OSError("closed"))


def is_bucket(name: str) -> bool:
    """Whether a file grows by blocks (`buckets`). Others are written as a whole."""
    return name[0] in "kat"


def as_bytes(array: Array) -> memoryview:
    """Return the bytes of an array."""
    return array.data.cast("B") if array.nbytes else memoryview(b"")
