"""Checks that a path may be opened as a file, because opening a FIFO may wait for ever."""

import errno
import stat
from pathlib import Path
from typing import Final

_WORDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def regular(path: Path) -> Path:
    """The same path, if it names a regular file, also by symbolic links, or nothing at all.

    Raises OSError that says what else is there.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return path
    if kind != stat.S_IFREG:
        what = _WORDS.get(kind, "no regular file")
        raise OSError(errno.EINVAL, f"is {what}; a regular file must be here", str(path))
    return path
