"""Part vectors of format 1: names in tries, directories without their sites, sites by scheme.

There `http://` and `https://` of a host are two sites; now they are one. It is in the part of the
name that `url.old_site_names` gives first. A directory holds for the pages of all sites.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy.typing as npt
from marisa_trie import Trie

from crawler.url import old_site_names

FORMAT: Final = 1


class Tables:
    """The sites and directories of a mapped file, looked up by name."""

    def __init__(
        self,
        section: Callable[[str], memoryview],
        numbers: Callable[[str, int], npt.NDArray[Any]],
    ) -> None:
        """`section` gives the bytes of a section; `numbers` the parts in one, if there are so many.

        Raises ValueError, or RuntimeError for what is no trie.
        """
        self._sites = self._mapped(section("sites"))
        self._directories = self._mapped(section("directories"))
        self.sites = len(self._sites)
        self._site_parts = numbers("site_parts", self.sites).data
        self._directory_parts = numbers("directory_parts", len(self._directories)).data

    @staticmethod
    def _mapped(content: memoryview) -> Trie:
        """A trie that doesn't copy its content, which must stay mapped while the trie lives."""
        trie = Trie()
        if len(content):
            trie.map(content)
        return trie

    @property
    def has_directories(self) -> bool:
        return len(self._directory_parts) > 0

    @property
    def site_names(self) -> tuple[str, ...]:
        return tuple(self._sites)

    def site_part(self, site: str) -> int | None:
        for name in (site, *old_site_names(site)):
            number = self._sites.get(name)
            if number is not None:
                part: int = self._site_parts[number]
                return part
        return None

    def directory_part(self, url: str) -> int | None:
        """The part of the nearest listed directory that a URL is in, or None."""
        above = self._directories.prefixes(url.partition("?")[0])
        return self._directory_parts[self._directories[above[-1]]] if above else None
