"""The two ways to write a file of a session: append to it, or replace it as a whole."""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from crawler.ports import NoRoomError, UserError

_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
LACKS_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))


class AppendFile:
    """A new file that grows by whole pieces. If an error occurs, the file stays as it was.

    Once `append` or `flush` returns, the pieces survive a kill of the process. They survive a crash
    of the machine only after `sync`. The file is locked while it is open, so that others can see
    that its writer lives (`is_open`). Raises FileExistsError if the file exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.size = 0  # with the pieces that wait
        self._waiting: list[bytes] = []
        self._is_synced = True
        with no_room_told(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with _where_there_are_locks():
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, piece: bytes) -> int:
        """Write what waits, and a piece behind it. Returns the offset of the piece.

        Raises NoRoomError if the write may succeed later, or OSError. After either, the piece isn't
        in the file, and doesn't wait.
        """
        self.flush()
        start = self.size
        self._write(piece, start)
        self.size = start + len(piece)
        return start

    def add(self, piece: bytes) -> int:
        """Let a piece wait for the next `flush`. Returns its offset."""
        start = self.size
        self._waiting.append(piece)
        self.size = start + len(piece)
        return start

    def flush(self) -> None:
        """Write what waits, by a single write.

        Raises NoRoomError if the write may succeed later, or OSError. After either, it still waits.
        """
        if self._waiting:
            pieces = b"".join(self._waiting)
            self._write(pieces, self.size - len(pieces))
            self._waiting.clear()

    @property
    def written(self) -> int:
        """Return the size of the file without the pieces that wait."""
        return self.size - sum(map(len, self._waiting))

    def _write(self, pieces: bytes, start: int) -> None:
        written = 0
        self._is_synced = False
        try:
            while written < len(pieces):  # mostly all is written at once
                rest = pieces[written:] if written else pieces
                written += os.pwrite(self._fd, rest, start + written)
        except BaseException:
            # The next write begins at `start`, so it overwrites a torn piece even if this fails.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            with told_with(self.path), no_room_told(self.path):
                raise

    def sync(self) -> None:
        """Force all written pieces to disk, if they aren't there.

        An OSError is final, even if the disk is full: any piece since the last `sync` may be lost.
        """
        if not self._is_synced:
            with told_with(self.path):
                os.fsync(self._fd)
            self._is_synced = True

    def close(self) -> None:
        """Sync and close the file. What still waits is lost. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                with told_with(self.path):
                    os.fsync(fd)
            finally:
                os.close(fd)


@contextlib.contextmanager
def told_with(path: Path) -> Iterator[None]:
    """Add a path to an OSError that names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def failed_file(error: BaseException, directory: Path) -> str | None:
    """Return the file in the directory on which a disk error occurred, and the error, as text.

    A group of errors is searched. Returns None for errors of other kinds.
    """
    if isinstance(error, BaseExceptionGroup):
        found = [failed_file(one, directory) for one in error.exceptions]
        return None if None in found else found[0]
    if isinstance(error, OSError) and Path(str(error.filename)).is_relative_to(directory):
        return f"{error.filename}: {error.strerror}"
    return None


def is_no_room(error: OSError) -> bool:
    """Whether an error means that the disk or the quota is full, or the disk is read-only."""
    return error.errno in _NO_ROOM


def is_open(path: Path) -> bool:
    """Whether a process, here or on another node, has the file open as an AppendFile.

    Returns False on a file system without locks.
    """
    with path.open("rb") as file, _where_there_are_locks():
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a new file, which replaces `path` at the end of the context, once it is on disk.

    `durable`: false for a file that needn't survive a crash of the machine; then nothing waits for
    the disk. If `path` is a symbolic link, the link is replaced and not its target. Raises
    NoRoomError or OSError; the old file stays then.
    """
    new = path.with_name(f"{path.name}.new")
    with told_with(path), no_room_told(path):
        new.unlink(missing_ok=True)  # a kill may have left such a file, with another mode
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with open(new, "xb", opener=lambda name, _: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


def unfinished(path: Path) -> Path:
    """Return the path under which a file of a table is written, until `finish_file`.

    It begins with a dot, so readers of the table's directory pass over it. What a kill has left
    there is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # an old file there may be a symbolic link
    return new


def sync_file(path: Path) -> None:
    """Force a file to disk that another library has written."""
    with told_with(path), path.open("rb") as file:
        os.fsync(file.fileno())


def finish_file(path: Path) -> None:
    """Let the file at `unfinished(path)`, which is on disk, replace the one at the path."""
    path.with_name(f".{path.name}.new").replace(path)


@contextlib.contextmanager
def mistakes_told(about: str = "") -> Iterator[None]:
    """Turn an OSError that the user can do something about into a UserError of one line.

    This is meant for files that are used before a crawl, or by commands of one process.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        where = error.filename or about
        if not where and error.errno not in {errno.EMFILE, errno.ENFILE}:
            raise
        kind = NoRoomError if is_no_room(error) else UserError
        raise kind(f"{where}: {error.strerror}".removeprefix(": ")) from error


@contextlib.contextmanager
def no_room_told(path: Path) -> Iterator[None]:
    """Turn an OSError about a full disk into a NoRoomError that names the file."""
    try:
        yield
    except OSError as error:
        if not is_no_room(error):
            raise
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(path.parent).free / 1e6
            raise NoRoomError(f"{path}: {error.strerror} ({free:,.1f} MB free)") from error
        raise NoRoomError(f"{path}: {error.strerror}") from error


@contextlib.contextmanager
def _where_there_are_locks() -> Iterator[None]:
    """Ignore an OSError that says that the file system has no locks, as on some clusters."""
    try:
        yield
    except OSError as error:
        if error.errno not in LACKS_LOCKS:
            raise
