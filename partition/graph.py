"""From tables to the web graph: the tables of one or several sessions, or a folder with a graph.

A web graph holds no URL texts: tables are read in batches, and of a text only its length and its
site are kept. Whoever needs the texts of some pages has them read again, by `WebGraph.texts`.
"""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from publicsuffixlist import PublicSuffixList

from crawler import url
from partition import UserError
from partition.webgraph import Ids, Ints, Keys, WebGraph, from_arrays

_OUT_OF_SCOPE: Final = 128  # flag of a link in a session's tables: recorded, never followed
_BATCH_ROWS: Final = 1 << 18


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
    else what session.toml says a site is: the authority, or the registrable domain. Pages are
    ordered by key and sites by name, so that the order of rows, which differs from crawl to crawl,
    doesn't matter.
    """
    sites = _Sites(domains=_sites_are_domains(folders))
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
        texts=_SessionTexts(folders, key[order]),
    )


def _sites_are_domains(folders: Sequence[Path]) -> bool:
    """Whether a site is a registrable domain in these sessions; an authority if nothing is said."""
    said: dict[str, Path] = {}
    for folder in folders:
        path = folder.parent / "session.toml"
        if path.exists():
            try:
                table = tomllib.loads(path.read_text()).get("assignment", {})
                said.setdefault(table.get("site", "authority"), path)
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError) as error:
                raise UserError(f"{path}: not the file of a session: {error}") from None
    if len(said) > 1:
        paths = " and ".join(map(str, said.values()))
        raise UserError(f"{paths}: assignment.site differs; must be the same in all sessions")
    return "domain" in said


class _SessionTexts:
    """Reads the URLs of pages from the tables of sessions, where they stand by key."""

    def __init__(self, folders: Sequence[Path], key: Keys) -> None:
        self._folders = folders
        self._key = key

    def __call__(self, pages: Ids) -> list[str]:
        if not len(pages):
            return []
        wanted, back = np.unique(self._key[pages], return_inverse=True)
        texts = np.full(len(wanted), None, object)
        columns = {"pages": ("key", "url"), "links": ("target_key", "target_url")}
        missing = len(wanted)
        for table, (key_column, url_column) in columns.items():
            for folder in self._folders:
                for batch in _batches(folder / f"{table}.parquet", key_column, url_column):
                    if not missing:
                        break
                    at, known = _find(wanted, batch[key_column].to_numpy())
                    rows = np.flatnonzero(known)
                    texts[at[rows]] = batch[url_column].take(pa.array(rows)).to_pylist()
                missing = sum(text is None for text in texts)
        found: list[str] = texts[back].tolist()
        return found


def addresses(session: Path) -> dict[str, str]:
    """The server's address of each site, as the session connected to it last. Raises UserError."""
    path = session / "tables" / "sites.parquet"
    try:
        table = pq.read_table(path, columns=["site", "address"])
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: addresses are needed, of a session: {error}") from None
    rows = zip(table["site"].to_pylist(), table["address"].to_pylist(), strict=True)
    return {site: address for site, address in rows if address is not None}


def from_directory(folder: Path, site_column: str = "site") -> WebGraph:
    """The graph in a folder: pages.parquet (id, url?, site, bytes?) and links.parquet (src, dst).

    Page ids may be any integers; the pages keep the order of their rows. Raises UserError.
    """
    path = folder / "pages.parquet"
    sites = _Sites(domains=False)
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
        texts=_DirectoryTexts(folder) if "key" in page else None,
    )


class _DirectoryTexts:
    """Reads the URLs of pages from a folder with a graph, whose rows are the pages in order."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pages.parquet"

    def __call__(self, pages: Ids) -> list[str]:
        wanted, back = np.unique(pages, return_inverse=True)
        texts: list[str] = []
        first = 0
        for batch in _batches(self._path, "url"):
            low, high = np.searchsorted(wanted, [first, first + len(batch)])
            texts += batch["url"].take(pa.array(wanted[low:high] - first)).to_pylist()
            first += len(batch)
        return [texts[at] for at in back.tolist()]


class _Sites:
    """Numbers sites as they come, and learns from fetched pages which site an authority is of."""

    def __init__(self, *, domains: bool) -> None:
        self._numbers: dict[str, int] = {}
        self._site_at: dict[str, str] = {}
        self._suffixes = PublicSuffixList() if domains else None

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
        site = self._site_at.get(authority)
        if site is None:
            site = self._site_at[authority] = self._site(authority)
        return self._number(site)

    def _site(self, authority: str) -> str:
        if self._suffixes is None:
            return authority
        host = url.host(authority)
        if host.replace(".", "").isdigit() or ":" in host:
            return host  # an address has no domain
        return self._suffixes.privatesuffix(host) or host

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
