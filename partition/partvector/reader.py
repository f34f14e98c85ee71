"""Reads a part vector: a file mapped into memory, verified once."""

import json
import mmap
import os
from bisect import bisect_left
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64, xxh3_64_intdigest

from crawler.regular import regular
from partition.partvector import old
from partition.partvector.layout import (
    CHECKSUM,
    FORMAT,
    HEAD,
    MAGIC,
    START,
    Keys,
    Loads,
    Parts,
    PartVectorError,
    directory_key,
    name_key,
    part_type,
)


class PartVector:
    """A part vector mapped into memory. `PartVector.open` opens one."""

    def __init__(self, view: memoryview, header: dict[str, Any], start: int, version: int) -> None:
        """`view` is a whole, verified file; its sections begin at `start`.

        Raises ValueError if the header or a section isn't what it should be.
        """
        self.parts: int = _known(header["parts"], int)
        self.model: str = _known(header["model"], str)
        self.sessions = tuple(_known(name, str) for name in _known(header["sessions"], list))
        self.metadata: dict[str, Any] = _known(header["metadata"], dict)
        places: dict[str, Any] = _known(header["sections"], dict)
        kind = part_type(self.parts)

        def section(name: str) -> memoryview:
            offset, length = (_known(number, int) for number in places.get(name, (0, 0)))
            if not 0 <= offset <= offset + length <= len(view) - start:
                raise ValueError(f"{name}: isn't within the file")
            return view[start + offset : start + offset + length]

        def keys(name: str) -> Keys:
            found: Keys = np.frombuffer(section(name), np.dtype("<u8"))
            if (found[1:] <= found[:-1]).any():
                raise ValueError(f"{name}: must be ascending")
            return found

        def numbers(name: str, number: int) -> npt.NDArray[Any]:
            found = np.frombuffer(section(name), kind)
            if len(found) != number or (number and int(found.max()) >= self.parts):
                raise ValueError(f"{name}: must be {number} parts below {self.parts}")
            return found

        if self.parts < 1:
            raise ValueError("parts: must be 1 or more")
        self._view = view
        self._replicated = section("replicated")
        self.url_keys: Keys = keys("url_keys")
        self.url_parts: Parts = numbers("url_parts", len(self.url_keys))
        loads = np.frombuffer(section("loads"), np.dtype("<i8"))
        if len(loads) not in (0, 2 * self.parts):
            raise ValueError(f"loads: must be {self.parts} x 2")
        self.loads: Loads = loads.reshape(-1, 2)  # (0, 2) or (parts, 2)
        # For single look-ups. Memoryviews return plain integers, faster than arrays do.
        self._url_keys, self._url_parts = self.url_keys.data, self.url_parts.data
        self._old: old.Tables | None = None
        if version != FORMAT:
            self._old = old.Tables(section, numbers)
            self.sites = self._old.sites
            self.has_directories = self._old.has_directories
            return
        site_keys = keys("site_keys")
        self.sites = len(site_keys)
        self._site_names = section("site_names")
        self._site_keys = site_keys.data
        self._site_parts = numbers("site_parts", self.sites).data
        directory_keys = keys("directory_keys")
        self._directory_keys = directory_keys.data
        self._directory_parts = numbers("directory_parts", len(directory_keys)).data
        self.has_directories = len(directory_keys) > 0
        self._divided = frozenset(keys("directory_sites").tolist())
        self._for_all_sites = name_key("") in self._divided

    @classmethod
    def open(cls, path: Path) -> "PartVector":
        """Map a file, after verifying its checksum.

        Raises PartVectorError if it isn't an intact part vector of a known format, and
        OSError.
        """
        with regular(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < START:
                raise PartVectorError(_refusal(path, f"{size} bytes, shorter than any part vector"))
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        magic, version, header_length, length = HEAD.unpack_from(view)
        if magic != MAGIC:
            raise PartVectorError(_refusal(path, "not a part vector"))
        if version not in (FORMAT, old.FORMAT):
            raise PartVectorError(_refusal(path, f"format {version}"))
        if length != size:
            raise PartVectorError(_refusal(path, f"damaged, {size} of {length} bytes"))
        checksum = xxh3_64(view[: HEAD.size])
        checksum.update(view[START:])
        if checksum.intdigest() != CHECKSUM.unpack_from(view, HEAD.size)[0]:
            raise PartVectorError(_refusal(path, "damaged, its checksum is wrong"))
        start = START + header_length
        if start > size:
            raise PartVectorError(_refusal(path, "damaged, its header isn't within it"))
        try:
            header = _known(json.loads(bytes(view[START:start])), dict)
            return cls(view, header, start, version)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise PartVectorError(_refusal(path, f"damaged, {error}")) from None

    def site_part(self, site: str) -> int | None:
        """Return the part of a site, or None if the vector lacks it."""
        if self._old is not None:
            return self._old.site_part(site)
        key = xxh3_64_intdigest(site.encode())
        at = bisect_left(self._site_keys, key)
        if at < self.sites and self._site_keys[at] == key:
            return self._site_parts[at]
        return None

    def url_part(self, key: int) -> int | None:
        """Return the part of a page listed by its URL key, or None if it isn't listed."""
        at = bisect_left(self._url_keys, key)
        if at < len(self._url_keys) and self._url_keys[at] == key:
            return self._url_parts[at]
        return None

    def part(self, key: int, site: str) -> int | None:
        """Return the part of a page: its own if it is listed, or else that of its site."""
        part = self.url_part(key)
        return self.site_part(site) if part is None else part

    def part_of_url(self, url: str, key: int, site: str) -> int | None:
        """Return the part of a page: its own, or that of its nearest directory, or its site's.

        It differs from `part` only for unlisted pages of sites that lie in several parts.
        """
        part = self.url_part(key)
        if part is not None:
            return part
        part = self.directory_part(url, site)
        return self.site_part(site) if part is None else part

    def divides(self, site: str) -> bool:
        """Return whether `directory_part` may find a directory for URLs of a site."""
        if self._old is not None or not self.has_directories:
            return self.has_directories
        return self._for_all_sites or xxh3_64_intdigest(site.encode()) in self._divided

    def directory_part(self, url: str, site: str = "") -> int | None:
        """Return the part of the nearest directory of a site that a URL is in, or None.

        Without a site, only directories that hold for all sites count.
        """
        if not self.has_directories:
            return None  # the common case
        if self._old is not None:
            return self._old.directory_part(url)
        owners = [""] if self._for_all_sites else []
        if site and xxh3_64_intdigest(site.encode()) in self._divided:
            owners.append(site)
        if not owners:
            return None
        path = url.partition("?")[0]
        first = path.find("://") + 3
        end = len(path)
        while (slash := path.rfind("/", first, end)) >= 0:
            for owner in owners:
                key = directory_key(owner, path[: slash + 1])
                at = bisect_left(self._directory_keys, key)
                if at < len(self._directory_keys) and self._directory_keys[at] == key:
                    return self._directory_parts[at]
            end = slash
        return None

    @cached_property
    def site_names(self) -> tuple[str, ...]:
        """The names of all sites. Raises PartVectorError if they can't be read."""
        if self._old is not None:
            return self._old.site_names
        try:
            names = bytes(self._site_names).decode().split("\0") if self.sites else []
        except UnicodeDecodeError as error:
            raise PartVectorError(f"site_names: damaged, {error}") from None
        return tuple(names)

    @cached_property
    def replicated(self) -> tuple[str, ...]:
        """The URLs that every rank knows from the start, the most linked-to first."""
        try:
            text = bytes(self._replicated).decode()
        except UnicodeDecodeError as error:
            raise PartVectorError(f"replicated: damaged, {error}") from None
        return tuple(text.split("\n")) if text else ()

    def __repr__(self) -> str:
        return (
            f"<PartVector {self.model}: {self.parts} parts,"
            f" {self.sites} sites, {len(self.url_keys)} URLs>"
        )


def _known(value: Any, kind: type) -> Any:
    """Return the value if it is of this type."""
    if type(value) is not kind:
        raise ValueError(f"{kind.__name__} needed, not {type(value).__name__}")
    return value


def _refusal(path: Path, what: str) -> str:
    return f"{path}: {what}; give a part vector of format {FORMAT}; partition build writes one"
