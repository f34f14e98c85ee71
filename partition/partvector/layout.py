"""The numbers, types and keys that the writer and the reader of a part vector share."""

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

FORMAT: Final = 2

MAGIC: Final = b"ABCPV\r\n\x1a"  # its line end reveals files that a text filter has changed
HEAD: Final = struct.Struct("<8sIIQ")
CHECKSUM: Final = struct.Struct("<Q")
START: Final = HEAD.size + CHECKSUM.size
ALIGNMENT: Final = 8

Keys = npt.NDArray[np.uint64]
Parts = npt.NDArray[np.integer[Any]]
Loads = npt.NDArray[np.int64]


class PartVectorError(ValueError):
    """The file isn't an intact part vector of a known format."""


def part_type(parts: int) -> "np.dtype[np.integer[Any]]":
    """Return the integer type for this number of parts."""
    return np.dtype("<u2" if parts <= 1 << 16 else "<u4")


def name_key(name: str) -> int:
    """Return the key of a site's name. Raises ValueError for a NUL, which separates names."""
    if "\0" in name:
        raise ValueError("a name with NUL can't have a part; remove the NUL")
    return xxh3_64_intdigest(name.encode())


def directory_key(site: str, directory: str) -> int:
    """Return the key of a directory of a site; an empty `site` means all sites."""
    return xxh3_64_intdigest(f"{site}\0{directory}".encode())


def padded(length: int) -> int:
    """Return the length of a section in the file, in bytes."""
    return -(-length // ALIGNMENT) * ALIGNMENT
