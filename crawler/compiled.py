"""Functions that numba compiles once, and the cache in which they are kept.

numba keeps compiled functions beside the sources, in the user's cache folder, or in
`NUMBA_CACHE_DIR`. If none of these can be written (a container, a node without a home), the cache
is a folder of the user's own among the temporary files. Otherwise each process compiles again.

The first compilation takes up to a minute. It is announced on standard error, and `seconds` counts
it, so that nobody takes it for the time of a partition. Importing this module imports numba, which
takes a second: a crawl that needs no compiled function must not import it.
"""

import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

numba_config: Any = numba.config  # filled by numba when it is imported

_F = TypeVar("_F", bound=Callable[..., Any])


class _Listener(event.Listener):
    """Hears of each compilation; of one that causes others, they are a part."""

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


def compiled(function: _F) -> _F:
    """The function, compiled at its first call. The result is kept on disk if possible."""
    made = _with_cache(function)
    if made is None and _use_temporary_folder():
        made = _with_cache(function)
    if made is None:
        _listener.is_kept = False
        made = numba.njit(function)
    return made  # type: ignore[no-any-return]


def seconds() -> float:
    """The seconds that this process has spent compiling so far."""
    return _listener.seconds


def _with_cache(function: Callable[..., Any]) -> Any:
    """The function, compiled with a cache; None if there is no folder for a cache."""
    try:
        made = numba.njit(cache=True)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        return None
    _outlive_full_disks(made)
    return made


def _outlive_full_disks(dispatcher: Any) -> None:
    """Let a compiled function be used even if there is no room to keep it."""
    cache = dispatcher._cache  # noqa: SLF001  # numba has no public way to it
    save = cache.save_overload

    def save_if_possible(signature: object, data: object) -> None:
        try:
            save(signature, data)
        except OSError:
            _listener.is_kept = False

    cache.save_overload = save_if_possible


def _use_temporary_folder() -> bool:
    """Let numba keep its cache in a folder that only this user can write; whether there is one.

    What lies there is run, so a folder that others have made isn't taken.
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
