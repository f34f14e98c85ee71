"""What the writer and the reader of a part vector share: its numbers, types and keys."""

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

FORMAT: Final = 2

MAGIC: Final = b"ABCPV\r\n\x1a"  # the line end shows a file that went through a text filter
HEAD: Final = struct.Struct("<8sIIQ")
CHECKSUM: Final = struct.Struct("<Q")
START: Final = HEAD.size + CHECKSUM.size
ALIGNMENT: Final = 8

Keys = npt.NDArray[np.uint64]
Parts = npt.NDArray[np.integer[Any]]
Loads = npt.NDArray[np.int64]


class PartVectorError(ValueError):
    """A file that is no intact part vector of this format."""


def part_type(parts: int) -> "np.dtype[np.integer[Any]]":
    """The type of the numbers of so many parts."""
    return np.dtype("<u2" if parts <= 1 << 16 else "<u4")


def name_key(name: str) -> int:
    """The key of a site's name. Raises ValueError for a NUL, which separates names."""
    if "\0" in name:
        raise ValueError("a name with NUL belongs to no part")
    return xxh3_64_intdigest(name.encode())


def directory_key(site: str, directory: str) -> int:
    """The key of a directory of a site; `site` is empty if the directory holds for all sites."""
    return xxh3_64_intdigest(f"{site}\0{directory}".encode())


def padded(length: int) -> int:
    """The length of a section in the file, in bytes."""
    return -(-length // ALIGNMENT) * ALIGNMENT
