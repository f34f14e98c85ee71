"""Patterns of host names, as `[[sites]]` writes them, and which of them match a site.

A pattern is a host name, which may have a port, or `*.` before a host name. `*.` stands for all
hosts below that name, but not for the name itself. A pattern without a port matches every port.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from crawler import url

_BELOW = "*."


def normalise_pattern(text: str) -> str:
    """Return a pattern as `NamePatterns` needs it. Raises BadUrlError if the text is none."""
    below = _BELOW if text.startswith(_BELOW) else ""
    name = text.removeprefix(_BELOW)
    if not name or any(mark in name for mark in "/?#@*\\ "):
        raise url.BadUrlError(text)
    return below + url.site(url.normalise(f"http://{name}/"))


class NamePatterns:
    """Groups of patterns, known by their numbers. A look-up takes no longer with more patterns."""

    def __init__(self, groups: Sequence[Iterable[str]]) -> None:
        """`groups` hold patterns that `normalise_pattern` has returned."""
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        self._below: defaultdict[str, list[int]] = defaultdict(list)
        for number, patterns in enumerate(groups):
            for pattern in patterns:
                table = self._below if pattern.startswith(_BELOW) else self._exact
                table[pattern.removeprefix(_BELOW)].append(number)

    def matching(self, site: str) -> tuple[int, ...]:
        """Return the numbers of the groups that match a site (`url.site`), in ascending order."""
        found: set[int] = set()
        for name in {site, _without_port(site)}:
            found.update(self._exact.get(name, ()))
            if self._below:
                dot = name.find(".")
                while dot >= 0:
                    found.update(self._below.get(name[dot + 1 :], ()))
                    dot = name.find(".", dot + 1)
        return tuple(sorted(found))


def _without_port(site: str) -> str:
    """Return a site without its port. An IPv6 address keeps its brackets."""
    name, _, port = site.rpartition(":")
    return name if name and port.isdigit() else site
