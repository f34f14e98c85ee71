"""The arrays of a registry: a record for each URL, site and pool, and how the arrays grow."""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Records: TypeAlias = NDArray[np.void]

# Numbers of URLs and sites take 32 bits. The largest ones mean something else.
NONE: Final = 2**32 - 1  # no URL, no site
# States of a URL or a site that is in no heap. They stand in its field `previous`.
OUT: Final = 2**32 - 2  # a URL that is handed out
BACK: Final = 2**32 - 3  # a URL that was put back; `sibling` is the one put back before it
ABSENT: Final = 2**32 - 4  # a visited URL; a site from which no URL may be handed out
MOST: Final = ABSENT  # so many URLs a registry may have

# A node of a heap has a score and the links of a pairing heap: the first child, the next sibling,
# and the previous sibling. The previous sibling of a first child is its parent.
URL: Final = np.dtype(
    [
        ("key", "u8"),
        ("score", "f8"),
        ("links", "u4"),  # back-links
        ("site", "u4"),  # the number of the site, and FINAL
        ("child", "u4"),
        ("sibling", "u4"),
        ("previous", "u4"),
    ]
)
FINAL: Final = 1 << 31  # the score never changes
SITE: Final = FINAL - 1
NO_SITE: Final = SITE  # of a URL that was only ever seen as visited

SITE_RECORD: Final = np.dtype(
    [
        ("score", "f8"),  # of its first URL, when the site was put into the heap of its pool
        ("row", "u4"),  # that URL
        ("child", "u4"),
        ("sibling", "u4"),
        ("previous", "u4"),
        ("root", "u4"),  # the best URL of the site's heap
        ("back", "u4"),  # the URL that was put back last
        ("pool", "u4"),
        ("out", "u4"),  # URLs handed out
        ("waiting", "u4"),  # URLs
    ]
)
POOL: Final = np.dtype(
    [
        ("waiting", "u8"),  # URLs of its sites
        ("root", "u4"),  # the site with the best URL
        ("sites", "u4"),  # in its heap
    ]
)

FIRST: int = 1024  # records of a new array


def empty(record: "np.dtype[Any]") -> Records:
    """Return an array of a few records."""
    return np.zeros(FIRST, record)


def with_room(records: Records, count: int) -> None:
    """Make room for `count` records. No other array may share the memory of `records`.

    The array grows by an eighth: that is what an array may hold for nothing. Growing copies nothing
    on Linux, where `realloc` moves the pages of a large array to other addresses. So the old and
    the new array never take memory at the same time, and the records stay in one piece.
    """
    if count > len(records):
        records.resize(max(count, len(records) + len(records) // 8 + FIRST), refcheck=False)
