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
from crawler.regular import regular
from partition import UserError
from partition.webgraph import Ids, Ints, Keys, WebGraph, find, from_arrays, total

_OUT_OF_SCOPE: Final = 128  # flag of a link in a session's tables: recorded, never followed
_BATCH_ROWS: Final = 1 << 18
_INTEGERS: Final = frozenset(
    ("id", "src", "dst", "bytes", "key", "source_key", "target_key", "flags")
)
_TEXTS: Final = frozenset(("url", "target_url"))


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
    never fetched is a page of 0 bytes; its site is what session.toml says a site is: the host with
    its port, or the registrable domain; or, if no file says so, that of the fetched pages at its
    authority. Sites of earlier versions get the names that they have today. Pages are
    ordered by key and sites by name, so that the order of rows, which differs from crawl to crawl,
    doesn't matter.
    """
    kind = _kind_of_site(folders)
    sites = _Sites(domains=kind == "domain")
    fetched = _fetched(folders, sites, learns=kind != "authority")
    if fetched is None:
        return from_arrays([], [], site=[], sites=[])
    key, session, size, length, site = fetched
    sources, targets = [np.empty(0, np.int32)], [np.empty(0, np.uint64)]  # places in `key`; keys
    unfetched = [(key[:0], site[:0], length[:0])]
    for number, folder in enumerate(folders):
        path = folder / "links.parquet"
        for batch in batches(path, "source_key", "target_key", "target_url", "flags"):
            source, known = find(key, batch["source_key"].to_numpy())
            if not known.all():
                raise UserError(f"{path}: a source_key isn't in pages.parquet; each must be")
            in_scope = batch["flags"].to_numpy() & _OUT_OF_SCOPE == 0
            wanted = np.flatnonzero(in_scope & (session[source] == number))
            target = batch["target_key"].to_numpy()[wanted]
            sources.append(source[wanted].astype(np.int32))
            targets.append(target)
            new = np.flatnonzero(~find(key, target)[1])
            new_key, first = np.unique(target[new], return_index=True)
            texts = batch["target_url"].take(pa.array(wanted[new[first]]))
            unfetched.append((new_key, sites.of(texts), _lengths(texts)))
    new_key, new_site, new_length = (np.concatenate(c) for c in zip(*unfetched, strict=True))
    new_key, first = np.unique(new_key, return_index=True)
    site, length = np.append(site, new_site[first]), np.append(length, new_length[first])
    size = np.append(size, np.zeros(len(new_key), np.int64))

    _check_sum(folders[0] / "pages.parquet", size)
    old_key, key = key, np.append(key, new_key)
    order = np.argsort(key)
    key = key[order]
    names, site = sites.by_name(site[order])
    place = np.searchsorted(key, old_key).astype(np.int32)
    return from_arrays(
        place[np.concatenate(sources)],
        np.concatenate([np.searchsorted(key, target).astype(np.int32) for target in targets]),
        site=site,
        sites=names,
        bytes=size[order],
        url_bytes=length[order],
        key=key,
        texts=_SessionTexts(folders, key),
    )


def _fetched(
    folders: Sequence[Path], sites: "_Sites", *, learns: bool
) -> tuple[Keys, Ids, Ints, Ids, Ids] | None:
    """The fetched pages in the order of their keys: key, number of the session that fetched them
    last, bytes, length of the URL, site. `learns`: `sites` learns from the pages."""
    rows: list[tuple[Any, ...]] = []
    for number, folder in enumerate(folders):
        for batch in batches(folder / "pages.parquet", "key", "site", "bytes", "time", "url"):
            if learns:
                sites.learn(batch["url"], batch["site"])
            rows.append(
                (
                    batch["key"].to_numpy(),
                    np.full(len(batch), number, np.int32),
                    batch["time"].to_numpy(),
                    batch["bytes"].to_numpy(),
                    _lengths(batch["url"]),
                    sites.numbers(batch["site"]),
                )
            )
    if not rows:
        return None
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    del rows
    key, session, time = columns[:3]
    order = np.lexsort((time, session, key))
    last = order[np.append(key[order][1:] != key[order][:-1], True)]  # of the rows of each key
    key, session, _, size, length, site = (column[last] for column in columns)
    return key, session, size, length, site


def _kind_of_site(folders: Sequence[Path]) -> str | None:
    """What these sessions call a site, by their `assignment.site`; None if no file says so."""
    said: dict[str, Path] = {}
    for folder in folders:
        path = folder.parent / "session.toml"
        if path.exists():
            try:
                table = tomllib.loads(regular(path).read_text()).get("assignment", {})
                said.setdefault(table.get("site", "authority"), path)
            except (ValueError, AttributeError, OSError) as error:
                raise UserError(f"{path}: not the file of a session: {error}") from None
    if len(said) > 1:
        paths = " and ".join(map(str, said.values()))
        raise UserError(f"{paths}: assignment.site differs; must be the same in all sessions")
    return next(iter(said), None)


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
                for batch in batches(folder / f"{table}.parquet", key_column, url_column):
                    if not missing:
                        break
                    at, known = find(wanted, batch[key_column].to_numpy())
                    rows = np.flatnonzero(known)
                    texts[at[rows]] = batch[url_column].take(pa.array(rows)).to_pylist()
                missing = sum(text is None for text in texts)
        found: list[str] = texts[back].tolist()
        return found


def addresses(session: Path) -> dict[str, str]:
    """The server's address of each site, as the session connected to it last. Raises UserError."""
    path = session / "tables" / "sites.parquet"
    try:
        table = pq.read_table(regular(path), columns=["site", "address"])
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: addresses are needed, of a session: {error}") from None
    rows = zip(table["site"].to_pylist(), table["address"].to_pylist(), strict=True)
    # Of an earlier version's two sites of a host, https:// comes last and counts.
    return {url.renamed_site(site): address for site, address in rows if address is not None}


def from_directory(folder: Path, site_column: str = "site") -> WebGraph:
    """The graph in a folder: pages.parquet (id, url?, site, bytes?) and links.parquet (src, dst).

    Page ids may be any integers; the pages keep the order of their rows. Raises UserError.
    """
    path = folder / "pages.parquet"
    sites = _Sites(domains=False)
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
            pieces.setdefault("url_bytes", []).append(_lengths(batch["url"]))
    if not pieces:
        return from_arrays([], [], site=[], sites=[])
    page = {name: np.concatenate(arrays) for name, arrays in pieces.items()}
    order = np.argsort(page["id"])
    ids = page["id"][order]
    if (ids[1:] == ids[:-1]).any():
        raise UserError(f"{path}: an id occurs twice; each page must have its own")
    if "bytes" in page:
        if page["bytes"].min() < 0:
            raise UserError(f"{path}: bytes: a negative number; must be 0 or more")
        _check_sum(path, page["bytes"])
    texts = _DirectoryTexts(folder) if "key" in page else None
    if texts is not None:
        by_key = np.argsort(page["key"], kind="stable")
        keys = page["key"][by_key]
        again = np.flatnonzero(keys[1:] == keys[:-1])
        if len(again):
            (text,) = texts(by_key[again[:1]].astype(np.int32))
            raise UserError(f"{path}: url: {text} stands in two rows; each page must have its own")

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
    """Models read the host and the directories of a URL. Raises UserError for other texts."""
    good = pc.match_substring_regex(texts, r"^https?://[^/?#]")
    if not pc.all(good).as_py():
        text = texts[pc.index(good, False).as_py()].as_py()[:100]
        raise UserError(
            f"{path}: url: {text!r} is no http or https URL; correct it, or leave out the column"
        )


def _check_sum(path: Path, sizes: npt.NDArray[np.integer[Any]]) -> None:
    if total(sizes) >= 1 << 63:
        raise UserError(f"{path}: bytes: sum to 2^63 or more; must be less")


class _DirectoryTexts:
    """Reads the URLs of pages from a folder with a graph, whose rows are the pages in order."""

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


class _Sites:
    """Numbers sites as they come, and learns from fetched pages which site an authority is of."""

    def __init__(self, *, domains: bool) -> None:
        self._numbers: dict[str, int] = {}
        self._site_at: dict[str, str] = {}
        self._suffixes = PublicSuffixList() if domains else None

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(url.renamed_site(name), len(self._numbers))

    def numbers(self, names: pa.Array) -> Ids:
        encoded = names.dictionary_encode()
        distinct = [self._number(str(name)) for name in encoded.dictionary.to_pylist()]
        numbers: Ids = np.array(distinct, np.int32)[encoded.indices.to_numpy()]
        return numbers

    def learn(self, texts: pa.Array, names: pa.Array) -> None:
        pairs = pa.table({"authority": _authorities(texts), "site": names})
        for pair in pairs.group_by(["authority", "site"]).aggregate([]).to_pylist():
            self._site_at[pair["authority"]] = url.renamed_site(pair["site"])

    def of(self, texts: pa.Array) -> Ids:
        """The numbers of the sites of normalised URLs."""
        authorities = _authorities(texts).dictionary_encode()
        sites = [self._site_of(authority) for authority in authorities.dictionary.to_pylist()]
        distinct = np.array([self._number(site) for site in sites], np.int32)
        numbers: Ids = distinct[authorities.indices.to_numpy()]
        return numbers

    def _site_of(self, authority: str) -> str:
        if authority in self._site_at:
            return self._site_at[authority]
        if self._suffixes is None:
            return url.site(authority)
        host = url.host_of_site(url.site(authority))
        if host.replace(".", "").isdigit() or ":" in host:
            return host  # an address has no domain
        return self._suffixes.privatesuffix(host) or host

    def by_name(self, numbers: Ids) -> tuple[list[str], Ids]:
        """The names in order, and the numbers changed to theirs."""
        for name in self._numbers:
            if not _is_site(name):
                raise UserError(f"site: {name!r} names none; must be a host, or any word")
        names = sorted(self._numbers)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        mapped: Ids = place[numbers]
        return names, mapped


def _is_site(name: str) -> bool:
    """Whether something that is called a site has a name that could be looked up."""
    if not name.strip() or "\0" in name:
        return False
    if name.startswith("["):
        return "]" in name
    if not name.startswith(("//", "http://", "https://")):
        return True  # any name will do that doesn't claim to be an address
    try:
        return bool(url.host(name))
    except (ValueError, IndexError):
        return False


def _authorities(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"^([a-z]+://[^/]*).*", r"\1")


def _lengths(texts: pa.Array) -> Ids:
    return np.asarray(pc.binary_length(texts).to_numpy(), np.int32)


def batches(path: Path, *columns: str, optional: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, batch by batch: these columns, no value of which may be null.

    Those that this module knows are integers or texts; of others any type will do. Raises
    UserError where that isn't what the file holds.
    """
    try:
        with pq.ParquetFile(regular(path)) as file:
            present = {field.name: field.type for field in file.schema_arrow}
            for name in columns:
                if name not in present:
                    raise UserError(f"{path}: no column {name}; needed: {', '.join(columns)}")
            wanted = [*columns, *(name for name in optional if name in present)]
            for name in wanted:
                _check_type(path, name, present[name])
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
                for name in wanted:
                    if batch[name].null_count:
                        raise UserError(f"{path}: {name}: null in a row; each needs a value")
                    _check_texts(path, name, batch[name])
                yield batch
    except OSError as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise UserError(f"{path}: {what}; a Parquet file is needed") from None
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a Parquet file: {error}") from None


def _check_texts(path: Path, name: str, column: pa.Array) -> None:
    if name not in _TEXTS:
        return
    column.validate(full=True)  # UTF-8
    with_nul = pc.index(pc.match_substring(column, "\0"), value=True).as_py()
    if with_nul >= 0:
        raise UserError(f"{path}: {name}: {column[with_nul].as_py()!r}: has a NUL; must have none")


def _check_type(path: Path, name: str, kind: pa.DataType) -> None:
    types = pa.types
    if types.is_nested(kind):
        raise UserError(f"{path}: {name}: is {kind}; must be single values")
    if types.is_null(kind):
        return  # of a column without rows, or of nulls, which are found
    if name in _INTEGERS and not types.is_integer(kind):
        raise UserError(f"{path}: {name}: is {kind}; must be integers")
    if name in _TEXTS and not (types.is_string(kind) or types.is_large_string(kind)):
        raise UserError(f"{path}: {name}: is {kind}; must be strings")
