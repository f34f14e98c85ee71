"""Reads the web graph of sessions from their tables."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crawler import url
from crawler.dataset import read_table, table_path
from crawler.regular import regular
from partition import UserError
from partition.arrays import Ids, Ints, Keys, find
from partition.graph.batches import batches, check_sum, lengths
from partition.graph.sites import Sites
from partition.webgraph import WebGraph, from_arrays

_REQUISITE: Final = "requisite"  # a role in a session's tables
OUT_OF_SCOPE: Final = 128  # flag of a link in a session's tables: recorded, never followed


def from_sessions(folders: Sequence[Path]) -> WebGraph:
    """Read the graph in the `tables` folders of sessions, oldest first. Raises UserError.

    If a page was fetched more than once, its size is that of the last fetch, and its links are
    those of the last session that has it. Links out of scope are left out. Redirects count as
    links. Requisites (`extract.requisites`) are left out, because no link leads to them.

    A target that was never fetched is a page of 0 bytes. session.toml says what a site is: the
    host with its port, or the registrable domain. If no file says so, the site of such a target
    is that of the fetched pages of its authority. Site names written by earlier versions are
    changed to today's names.

    Pages are ordered by key and sites by name, so the order of rows doesn't matter. It differs
    from crawl to crawl.
    """
    kind = kind_of_site(folders)
    sites = Sites(domains=kind == "domain")
    fetched = _fetched(folders, sites, learns=kind != "authority")
    if fetched is None:
        return from_arrays([], [], site=[], sites=[])
    key, session, size, length, site = fetched
    sources, targets = [np.empty(0, np.int32)], [np.empty(0, np.uint64)]  # indices, keys
    unfetched = [(key[:0], site[:0], length[:0])]
    for number, folder in enumerate(folders):
        path = table_path(folder, "links")
        for batch in batches(path, "source_key", "target_key", "target_url", "flags"):
            source, known = find(key, batch["source_key"].to_numpy())
            if not known.all():
                raise strange_source(path)
            in_scope = batch["flags"].to_numpy() & OUT_OF_SCOPE == 0
            wanted = np.flatnonzero(in_scope & (session[source] == number))
            target = batch["target_key"].to_numpy()[wanted]
            sources.append(source[wanted].astype(np.int32))
            targets.append(target)
            new = np.flatnonzero(~find(key, target)[1])
            new_key, first = np.unique(target[new], return_index=True)
            texts = batch["target_url"].take(pa.array(wanted[new[first]]))
            unfetched.append((new_key, sites.of(texts), lengths(texts)))
    new_key, new_site, new_length = (np.concatenate(c) for c in zip(*unfetched, strict=True))
    new_key, first = np.unique(new_key, return_index=True)
    site, length = np.append(site, new_site[first]), np.append(length, new_length[first])
    size = np.append(size, np.zeros(len(new_key), np.int64))

    check_sum(table_path(folders[0], "pages"), size)
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
        texts=SessionTexts(folders, key),
    )


def seeds(folder: Path, web: WebGraph) -> Ids:
    """Return the pages of the web that were seeds of the session with this `tables` folder."""
    at, known = find(web.key, seed_keys(folder))
    pages: Ids = at[known].astype(np.int32)
    return pages


def seed_keys(folder: Path) -> Keys:
    """Return the keys of the pages that were seeds of a session, in the order of their rows."""
    keys = [np.empty(0, np.uint64)]
    for every in batches(table_path(folder, "pages"), "key", optional=["hops", "role"]):
        batch = without_requisites(every)
        if "hops" in batch.schema.names:
            keys.append(batch["key"].to_numpy()[batch["hops"].to_numpy() == 0])
    return np.concatenate(keys)


def _fetched(
    folders: Sequence[Path], sites: Sites, *, learns: bool
) -> tuple[Keys, Ids, Ints, Ids, Ids] | None:
    """Return the columns of the fetched pages, ordered by key, or None if there are none.

    The columns: key, number of the session that fetched the page last, bytes, length of the
    URL, site. With `learns`, `sites` learns the sites of authorities from the pages.
    """
    rows: list[tuple[Any, ...]] = []
    for number, folder in enumerate(folders):
        names = "key", "site", "bytes", "time", "url"
        for every in batches(table_path(folder, "pages"), *names, optional=["role"]):
            batch = without_requisites(every)
            if learns:
                sites.learn(batch["url"], batch["site"])
            rows.append(
                (
                    batch["key"].to_numpy(),
                    np.full(len(batch), number, np.int32),
                    batch["time"].to_numpy(),
                    batch["bytes"].to_numpy(),
                    lengths(batch["url"]),
                    sites.numbers(batch["site"]),
                )
            )
    if not rows:
        return None
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    del rows
    last = latest(*columns[:3])
    key, session, _, size, length, site = (column[last] for column in columns)
    return key, session, size, length, site


def latest(key: Keys, session: Ids, time: npt.NDArray[Any]) -> Ints:
    """Return the row with the last fetch of each page, ordered by key."""
    order = np.lexsort((time, session, key))
    last: Ints = order[np.append(key[order][1:] != key[order][:-1], True)[: len(key)]]
    return last


def strange_source(path: Path) -> UserError:
    """Return the error of a table of links from a page that the table of pages lacks."""
    return UserError(f"{path}: a source_key isn't in the table pages; each must be")


def without_requisites(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of pages. What is fetched only to show a page is no page of the graph."""
    if "role" not in batch.schema.names:
        return batch
    return batch.filter(pc.not_equal(batch["role"], _REQUISITE))


def kind_of_site(folders: Sequence[Path]) -> str | None:
    """Return the `assignment.site` of these sessions, or None if no file says so."""
    said: dict[str, Path] = {}
    for folder in folders:
        path = folder.parent / "session.toml"
        if path.exists():
            try:
                table = tomllib.loads(regular(path).read_text()).get("assignment", {})
                said.setdefault(table.get("site", "authority"), path)
            except (ValueError, RecursionError, AttributeError, OSError) as error:
                raise UserError(f"{path}: not the file of a session: {error}") from None
    if len(said) > 1:
        paths = " and ".join(map(str, said.values()))
        raise UserError(f"{paths}: assignment.site differs; must be the same in all sessions")
    return next(iter(said), None)


class SessionTexts:
    """Reads the URLs of pages from the tables of sessions, which are ordered by key."""

    def __init__(self, folders: Sequence[Path], key: Keys) -> None:
        self._folders = folders
        self._key = key

    def __call__(self, pages: Ids) -> list[str]:
        """Return the URLs of pages, by their numbers."""
        if not len(pages):
            return []
        wanted, back = np.unique(self._key[pages], return_inverse=True)
        texts = np.full(len(wanted), None, object)
        columns = {"pages": ("key", "url"), "links": ("target_key", "target_url")}
        missing = len(wanted)
        for table, (key_column, url_column) in columns.items():
            for folder in self._folders:
                path = table_path(folder, table)
                for batch in batches(path, key_column, url_column):
                    if not missing:
                        break
                    at, known = find(wanted, batch[key_column].to_numpy())
                    rows = np.flatnonzero(known)
                    texts[at[rows]] = batch[url_column].take(pa.array(rows)).to_pylist()
                missing = sum(text is None for text in texts)
        found: list[str] = texts[back].tolist()
        return found


def addresses(session: Path) -> dict[str, str]:
    """Return the server's address of each site, as last connected to. Raises UserError."""
    path = table_path(session / "tables", "sites")
    try:
        table = read_table(path, ["site", "address"])
        rows = zip(table["site"].to_pylist(), table["address"].to_pylist(), strict=True)
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: can't read the addresses of a session: {error}") from None
    # An earlier version had two sites for a host. The one with https:// comes last and wins.
    return {url.renamed_site(site): address for site, address in rows if address is not None}
