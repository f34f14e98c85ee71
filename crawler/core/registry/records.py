"""The arrays of a registry: a record for each URL, site and pool, and how the arrays grow."""

import ctypes
import mmap
import sys
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
        ("priority", "i4"),  # sites with a higher one come first
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

_PIECE: int = 16 << 20  # bytes that are copied at a time when an array grows
_MADVISE: Final = ctypes.CDLL(None).madvise if sys.platform == "linux" else None
if _MADVISE is not None:
    _MADVISE.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def empty(record: "np.dtype[Any]") -> Records:
    """Return an array of a few records."""
    return np.zeros(FIRST, record)


def with_room(records: Records, count: int) -> Records:
    """Return an array with these records and room for `count` of them.

    The array is the given one if that has the room. Otherwise the given one mustn't be used again:
    while its records are copied, its pages are given back piece by piece. So the two arrays
    together hardly take more memory than one.

    A new array has room for twice as many records, but Linux gives memory only to pages that were
    written. `realloc` would copy nothing, but it cuts huge pages up. With pages of 4 KB, most reads
    of a random record also wait for the address of its page: counting a link takes 1.7 times as
    long. NumPy asks for huge pages when it makes a large array.
    """
    if count <= len(records):
        return records
    larger = np.zeros(max(count, 2 * len(records)), records.dtype)
    step = max(1, _PIECE // records.itemsize)
    for start in range(0, len(records), step):
        piece = records[start : start + step]
        larger[start : start + len(piece)] = piece
        _give_back(piece)
    return larger


def _give_back(records: Records) -> None:
    """Give the memory of an array back to Linux, as far as whole pages lie in the array."""
    start = -(-records.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (records.ctypes.data + records.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if _MADVISE is not None and start < stop:
        _MADVISE(start, stop - start, mmap.MADV_DONTNEED)
