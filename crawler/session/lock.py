"""The lock of a session: one command at a time may write to its files.

Rank 0 of a crawl, and `report`, hold an exclusive lock on SESSION/lock. A command takes the lock
before it writes anything there, and before it reads the files that it bases decisions on. Every
rank of a crawl also holds a shared lock on SESSION/lock-ranks. So the session stays locked when
rank 0 dies and the other ranks go on.

A lock ends with its process, however the process ends. SESSION/lock names the holder, for the
message to a command that is refused. A command that ends in good order removes both files.

Locks are those of flock(2). Linux passes them on to the server of an NFS file system, so they hold
between machines. On a file system without locks there is a warning, and no protection.
"""

import contextlib
import errno
import fcntl
import logging
import os
import socket
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from crawler.ports import UserError
from crawler.session.files import LACKS_LOCKS, mistakes_told, no_room_told

_LOG = logging.getLogger("crawler")
CRAWLED: Final = "is being crawled"  # what a process does with a session
REPORTED: Final = "is being reported"
EXPORTED: Final = "is being exported"
_LEADER: Final = "lock"
_RANKS: Final = "lock-ranks"
_POLL_S: Final = 0.1
_CONTENT_BYTES: Final = 4096
PATIENCE_S: Final = 5.0  # after a kill, a rank may live for a moment longer than its mpirun


class _Holder(msgspec.Struct):
    """The content of SESSION/lock: the process that holds the lock."""

    work: str  # what the process does with the session, such as "is being crawled"
    host: str
    pid: int
    since: str
    nonce: str  # a random text, so that no two holders are equal
    ended: bool = False  # whether the process has crawled, and ended in good order


class _Lock:
    """One file that this process has locked."""

    def __init__(self, path: Path, fd: int, holder: _Holder | None) -> None:
        self.path = path
        self.fd = fd
        self.holder = holder


_held: Final[dict[Path, _Lock]] = {}  # the locks of this process, by the resolved path


def lock_session(directory: Path, work: str, patience_s: float = PATIENCE_S) -> None:
    """Take the lock of a session for this process, unless the process has it already.

    `work` is what the process does with the session, like "is being crawled". The call waits up to
    `patience_s` for the processes of a killed command to end. Raises UserError if another process
    holds the lock, or has crawled the session while this one waited.
    """
    path = directory.resolve() / _LEADER
    if path in _held:
        return
    before, deadline = _read_holder(path), time.monotonic() + patience_s
    while True:
        fd = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            _await_lock(fd, directory, before, deadline)
            if _is_still(fd, path):
                break
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    holder = _Holder(work, socket.gethostname(), os.getpid(), now, os.urandom(8).hex())
    _held[path] = _Lock(path, fd, holder)
    try:
        _write(fd, path, holder)
        _await_ranks(directory, deadline)
    except BaseException:
        unlock_session(directory)
        raise


def unlock_session(directory: Path, *, crawled: bool = False) -> None:
    """Give the lock back, if this process has it.

    `crawled`: this process has crawled the session, so a command that waits for the lock must not
    crawl the session again.
    """
    path = directory.resolve() / _LEADER
    lock = _held.pop(path, None)
    if lock is None:
        return
    try:
        if crawled and lock.holder is not None:
            lock.holder.ended = True
            _write(lock.fd, path, lock.holder)
        with contextlib.suppress(IsADirectoryError):  # not made by us: joining names the mistake
            path.with_name(_RANKS).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    except (OSError, UserError) as error:  # the file stays, but nobody has locked it
        _LOG.warning("%s: %s", path, error)
    finally:
        os.close(lock.fd)


def join_session(directory: Path) -> None:
    """Let this process count as a rank that crawls the session. Rank 0 must hold the lock."""
    path = directory.resolve() / _RANKS
    if path in _held:
        return
    fd = _open(path, os.O_RDWR | os.O_CREAT)
    if not _try(fd, fcntl.LOCK_SH):
        os.close(fd)
        raise UserError(f"{directory}: is being crawled; a rank of another crawl has {path}")
    _held[path] = _Lock(path, fd, None)


def leave_session(directory: Path) -> None:
    """Stop counting as a rank that crawls the session."""
    lock = _held.pop(directory.resolve() / _RANKS, None)
    if lock is not None:
        os.close(lock.fd)


def who_writes(directory: Path) -> str | None:
    """Return what another process does with a session, and which one; None if none has the lock.

    Nothing is written, so the directory may be read-only.
    """
    for name in (_LEADER, _RANKS):
        path = directory.resolve() / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # there is no such file, or none that this user may read
            continue
        try:
            if path not in _held and not _try(fd, fcntl.LOCK_SH):
                return _words(_read_holder(path.with_name(_LEADER)))
        finally:
            os.close(fd)
    return None


def _await_lock(fd: int, directory: Path, before: _Holder | None, deadline: float) -> None:
    """Lock a file.

    Raises UserError at the deadline, or if a process has crawled the session since `before` was
    read.
    """
    while not _try(fd, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            holder = _holder_of(fd)
            raise UserError(f"{directory}: {_words(holder)}; {_advice(directory, holder)}")
        time.sleep(_POLL_S)
    last = _holder_of(fd)
    if last is not None and last.ended and last != before:
        raise UserError(f"{directory}: {_words(last)}; that crawl has ended just now")


def _await_ranks(directory: Path, deadline: float) -> None:
    """Wait until no rank of an earlier run lives. Raises UserError at the deadline.

    After the loss of a rank, the remaining ranks may live on, and this process may be one of them.
    """
    path = directory.resolve() / _RANKS
    if path in _held:
        return
    while True:
        fd = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            if _try(fd, fcntl.LOCK_EX):
                return
        finally:
            os.close(fd)
        if time.monotonic() > deadline:
            raise UserError(
                f"{directory}: is being crawled: a rank of an earlier run is alive;"
                f" {_advice(directory, None)}"
            )
        time.sleep(_POLL_S)


def _open(path: Path, flags: int) -> int:
    """Open a file to be locked. Raises UserError."""
    try:
        with no_room_told(path):
            fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        words = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise UserError(f"{path}: {words}; the session directory must be writable") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UserError(f"{path}: isn't a regular file; remove it")
    return fd


def _try(fd: int, kind: int) -> bool:
    """Try to lock a file without waiting. Returns whether this process has the lock now."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in LACKS_LOCKS:
            raise
        _LOG.warning("no locks on this file system: make sure that only one crawl runs there")
    return True


def _is_still(fd: int, path: Path) -> bool:
    """Whether the path still names the locked file. Its last holder may have removed the file."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _write(fd: int, path: Path, holder: _Holder) -> None:
    with mistakes_told(str(path)):
        content = msgspec.json.encode(holder) + b"\n"
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))


def _holder_of(fd: int) -> _Holder | None:
    try:
        return msgspec.json.decode(os.pread(fd, _CONTENT_BYTES, 0), type=_Holder)
    except (msgspec.DecodeError, UnicodeDecodeError):  # its process was killed before it wrote
        return None


def _read_holder(path: Path) -> _Holder | None:
    """Return the holder that the file names, for messages; None if the file can't be read."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return _holder_of(fd)
        finally:
            os.close(fd)
    return None


def _words(holder: _Holder | None) -> str:
    if holder is None:
        return "is being crawled: another process has locked the session"
    return f"{holder.work}: by process {holder.pid} on {holder.host} since {holder.since}"


def _advice(directory: Path, holder: _Holder | None) -> str:
    if holder is not None and holder.work != CRAWLED:
        return "wait until that has ended"
    return (
        f"follow it (python -m crawler watch {directory}), or stop it first"
        f" (python -m crawler stop {directory})"
    )
