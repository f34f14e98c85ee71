"""The one way in which a session's files grow."""

import os
from pathlib import Path


class AppendFile:
    """A new file that grows by whole pieces: after an error it is as if the piece had never been.

    There is no buffer of ours: once `append` returns, the piece survives a kill of the process (but
    a crash of the machine only after `sync`). Raises FileExistsError for a file that exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def append(self, piece: bytes) -> int:
        """Write the piece at the end; its offset. Raises OSError, with the file as before."""
        start = end = self.size
        rest = memoryview(piece)
        try:
            while rest:
                written = os.pwrite(self._fd, rest, end)
                rest = rest[written:]
                end += written
        except BaseException:
            # `size` hasn't moved: even if this fails too, the next piece overwrites the torn one.
            os.ftruncate(self._fd, start)
            raise
        self.size = end
        return start

    def sync(self) -> None:
        """Force what was appended to disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Sync, then close."""
        try:
            os.fsync(self._fd)
        finally:
            os.close(self._fd)
