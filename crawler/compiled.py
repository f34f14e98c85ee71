"""Compiles functions with numba once, and keeps the results in a cache.

numba keeps compiled functions beside the sources, in the user's cache folder, or in
`NUMBA_CACHE_DIR`. If it can write to none of these (in a container, or on a node without a home),
the cache is a folder among the temporary files that belongs to the user alone. If that fails too,
each process compiles again. One process at a time compiles the functions of a file. Others that
need these functions, such as the other ranks, wait and use its results.

The first compilation takes up to a minute. It is announced on standard error. `seconds` returns its
time, so that callers can subtract it from the time of a partition. Importing this module imports
numba, which takes a second. So a crawl that needs no compiled function must not import it.
"""

import fcntl
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event, types
from numba.core.compiler_lock import global_compiler_lock

numba_config: Any = numba.config  # filled by numba when it is imported

_F = TypeVar("_F", bound=Callable[..., Any])


class _Listener(event.Listener):
    """Measures compilations. A compilation that another one causes is a part of that one."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_kept = True
        self._depth = 0
        self._began = 0.0
        self._told = False

    def on_start(self, event: object) -> None:
        if not self._depth:
            self._began = time.perf_counter()
            if not self._told:
                words = "once" if self.is_kept else "as no cache can be kept (NUMBA_CACHE_DIR)"
                sys.stderr.write(f"compiling, {words}: the inner loops, for up to a minute\n")
                sys.stderr.flush()
                self._told = True
        self._depth += 1

    def on_end(self, event: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += time.perf_counter() - self._began


_listener = _Listener()
event.register("numba:compile", _listener)  # type: ignore[no-untyped-call]


def compiled(function: _F, *, nogil: bool = False) -> _F:
    """Return the function, compiled at its first call. The result is cached if possible.

    `nogil`: other threads may run Python code meanwhile. A short function is better off without.
    """
    made = _with_cache(function, nogil=nogil)
    if made is None and _use_temporary_folder():
        made = _with_cache(function, nogil=nogil)
    if made is None:
        _listener.is_kept = False
        made = numba.njit(nogil=nogil)(function)
    _compile_once_for_all_sizes(made)
    return made  # type: ignore[no-any-return]


def in_thread(function: _F) -> _F:
    """Return the function, compiled so that other threads may run Python code while it runs."""
    return compiled(function, nogil=True)


def seconds() -> float:
    """Return the seconds that this process has spent on compiling so far."""
    return _listener.seconds


def _with_cache(function: Callable[..., Any], *, nogil: bool) -> Any:
    """Return the function, compiled with a cache, or None if no folder for it can be written."""
    try:
        made = numba.njit(cache=True, nogil=nogil)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        return None
    _notice_changes(made)
    _outlive_full_disks(made)
    _compile_in_turn(made)
    return made


def _notice_changes(dispatcher: Any) -> None:
    """Let the cached function count as outdated if anything that was compiled into it has changed.

    numba looks only at the function's own file. So after an upgrade a function could contain an old
    version of a function that it calls, or of a constant. Here the function also depends on all
    files of its folder, and on what the compiled functions that it may call depend on.
    """
    file = dispatcher._cache._cache_file  # noqa: SLF001  # numba has no public way to it
    function = dispatcher.py_func
    caches = [getattr(value, "_cache", None) for value in function.__globals__.values()]
    files = [getattr(cache, "_cache_file", None) for cache in caches]
    depends = [_digest(Path(function.__code__.co_filename).parent)]
    depends += [other._source_stamp for other in files if other is not None]  # noqa: SLF001
    file._source_stamp = sha256(b"".join(depends)).digest()  # noqa: SLF001


@cache
def _digest(folder: Path) -> bytes:
    """Return a hash of all sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return sha256(b"".join(sha256(source.read_bytes()).digest() for source in sources)).digest()


def _compile_once_for_all_sizes(dispatcher: Any) -> None:
    """Let compiled callers pass signed integers of all sizes, and constants, as 64 bits.

    Otherwise numba compiles the function again for each mix of sizes and constants in its calls.
    """
    template = dispatcher.get_call_template

    def get_call_template(args: Sequence[types.Type], kws: dict[str, types.Type]) -> object:
        wide = {name: _widest(kind) for name, kind in kws.items()}
        return template([_widest(kind) for kind in args], wide)

    dispatcher.get_call_template = get_call_template


def _widest(kind: types.Type) -> types.Type:
    """Return the type with 64 bits for that of a signed integer or a constant, else the type."""
    plain = types.unliteral(kind)  # type: ignore[no-untyped-call]
    return types.int64 if plain in types.signed_domain else kind


def _outlive_full_disks(dispatcher: Any) -> None:
    """Let a compiled function be used even if there is no room to store it."""
    kept = dispatcher._cache  # noqa: SLF001  # numba has no public way to it
    save = kept.save_overload

    def save_if_possible(signature: object, data: object) -> None:
        try:
            save(signature, data)
        except OSError:
            _listener.is_kept = False

    kept.save_overload = save_if_possible


class _Turn:
    """Locks the source files whose functions this process compiles.

    Compiling a function compiles those that it calls, too, which may be in other files. The locks
    are released together. Processes can't wait for each other in a circle, because modules can't
    import each other in a circle. Only one thread of a process compiles at a time.
    """

    def __init__(self) -> None:
        self._locked: dict[str, int] = {}
        self._depth = 0

    def begin(self) -> None:
        global_compiler_lock.acquire()  # type: ignore[no-untyped-call]
        self._depth += 1

    def lock(self, source: str) -> None:
        """Wait until no other process compiles functions of this file.

        Without locks, as on some file systems, both compile.
        """
        if source not in self._locked:
            with suppress(OSError):
                self._locked[source] = os.open(source, os.O_RDONLY)
                fcntl.flock(self._locked[source], fcntl.LOCK_EX)

    def end(self) -> None:
        self._depth -= 1
        while self._locked and not self._depth:
            os.close(self._locked.popitem()[1])
        global_compiler_lock.release()  # type: ignore[no-untyped-call]


_turn = _Turn()


def _compile_in_turn(dispatcher: Any) -> None:
    """Let a function be compiled only if no other process has just done so."""
    kept = dispatcher._cache  # noqa: SLF001  # numba has no public way to it
    source = dispatcher.py_func.__code__.co_filename
    load, compile_function = kept.load_overload, dispatcher.compile

    def load_or_lock(signature: object, context: object) -> object:
        found = load(signature, context)
        if found is None:
            _turn.lock(source)
            found = load(signature, context)
        return found

    def compile_in_turn(signature: object) -> object:
        _turn.begin()
        try:
            return compile_function(signature)
        finally:
            _turn.end()

    kept.load_overload = load_or_lock
    dispatcher.compile = compile_in_turn


def _use_temporary_folder() -> bool:
    """Let numba keep its cache in a private temporary folder. Returns whether that is possible.

    Code in this folder is executed, so a folder of another user isn't accepted.
    """
    if numba_config.CACHE_DIR:
        return False
    folder = Path(tempfile.gettempdir()) / f"abc-crawler-numba-{os.geteuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if private and found.st_uid == os.geteuid():
            numba_config.CACHE_DIR = str(folder)
            return True
    return False
