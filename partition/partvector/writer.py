"""Writes a part vector, whole or not at all."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64

from partition.partvector.layout import (
    CHECKSUM,
    FORMAT,
    HEAD,
    MAGIC,
    START,
    Keys,
    Loads,
    Parts,
    directory_key,
    name_key,
    padded,
    part_type,
)


def write(
    path: Path,
    *,
    parts: int,
    sites: Mapping[str, int],
    model: str,
    urls: tuple[Keys, Parts] | None = None,
    directories: Mapping[str, int] | Mapping[tuple[str, str], int] | None = None,
    loads: Loads | None = None,
    replicated: Sequence[str] = (),
    sessions: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a part vector. A reader sees the old file or the whole new one, never a piece.

    `urls`: URL keys, each once and in any order, and their parts. `directories`: pairs of a
    site and a directory (the start of URLs, up to a slash), or directories alone, which hold
    for all sites. `loads`: the bytes and requests of each part. `metadata`: small JSON data.
    Raises ValueError for a part out of range, a repeated key, a NUL in a name, or a line end in
    a replicated URL, and OSError.
    """
    kind = part_type(parts)
    sections: dict[str, bytes] = {}
    names = sorted(sites, key=name_key)
    numbers = [sites[name] for name in names]
    sections["site_keys"] = _ascending([name_key(name) for name in names], "sites")
    sections["site_parts"] = _checked(numbers, parts).astype(kind).tobytes()
    sections["site_names"] = "\0".join(names).encode()
    if directories is not None:
        places = {_place(where): number for where, number in directories.items()}
        inside = sorted(places, key=lambda place: directory_key(*place))
        numbers = [places[place] for place in inside]
        keys = [directory_key(*place) for place in inside]
        sections["directory_keys"] = _ascending(keys, "directories")
        sections["directory_parts"] = _checked(numbers, parts).astype(kind).tobytes()
        divided = sorted({name_key(site) for site, _ in inside})
        sections["directory_sites"] = _ascending(divided, "directories")
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
        url_keys, url_parts = urls
        order = np.argsort(url_keys)
        ascending = url_keys[order]
        if len(url_keys) != len(url_parts) or (ascending[1:] == ascending[:-1]).any():
            raise ValueError("urls: must have one part for each key")
        sections["url_keys"] = ascending.astype("<u8").tobytes()
        sections["url_parts"] = _checked(url_parts, parts)[order].astype(kind).tobytes()

    # Offsets count from the end of the header. Otherwise they would change its length.
    offsets, offset = {}, 0
    for name, content in sections.items():
        offsets[name] = [offset, len(content)]
        offset += padded(len(content))
    header = json.dumps(
        {
            "parts": parts,
            "model": model,
            "sessions": list(sessions),
            "metadata": dict(metadata or {}),
            "sections": offsets,
        },
        sort_keys=True,
    ).encode()
    header = header.ljust(padded(len(header)))
    head = HEAD.pack(MAGIC, FORMAT, len(header), START + len(header) + offset)
    body = [header, *(content.ljust(padded(len(content)), b"\0") for content in sections.values())]
    checksum = xxh3_64(head)
    for piece in body:
        checksum.update(piece)

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines([head, CHECKSUM.pack(checksum.intdigest()), *body])
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _place(where: str | tuple[str, str]) -> tuple[str, str]:
    return ("", where) if isinstance(where, str) else where


def _ascending(keys: Sequence[int], what: str) -> bytes:
    array = np.array(keys, "<u8")
    if (array[1:] == array[:-1]).any():
        raise ValueError(f"{what}: two have the same hash; a part vector can't hold both")
    return array.tobytes()


def _checked(numbers: Parts | Sequence[int], parts: int) -> npt.NDArray[np.int64]:
    array = np.asarray(numbers, np.int64)
    if len(array) and not (array.min() >= 0 and array.max() < parts):
        raise ValueError(f"parts: must be from 0 to {parts - 1}")
    return array
