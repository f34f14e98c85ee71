"""Reads the web graph of a graph folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crawler import url
from partition import UserError
from partition.arrays import Ids, find
from partition.graph.batches import batches, check_sum, lengths
from partition.graph.sites import Sites
from partition.webgraph import WebGraph, from_arrays


def from_directory(folder: Path, site_column: str = "site") -> WebGraph:
    """Read a graph folder: pages.parquet (id, url?, site, bytes?) and links.parquet (src, dst).

    Page ids may be any integers. The pages keep the order of their rows. Raises UserError.
    """
    path = folder / "pages.parquet"
    sites = Sites(domains=False)
    pieces: dict[str, list[Any]] = {}
    for batch in batches(path, "id", site_column, optional=("url", "bytes")):
        pieces.setdefault("id", []).append(batch["id"].to_numpy())
        pieces.setdefault("site", []).append(sites.numbers(batch[site_column]))
        if "bytes" in batch.schema.names:
            pieces.setdefault("bytes", []).append(batch["bytes"].to_numpy())
        if "url" in batch.schema.names:
            _check_urls(path, batch["url"])
            texts = batch["url"].to_pylist()
            pieces.setdefault("key", []).append(np.fromiter(map(url.key, texts), np.uint64))
            pieces.setdefault("url_bytes", []).append(lengths(batch["url"]))
    if not pieces:
        return from_arrays([], [], site=[], sites=[])
    page = {name: np.concatenate(arrays) for name, arrays in pieces.items()}
    order = np.argsort(page["id"])
    ids = page["id"][order]
    if (ids[1:] == ids[:-1]).any():
        raise UserError(f"{path}: an id occurs twice; give each page an id of its own")
    if "bytes" in page:
        check_sum(path, page["bytes"])
    texts = _DirectoryTexts(folder) if "key" in page else None
    if texts is not None:
        by_key = np.argsort(page["key"], kind="stable")
        keys = page["key"][by_key]
        again = np.flatnonzero(keys[1:] == keys[:-1])
        if len(again):
            (text,) = texts(by_key[again[:1]].astype(np.int32))
            raise UserError(f"{path}: url: {text} is in two rows; give each page a URL of its own")

    path = folder / "links.parquet"
    ends: dict[str, list[Ids]] = {name: [np.empty(0, np.int32)] for name in ("src", "dst")}
    for batch in batches(path, *ends):
        for name, arrays in ends.items():
            at, known = find(ids, batch[name].to_numpy())
            if not known.all():
                stranger = batch[name][int(np.argmin(known))]
                raise UserError(f"{path}: {name} {stranger}: must be the id of a page")
            arrays.append(order[at].astype(np.int32))
    names, site = sites.by_name(page["site"])
    return from_arrays(
        np.concatenate(ends.pop("src")),
        np.concatenate(ends.pop("dst")),
        site=site,
        sites=names,
        bytes=page.get("bytes"),
        url_bytes=page.get("url_bytes"),
        key=page.get("key"),
        texts=texts,
    )


def _check_urls(path: Path, texts: pa.Array) -> None:
    """Raise UserError for texts that aren't URLs. Models need a URL's host and directories."""
    good = pc.match_substring_regex(texts, r"^https?://[^/?#]")
    if not pc.all(good).as_py():
        text = texts[pc.index(good, False).as_py()].as_py()[:100]
        raise UserError(
            f"{path}: url: {text!r} is no http or https URL; correct it, or leave out the column"
        )


class _DirectoryTexts:
    """Reads the URLs of pages from a graph folder, whose rows are the pages in order."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pages.parquet"

    def __call__(self, pages: Ids) -> list[str]:
        wanted, back = np.unique(pages, return_inverse=True)
        texts: list[str] = []
        first = 0
        for batch in batches(self._path, "url"):
            low, high = np.searchsorted(wanted, [first, first + len(batch)])
            texts += batch["url"].take(pa.array(wanted[low:high] - first)).to_pylist()
            first += len(batch)
        return [texts[at] for at in back.tolist()]
