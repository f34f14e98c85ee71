"""The tree of directories that the URLs of a site form.

Two rules use it. `split_tree` divides a heavy site: into the largest subtrees that fit.
`directory_parts` lists where pages of a divided site belong, also those of later sessions: in the
part of most pages below the nearest listed directory.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partition.arrays import Ints


def directories(texts: Sequence[str]) -> list[str]:
    """Return the directory of each URL, with a slash at the end. The topmost is the host."""
    found = []
    for text in texts:
        path = text.partition("?")[0]
        slash = path.rfind("/", path.find("://") + 3)
        found.append(path[: slash + 1] if slash >= 0 else path + "/")
    return found


def split_tree(folders: Sequence[str], load: Ints, share: npt.NDArray[np.float64]) -> Ints:
    """Return units from 0 on for pages in a tree of folders: the largest subtrees within `share`.

    `load` is pages x 2. If a folder is too heavy as a whole, the pages directly in it are one
    unit if they fit; otherwise each of them is a unit.
    """
    numbers = {folder: number for number, folder in enumerate(dict.fromkeys(folders))}
    paths = [tuple(folder[:-1].split("/")) for folder in numbers]
    order = sorted(range(len(paths)), key=paths.__getitem__)
    paths = [paths[at] for at in order]
    place = np.empty(len(paths), np.int64)
    place[order] = np.arange(len(paths))
    folder_of = place[[numbers[folder] for folder in folders]]
    summed = np.zeros((len(paths) + 1, 2), np.int64)
    np.add.at(summed, folder_of + 1, load)
    summed = summed.cumsum(axis=0)

    def fits(low: int, high: int) -> bool:
        return bool((summed[high] - summed[low] <= share).all())

    unit = np.full(len(paths), -1, np.int64)  # unit of each folder; -1: its pages are units
    free = 0
    stack = [(0, len(paths), 0)]  # subtrees: first path, last path, number of common steps
    while stack:
        low, high, depth = stack.pop()
        if fits(low, high):
            unit[low:high] = free
            free += 1
            continue
        start = low
        if len(paths[low]) == depth:  # the folder's own pages
            start += 1
            if fits(low, start):
                unit[low] = free
                free += 1
        while start < high:
            end = start + 1
            while end < high and paths[end][depth] == paths[start][depth]:
                end += 1
            stack.append((start, end, depth + 1))
            start = end
    result: Ints = unit[folder_of]
    alone = np.flatnonzero(result < 0)
    result[alone] = free + np.arange(len(alone))
    return result


def directory_parts(
    folders: Sequence[str], part: Sequence[int], above: Sequence[int]
) -> dict[str, int]:
    """Return the part of each directory: the part that most pages in and below it are in.

    A directory is left out if its part is that of the nearest listed directory above it, or
    else that of its site, given by `above` for each page. In a tie, the lowest part wins.
    """
    inside: dict[str, Counter[int]] = {}
    site_part: dict[str, int] = {}
    for folder, number, site in zip(folders, part, above, strict=True):
        inside.setdefault(folder, Counter())[number] += 1
        site_part[folder] = site
    for folder in sorted(inside, key=len, reverse=True):
        below = folder
        while (parent := _parent(below)) and parent not in inside:
            inside[parent] = Counter()  # has no pages of its own
            below = parent
    deepest_first = sorted(inside, key=len, reverse=True)
    for folder in deepest_first:
        if parent := _parent(folder):
            inside[parent].update(inside[folder])
            site_part.setdefault(parent, site_part[folder])
    chosen: dict[str, int] = {}
    listed = {}
    for folder in reversed(deepest_first):
        chosen[folder] = min(inside[folder].items(), key=lambda item: (-item[1], item[0]))[0]
        parent = _parent(folder)
        if chosen[folder] != (chosen[parent] if parent else site_part[folder]):
            listed[folder] = chosen[folder]
    return listed


def _parent(folder: str) -> str | None:
    """Return the directory above, or None for a host."""
    slash = folder.rfind("/", 0, -1)
    return folder[: slash + 1] if slash > folder.find("://") + 2 else None
