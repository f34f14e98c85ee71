"""The part vector: the file, its writer and its reader. The crawler imports this and nothing else.

One read-only file that all ranks of a node map into memory and therefore share. All of it stays
mapped: marisa-trie takes a trie out of any buffer (`Trie.map`), so the trie of the site names needs
no file of its own. Layout, little-endian, each section at a multiple of 8 bytes:

    head      8s magic, u32 format version (2), u32 length of the header,
              u64 length of the file, u64 XXH3-64 of every other byte of the file
    header    JSON: parts, model, sessions, metadata, and `sections`: name -> [offset, length]
    sections  sites       a marisa trie of the site names, UTF-8
              site_parts  the part of each site, by the trie's number for it
              url_keys    u64, ascending: the pages of sites that lie in several parts
              url_parts   the part of each key
              directories       a marisa trie of directories of such sites, as starts of URLs
              directory_parts   the part of each directory, by the trie's number for it
              loads       i64, parts x 2: bytes and requests of each part
              replicated  URLs that every rank knows, one a line

Parts are u16, or u32 where there are more than 65,536. Equal input gives equal bytes.

Files of format 1 can be read, too. There `http://` and `https://` of a host are two sites; now they
are one. It is in the part of the name that `url.old_site_names` gives first.

Measured (Python 3.11, one core, 75 k sites and 1 M URLs, a file of 10.5 MB, 0.4 MB of it the trie):
opening 1 ms, 10.3 MB resident, none of it private; `site_part` 1.1 us, `url_part` 1.2 us.
"""

import json
import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from marisa_trie import Trie
from xxhash import xxh3_64

from crawler.url import old_site_names

FORMAT: Final = 2
_SITES_BY_SCHEME: Final = 1  # the format whose site names begin with http:// or https://

_MAGIC: Final = b"ABCPV\r\n\x1a"  # the line end shows a file that went through a text filter
_HEAD: Final = struct.Struct("<8sIIQ")
_CHECKSUM: Final = struct.Struct("<Q")
_START: Final = _HEAD.size + _CHECKSUM.size
_ALIGNMENT: Final = 8

Keys = npt.NDArray[np.uint64]
Parts = npt.NDArray[np.integer[Any]]
Loads = npt.NDArray[np.int64]


class PartVectorError(ValueError):
    """A file that is no intact part vector of this format."""


def jump_hash(key: int, buckets: int) -> int:
    """The bucket of a 64-bit key, by the jump consistent hash of Lamping and Veach (2014).

    Going from n to n + 1 buckets moves 1 key in n + 1, all of them to the new bucket.
    """
    bucket, jump = -1, 0
    while jump < buckets:
        bucket = jump
        key = (key * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        jump = int((bucket + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return bucket


def jump_hashes(keys: Keys, buckets: int) -> npt.NDArray[np.int32]:
    """`jump_hash` of many keys."""
    result = np.empty(len(keys), np.int32)
    moving = np.arange(len(keys))  # those whose next jump stays below `buckets`
    state = keys.astype(np.uint64)
    jump = np.zeros(len(keys), np.int64)
    while len(moving):
        result[moving] = jump
        state = state * np.uint64(2862933555777941757) + np.uint64(1)
        steps = float(1 << 31) / ((state >> np.uint64(33)) + np.uint64(1)).astype(np.float64)
        jump = ((jump + 1) * steps).astype(np.int64)
        inside = jump < buckets
        moving, state, jump = moving[inside], state[inside], jump[inside]
    return result


def pack(loads: Loads, ranks: int) -> list[int]:
    """The rank of each part, so that no rank has much more than its share of any weight.

    `loads` are parts x weights. Where there are as many ranks as parts, rank i gets part i. Where
    there are fewer, the heaviest part comes first and goes to the rank that it loads least; every
    rank gets one. Equal loads give equal ranks. Raises ValueError for more ranks than parts, or
    none.
    """
    parts = len(loads)
    if not 1 <= ranks <= parts:
        raise ValueError(f"{ranks} ranks for {parts} parts: must be from 1 to {parts}")
    if ranks == parts:
        return list(range(parts))
    share = loads / np.maximum(loads.sum(axis=0), 1)
    carried = np.zeros((ranks, loads.shape[1]))
    held = np.zeros(ranks, np.int64)
    rank_of = [0] * parts
    for part in np.argsort(-share.max(axis=1), kind="stable").tolist():
        after = (carried + share[part]).max(axis=1)
        rank = int(np.lexsort((held, after))[0])  # the first of the least loaded, the empty before
        rank_of[part] = rank
        carried[rank] += share[part]
        held[rank] += 1
    return rank_of


def write(
    path: Path,
    *,
    parts: int,
    sites: Mapping[str, int],
    model: str,
    urls: tuple[Keys, Parts] | None = None,
    directories: Mapping[str, int] | None = None,
    loads: Loads | None = None,
    replicated: Sequence[str] = (),
    sessions: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a part vector: a reader sees the old file or the whole new one, never a piece.

    `urls` are URL keys, each once and in any order, and their parts. `directories` are starts of
    URLs, up to a slash. `loads` are the parts' bytes and requests. `metadata` is anything small
    that JSON holds. Raises ValueError for a part out of range, a repeated key, a NUL in a name,
    which a trie can't hold, or a replicated URL of more than one line; OSError.
    """
    kind = np.dtype("<u2" if parts <= 1 << 16 else "<u4")
    sections: dict[str, bytes] = {}
    sections["sites"], sections["site_parts"] = _table(sites, parts, kind)
    if directories is not None:
        table = _table(directories, parts, kind)
        sections["directories"], sections["directory_parts"] = table
    if loads is not None:
        if loads.shape != (parts, 2):
            raise ValueError(f"loads: must be {parts} parts x 2")
        sections["loads"] = loads.astype("<i8").tobytes()
    if replicated:
        lines = "\n".join(replicated)
        if lines.count("\n") != len(replicated) - 1:
            raise ValueError("replicated: a URL is one line, of no part two")
        sections["replicated"] = lines.encode()
    if urls is not None:
        keys, url_parts = urls
        order = np.argsort(keys)
        ascending = keys[order]
        if len(keys) != len(url_parts) or (ascending[1:] == ascending[:-1]).any():
            raise ValueError("urls: each key must have one part")
        sections["url_keys"] = ascending.astype("<u8").tobytes()
        sections["url_parts"] = _checked(url_parts, parts)[order].astype(kind).tobytes()

    # Offsets count from the end of the header, whose length they would otherwise change.
    places, offset = {}, 0
    for name, content in sections.items():
        places[name] = [offset, len(content)]
        offset += _padded(len(content))
    header = json.dumps(
        {
            "parts": parts,
            "model": model,
            "sessions": list(sessions),
            "metadata": dict(metadata or {}),
            "sections": places,
        },
        sort_keys=True,
    ).encode()
    header = header.ljust(_padded(len(header)))
    head = _HEAD.pack(_MAGIC, FORMAT, len(header), _START + len(header) + offset)
    body = [header, *(content.ljust(_padded(len(content)), b"\0") for content in sections.values())]
    checksum = xxh3_64(head)
    for piece in body:
        checksum.update(piece)

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines([head, _CHECKSUM.pack(checksum.intdigest()), *body])
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _table(part_of: Mapping[str, int], parts: int, kind: np.dtype[Any]) -> tuple[bytes, bytes]:
    """A trie of the names, and the part of each by the trie's number for it."""
    names = sorted(part_of)
    if any("\0" in name for name in names):
        raise ValueError("a name with NUL belongs to no part")
    trie = Trie(names)
    ids = np.fromiter((trie.key_id(name) for name in names), np.int64, len(names))
    numbered = np.empty(len(names), kind)
    numbered[ids] = _checked([part_of[name] for name in names], parts)
    return trie.tobytes(), numbered.tobytes()


def _padded(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _checked(numbers: Parts | Sequence[int], parts: int) -> npt.NDArray[np.int64]:
    array = np.asarray(numbers, np.int64)
    if len(array) and not (array.min() >= 0 and array.max() < parts):
        raise ValueError(f"parts: must be from 0 to {parts - 1}")
    return array


class PartVector:
    """A part vector mapped into memory. Get one by `PartVector.open`."""

    def __init__(
        self, view: memoryview, header: dict[str, Any], start: int, version: int = FORMAT
    ) -> None:
        """`view` is a whole, verified file; its sections begin at `start`."""
        self.parts: int = header["parts"]
        self.model: str = header["model"]
        self.sessions: tuple[str, ...] = tuple(header["sessions"])
        self.metadata: dict[str, Any] = header["metadata"]
        kind = np.dtype("<u2" if self.parts <= 1 << 16 else "<u4")

        def section(name: str) -> memoryview:
            offset, length = header["sections"].get(name, (0, 0))
            return view[start + offset : start + offset + length]

        def numbers(name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
            return np.frombuffer(section(name), dtype)

        def trie(name: str) -> Trie:
            mapped = Trie()
            if name in header["sections"]:
                mapped.map(section(name))
            return mapped

        self._view = view  # a trie doesn't hold its buffer: without the mapping it would crash
        self._trie = trie("sites")
        self._by_scheme = version == _SITES_BY_SCHEME
        self.sites = len(self._trie)
        self._directories = trie("directories")
        self._replicated = section("replicated")
        self.loads: Loads = numbers("loads", np.dtype("<i8")).reshape(-1, 2)  # none, or parts x 2
        self.url_keys: Keys = numbers("url_keys", np.dtype("<u8"))
        self.url_parts: Parts = numbers("url_parts", kind)
        # For single look-ups: memoryviews give plain integers, and faster than arrays.
        self._site_parts = numbers("site_parts", kind).data
        self._directory_parts = numbers("directory_parts", kind).data
        self._url_keys, self._url_parts = self.url_keys.data, self.url_parts.data

    @classmethod
    def open(cls, path: Path) -> "PartVector":
        """Map a file, after reading it once to verify its checksum.

        Raises PartVectorError if it isn't an intact part vector of this format, OSError.
        """
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _START:
                raise PartVectorError(_refusal(path, f"only {size} bytes, shorter than any"))
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        magic, version, header_length, length = _HEAD.unpack_from(view)
        if magic != _MAGIC:
            raise PartVectorError(_refusal(path, "not a part vector"))
        if version not in (FORMAT, _SITES_BY_SCHEME):
            raise PartVectorError(_refusal(path, f"format {version}"))
        if length != size:
            raise PartVectorError(_refusal(path, f"damaged, {size} of {length} bytes"))
        checksum = xxh3_64(view[: _HEAD.size])
        checksum.update(view[_START:])
        if checksum.intdigest() != _CHECKSUM.unpack_from(view, _HEAD.size)[0]:
            raise PartVectorError(_refusal(path, "damaged, its checksum is wrong"))
        start = _START + header_length
        return cls(view, json.loads(bytes(view[_START:start])), start, version)

    def site_part(self, site: str) -> int | None:
        """The part of a site, or None if the vector lacks it."""
        number = self._trie.get(site)
        if number is None and self._by_scheme:
            numbers = map(self._trie.get, old_site_names(site))
            number = next((one for one in numbers if one is not None), None)
        return None if number is None else self._site_parts[number]

    def url_part(self, key: int) -> int | None:
        """The part of a page by its URL key, or None if it isn't listed by itself."""
        at = bisect_left(self._url_keys, key)
        if at < len(self._url_keys) and self._url_keys[at] == key:
            return self._url_parts[at]
        return None

    def part(self, key: int, site: str) -> int | None:
        """The part of a page: its own if it is listed by itself, or else that of its site."""
        part = self.url_part(key)
        return self.site_part(site) if part is None else part

    def part_of_url(self, url: str, key: int, site: str) -> int | None:
        """The part of a page: its own, or else that of the nearest directory, or else its site's.

        Differs from `part` only for pages not listed of sites that lie in several parts.
        """
        part = self.url_part(key)
        if part is not None:
            return part
        part = self.directory_part(url)
        return self.site_part(site) if part is None else part

    @property
    def has_directories(self) -> bool:
        return len(self._directory_parts) > 0

    def directory_part(self, url: str) -> int | None:
        """The part of the nearest listed directory that a URL is in, or None."""
        if not self._directory_parts:
            return None  # the common case, at no cost
        above = self._directories.prefixes(url.partition("?")[0])
        return self._directory_parts[self._directories[above[-1]]] if above else None

    @cached_property
    def replicated(self) -> tuple[str, ...]:
        """The URLs that every rank knows from the start, the most linked-to first."""
        text = bytes(self._replicated).decode()
        return tuple(text.split("\n")) if text else ()

    def __repr__(self) -> str:
        return (
            f"<PartVector {self.model}: {self.parts} parts,"
            f" {self.sites} sites, {len(self.url_keys)} URLs>"
        )


def _refusal(path: Path, what: str) -> str:
    return f"{path}: {what}; needed is a part vector of format {FORMAT}, as partition build writes"
