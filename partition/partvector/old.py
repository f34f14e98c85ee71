"""Reads part vectors of format 1: names in tries, directories without sites, sites with schemes.

In format 1, `http://` and `https://` of a host are two sites. Today they are one. Its part is that
of the first name by `url.old_site_names`. A directory holds for the pages of all sites.

A forged trie can crash or block its reader. So a child process with limits on time and memory reads
the names, and this process never loads the trie.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy.typing as npt

from crawler.url import old_site_names

FORMAT: Final = 1

_COMMAND: Final = (sys.executable, "-c", "from partition.partvector.old import serve; serve()")
_LEAST_TIMEOUT_S: Final = 60  # time limit of the child; a large file gets more
_BYTES_A_SECOND: Final = 100_000
_MEMORY: Final = 1 << 30  # bytes of address space of the child; more for a large file
_MEMORY_A_BYTE: Final = 200


class Tables:
    """The sites and directories of a mapped file, by name."""

    def __init__(
        self,
        section: Callable[[str], memoryview],
        numbers: Callable[[str, int], npt.NDArray[Any]],
    ) -> None:
        """`section` gives the bytes of a section; `numbers` the parts in one, if there are so many.

        Raises ValueError.
        """
        names = _names("sites", bytes(section("sites")))
        self._sites: dict[str, int] = dict(
            zip(names, numbers("site_parts", len(names)).tolist(), strict=True)
        )
        names = _names("directories", bytes(section("directories")))
        parts = numbers("directory_parts", len(names)).tolist()
        self._directories: dict[str, int] = dict(zip(names, parts, strict=True))
        self.sites = len(self._sites)

    @property
    def has_directories(self) -> bool:
        """Whether any directory is listed."""
        return len(self._directories) > 0

    @property
    def site_names(self) -> tuple[str, ...]:
        """The names of all sites, as written in format 1."""
        return tuple(self._sites)

    def site_part(self, site: str) -> int | None:
        """Return the part of a site by its present or an earlier name, or None."""
        for name in (site, *old_site_names(site)):
            part = self._sites.get(name)
            if part is not None:
                return part
        return None

    def directory_part(self, url: str) -> int | None:
        """Return the part of the nearest listed directory that a URL is in, or None."""
        path = url.partition("?")[0]
        end = len(path)
        while (slash := path.rfind("/", 0, end)) >= 0:
            part = self._directories.get(path[: slash + 1])
            if part is not None:
                return part
            end = slash
        return None


def _names(what: str, trie: bytes) -> Sequence[str]:
    """Return the names in a trie, in the order of their numbers. Raises ValueError."""
    if not trie:
        return []
    seconds = _LEAST_TIMEOUT_S + len(trie) // _BYTES_A_SECOND
    memory = _MEMORY + _MEMORY_A_BYTE * len(trie)
    try:
        done = subprocess.run(  # noqa: S603 - a command of ours
            [*_COMMAND, str(memory)], input=trie, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{what}: can't be read in {seconds} s") from None
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(
            f"{what}: isn't an intact trie: {words or f'reader ended with code {done.returncode}'}"
        )
    names: list[str] = json.loads(done.stdout)
    return names


def serve() -> None:
    """Run the child: read a trie, write its names."""
    from marisa_trie import Trie  # noqa: PLC0415 - only the child has it

    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    trie = Trie()
    trie.frombytes(sys.stdin.buffer.read())
    json.dump([trie.restore_key(number) for number in range(len(trie))], sys.stdout)
