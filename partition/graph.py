"""The web graph: pages, their sites, and the links between pages; and the site graph made of it.

A `WebGraph` comes from the tables of one or several sessions, from a folder with a graph from
elsewhere, or from arrays. It holds no URL texts: tables are read in batches, and of a text only its
length and its site are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawler import url
from partition import UserError

_OUT_OF_SCOPE: Final = 128  # flag of a link in a session's tables: recorded, never followed
_BATCH_ROWS: Final = 1 << 18

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class WebGraph:
    """n pages and m links, in compressed rows: page i links to `adj[xadj[i]:xadj[i + 1]]`.

    The targets in a row ascend; none occurs twice, none is i itself. Every page is one request of
    the next session, also a page that a link in the scope points to and that was never fetched.
    """

    key: Keys  # URL keys
    site: Ids  # numbers into `sites`
    bytes: Ints  # of the payload; 0 if never fetched
    url_bytes: Ids  # length of the URL
    sites: tuple[str, ...]
    xadj: Ints  # n + 1
    adj: Ids  # m

    @property
    def pages(self) -> int:
        return len(self.key)

    @property
    def links(self) -> int:
        return len(self.adj)

    def sources(self) -> Ids:
        """The source page of each link, in the order of `adj`."""
        return np.repeat(np.arange(self.pages, dtype=np.int32), np.diff(self.xadj))


class Graph(NamedTuple):
    """An undirected graph with two weights a vertex; each edge stands in the rows of both ends."""

    xadj: Ints  # vertices + 1
    adj: Ids
    costs: Ints  # of the edges in `adj`, each at least 1
    weights: Ints  # vertices x 2: bytes, requests


def from_arrays(
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    *,
    site: npt.ArrayLike,
    sites: Sequence[str] | None = None,
    bytes: npt.ArrayLike | None = None,  # noqa: A002 - the name of the column
    url_bytes: npt.ArrayLike | None = None,
    key: npt.ArrayLike | None = None,
) -> WebGraph:
    """A web graph from links (page numbers; repeated ones and self-links go) and page columns.

    Without sizes every page has 1 byte; without lengths every URL is 1 byte long, so that volume
    counts links; without keys they are made from the page numbers; without names a site is called
    by its number.
    """
    site_ids = np.asarray(site, np.int32)
    n = len(site_ids)
    if sites is None:
        sites = [str(number) for number in range(int(site_ids.max(initial=-1)) + 1)]
    rows = np.int64(max(n, 1))
    links = np.asarray(src, np.int64) * rows + np.asarray(dst, np.int64)  # one number a link
    links.sort()
    keep = links // rows != links % rows
    keep[1:] &= links[1:] != links[:-1]
    links = links[keep]
    return WebGraph(
        key=_mixed(np.arange(n, dtype=np.uint64)) if key is None else np.asarray(key, np.uint64),
        site=site_ids,
        bytes=np.ones(n, np.int64) if bytes is None else np.asarray(bytes, np.int64),
        url_bytes=np.ones(n, np.int32) if url_bytes is None else np.asarray(url_bytes, np.int32),
        sites=tuple(sites),
        xadj=np.searchsorted(links, np.arange(n + 1, dtype=np.int64) * rows),
        adj=(links % rows).astype(np.int32),
    )


def _mixed(x: Keys) -> Keys:
    """Spread numbers over all 64-bit numbers, one to one (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def read(paths: Sequence[Path], site_column: str = "site") -> WebGraph:
    """The graph of sessions (later ones win), or of one folder with a graph.

    Raises UserError where that isn't what the paths hold, or where there are no pages.
    """
    tables = [path / "tables" for path in paths]
    if len(paths) == 1 and (paths[0] / "pages.parquet").is_file():
        web = from_directory(paths[0], site_column)
    else:
        for path, folder in zip(paths, tables, strict=True):
            if not folder.is_dir():
                allowed = "a session that has ended, with tables/"
                if len(paths) == 1:
                    allowed += ", or a graph, with pages.parquet and links.parquet"
                raise UserError(f"{path}: must be {allowed}")
        web = from_sessions(tables)
    if not web.pages:
        raise UserError(f"{paths[0]}: the graph is empty; at least one page is needed")
    return web


def from_sessions(folders: Sequence[Path]) -> WebGraph:
    """The graph in the `tables` folders of sessions, oldest first; raises UserError.

    A page fetched more than once takes its size from the last time, and its links from the last
    session that has it. Links out of scope are left out, redirects are links. A target that was
    never fetched is a page of 0 bytes; its site is that of the fetched pages at its authority, or
    else the authority. Pages are ordered by key and sites by name, so that the order of rows, which
    differs from crawl to crawl, doesn't matter.
    """
    sites = _Sites()
    batches: list[tuple[Any, ...]] = []
    for number, folder in enumerate(folders):
        for batch in _batches(folder / "pages.parquet", "key", "site", "bytes", "time", "url"):
            sites.learn(batch["url"], batch["site"])
            batches.append(
                (
                    batch["key"].to_numpy(),
                    np.full(len(batch), number, np.int32),
                    batch["time"].to_numpy(),
                    batch["bytes"].to_numpy(),
                    _lengths(batch["url"]),
                    sites.numbers(batch["site"]),
                )
            )
    if not batches:
        return from_arrays([], [], site=[], sites=[])
    columns = [np.concatenate(column) for column in zip(*batches, strict=True)]
    del batches
    key, session, time = columns[:3]
    order = np.lexsort((time, session, key))
    last = order[np.append(key[order][1:] != key[order][:-1], True)]  # of the rows of each key
    key, session, _, size, length, site = (column[last] for column in columns)

    # Pages never fetched are numbered after the fetched ones here, and all by key at the end.
    unfetched = _Unfetched(len(key), sites)
    sources, targets = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for number, folder in enumerate(folders):
        path = folder / "links.parquet"
        for batch in _batches(path, "source_key", "target_key", "target_url", "flags"):
            source, known = _find(key, batch["source_key"].to_numpy())
            if not known.all():
                raise UserError(f"{path}: a source_key isn't in pages.parquet; each must be")
            in_scope = batch["flags"].to_numpy() & _OUT_OF_SCOPE == 0
            wanted = in_scope & (session[source] == number)
            target_key = batch["target_key"].to_numpy()
            target, known = _find(key, target_key)
            new = np.flatnonzero(wanted & ~known)
            target[new] = unfetched.numbers(
                target_key[new], batch["target_url"].take(pa.array(new))
            )
            sources.append(source[wanted].astype(np.int32))
            targets.append(target[wanted].astype(np.int32))

    key = np.append(key, np.fromiter(unfetched.number_of, np.uint64))
    order = np.argsort(key)
    place = np.empty(len(key), np.int32)
    place[order] = np.arange(len(key), dtype=np.int32)
    names, site = sites.by_name(np.append(site, np.array(unfetched.sites, np.int32)))
    return from_arrays(
        place[np.concatenate(sources)],
        place[np.concatenate(targets)],
        site=site[order],
        sites=names,
        bytes=np.append(size, np.zeros(len(unfetched.sites), np.int64))[order],
        url_bytes=np.append(length, np.array(unfetched.lengths, np.int32))[order],
        key=key[order],
    )


def from_directory(folder: Path, site_column: str = "site") -> WebGraph:
    """The graph in a folder: pages.parquet (id, url?, site, bytes?) and links.parquet (src, dst).

    Page ids may be any integers; the pages keep the order of their rows. Raises UserError.
    """
    path = folder / "pages.parquet"
    sites = _Sites()
    pieces: dict[str, list[Any]] = {}
    for batch in _batches(path, "id", site_column, optional=("url", "bytes")):
        pieces.setdefault("id", []).append(batch["id"].to_numpy())
        pieces.setdefault("site", []).append(sites.numbers(batch[site_column]))
        if "bytes" in batch.schema.names:
            pieces.setdefault("bytes", []).append(batch["bytes"].to_numpy())
        if "url" in batch.schema.names:
            texts = batch["url"].to_pylist()
            pieces.setdefault("key", []).append(np.fromiter(map(url.key, texts), np.uint64))
            pieces.setdefault("url_bytes", []).append(_lengths(batch["url"]))
    if not pieces:
        return from_arrays([], [], site=[], sites=[])
    page = {name: np.concatenate(arrays) for name, arrays in pieces.items()}
    order = np.argsort(page["id"])
    ids = page["id"][order]
    if (ids[1:] == ids[:-1]).any():
        raise UserError(f"{path}: an id occurs twice; each page must have its own")
    if "bytes" in page and page["bytes"].min() < 0:
        raise UserError(f"{path}: bytes: a negative number; must be 0 or more")

    path = folder / "links.parquet"
    ends: dict[str, list[Ids]] = {name: [np.empty(0, np.int32)] for name in ("src", "dst")}
    for batch in _batches(path, *ends):
        for name, arrays in ends.items():
            at, known = _find(ids, batch[name].to_numpy())
            if not known.all():
                stranger = batch[name][int(np.argmin(known))]
                raise UserError(f"{path}: {name} {stranger}: must be the id of a page")
            arrays.append(order[at].astype(np.int32))
    names, site = sites.by_name(page["site"])
    return from_arrays(
        np.concatenate(ends["src"]),
        np.concatenate(ends["dst"]),
        site=site,
        sites=names,
        bytes=page.get("bytes"),
        url_bytes=page.get("url_bytes"),
        key=page.get("key"),
    )


def site_graph(web: WebGraph) -> Graph:
    """The site graph of the thesis: a vertex a site, an edge between two that link to each other.

    A vertex weighs what its pages do; an edge costs the lengths of the URLs of all links between
    the two, in both directions. So the cost of the edges cut is the volume.
    """
    n = len(web.sites)
    source, target = web.site[web.sources()], web.site[web.adj]
    outside = np.flatnonzero(source != target)
    source, target = source[outside], target[outside]
    pair = np.minimum(source, target).astype(np.int64) * n + np.maximum(source, target)
    edges, edge = np.unique(pair, return_inverse=True)
    costs = np.bincount(edge, web.url_bytes[web.adj[outside]], len(edges)).astype(np.int64)
    low, high = edges // max(n, 1), edges % max(n, 1)
    rows, columns = np.append(low, high), np.append(high, low)
    order = np.lexsort((columns, rows))
    weights = np.bincount(web.site, web.bytes, n), np.bincount(web.site, minlength=n)
    return Graph(
        xadj=np.searchsorted(rows[order], np.arange(n + 1)),
        adj=columns[order].astype(np.int32),
        costs=np.maximum(np.append(costs, costs)[order], 1),
        weights=np.stack(weights, axis=1).astype(np.int64),
    )


class _Sites:
    """Numbers sites as they come, and learns from fetched pages which site an authority is of."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._site_at: dict[str, str] = {}

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def numbers(self, names: pa.Array) -> Ids:
        encoded = names.dictionary_encode()
        distinct = [self._number(str(name)) for name in encoded.dictionary.to_pylist()]
        numbers: Ids = np.array(distinct, np.int32)[encoded.indices.to_numpy()]
        return numbers

    def learn(self, texts: pa.Array, names: pa.Array) -> None:
        if pc.all(pc.match_substring(names, "://")).as_py():
            return  # the sites are authorities themselves
        authorities = pc.replace_substring_regex(texts, r"^([a-z]+://[^/]*).*", r"\1")
        pairs = pa.table({"authority": authorities, "site": names})
        for pair in pairs.group_by(["authority", "site"]).aggregate([]).to_pylist():
            self._site_at[pair["authority"]] = pair["site"]

    def of(self, text: str) -> int:
        """The number of the site of a normalised URL."""
        authority = url.authority(text)
        return self._number(self._site_at.get(authority, authority))

    def by_name(self, numbers: Ids) -> tuple[list[str], Ids]:
        """The names in order, and the numbers changed to theirs."""
        names = sorted(self._numbers)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        mapped: Ids = place[numbers]
        return names, mapped


class _Unfetched:
    """Numbers pages that were never fetched, from `start` on, as links to them come."""

    def __init__(self, start: int, sites: _Sites) -> None:
        self.number_of: dict[int, int] = {}  # by key, in order of number
        self.sites: list[int] = []
        self.lengths: list[int] = []
        self._start = start
        self._sites = sites

    def numbers(self, keys: Keys, texts: pa.Array) -> Ints:
        distinct, first, back = np.unique(keys, return_index=True, return_inverse=True)
        numbers = np.empty(len(distinct), np.int64)
        for at, (key, row) in enumerate(zip(distinct.tolist(), first.tolist(), strict=True)):
            if key not in self.number_of:
                text = texts[row].as_py()
                self.number_of[key] = self._start + len(self.sites)
                self.sites.append(self._sites.of(text))
                self.lengths.append(len(text))
            numbers[at] = self.number_of[key]
        return numbers[back]


def _find(ascending: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[Ints, npt.NDArray[Any]]:
    """Where each value stands, and whether it does; `ascending` isn't empty."""
    at = np.searchsorted(ascending, values)
    at[at == len(ascending)] = 0
    return at, ascending[at] == values


def _lengths(texts: pa.Array) -> Ids:
    return np.asarray(pc.binary_length(texts).to_numpy(), np.int32)


def _batches(path: Path, *columns: str, optional: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, batch by batch: these columns, no value of which may be null."""
    try:
        with pq.ParquetFile(path) as file:
            present = file.schema_arrow.names
            for name in columns:
                if name not in present:
                    raise UserError(f"{path}: no column {name}; needed: {', '.join(columns)}")
            wanted = [*columns, *(name for name in optional if name in present)]
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
                for name in wanted:
                    if batch[name].null_count:
                        raise UserError(f"{path}: {name}: null in a row; each needs a value")
                yield batch
    except OSError as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise UserError(f"{path}: {what}; a Parquet file is needed") from None
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a Parquet file: {error}") from None
