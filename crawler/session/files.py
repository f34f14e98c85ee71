"""The two ways in which a session's files are written: they grow, or they are replaced whole."""

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
    """A new file that grows by whole pieces: after an error it is as if the piece had never been.

    There is no buffer of ours: once `append` returns, the piece survives a kill of the process (but
    a crash of the machine only after `sync`). While it is open, it is locked, so that others can
    see that its writer lives (`is_open`). Raises FileExistsError for a file that exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        with no_room_told(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with _where_there_are_locks():
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, piece: bytes) -> int:
        """Write the piece at the end; its offset. Raises NoRoomError if that may work later, or
        OSError, both with the file as before."""
        start = end = self.size
        rest = memoryview(piece)
        try:
            while rest:
                written = os.pwrite(self._fd, rest, end)
                rest = rest[written:]
                end += written
        except BaseException:
            # `size` hasn't moved: even if this fails too, the next piece overwrites the torn one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            with _named(self.path), no_room_told(self.path):
                raise
        self.size = end
        return start

    def sync(self) -> None:
        """Force what was appended to disk.

        An OSError is final, also for want of room: what was written since the last time may be
        lost, and no one can say what.
        """
        with _named(self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        """Sync, then close. A second time nothing happens."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                with _named(self.path):
                    os.fsync(fd)
            finally:
                os.close(fd)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an OSError say which file it is about."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def failed_file(error: BaseException, directory: Path) -> str | None:
    """The file in the directory that the disk failed on, and why, in words.

    Looks also into a group of errors. Returns None for errors of another kind.
    """
    if isinstance(error, BaseExceptionGroup):
        found = [failed_file(one, directory) for one in error.exceptions]
        return None if None in found else found[0]
    if isinstance(error, OSError) and Path(str(error.filename)).is_relative_to(directory):
        return f"{error.filename}: {error.strerror}"
    return None


def is_no_room(error: OSError) -> bool:
    """Whether this is for want of space or quota, or because all is read-only."""
    return error.errno in _NO_ROOM


def is_open(path: Path) -> bool:
    """Whether a process, here or on another node, has this as an AppendFile; no, if the file system
    has no locks."""
    with path.open("rb") as file, _where_there_are_locks():
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` once its content is whole and on disk.

    A symbolic link at `path` is replaced itself, not its target. Raises NoRoomError, or OSError;
    then the old content is left.
    """
    new = path.with_name(f"{path.name}.new")
    with _named(path), no_room_told(path):
        new.unlink(missing_ok=True)  # a kill may have left it, with another mode
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with open(new, "xb", opener=lambda name, _: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


@contextlib.contextmanager
def mistakes_told(about: str = "") -> Iterator[None]:
    """Turn an OSError about a file that the user can mend into a UserError of one line.

    This is for files that are used before a crawl, or by commands of one process.
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
    """Turn an OSError for want of room into a NoRoomError that names the file."""
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
    """Some cluster file systems are mounted without."""
    try:
        yield
    except OSError as error:
        if error.errno not in LACKS_LOCKS:
            raise
