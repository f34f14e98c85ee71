"""Writes the link graph of a session: as pairs of URLs, or in WebGraph's ASCII form.

The pages of the graph are the URLs that gave a response, each once, and its links are the links
between them. A redirect is a link. The logs are read twice, first for the pages, then for the
links, so memory holds no link: a page takes about 30 bytes of it, however many links there are.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
import numpy.typing as npt
from isal import igzip

from crawler import session, url
from crawler.arrays import distinct
from crawler.ports import PAGE

# The targets of so many links, of at most so many pages, are looked up at a time.
_LINKS: Final = 1 << 20
_PAGES: Final = 1 << 14

Ids = npt.NDArray[np.int32]


class _Nodes:
    """The pages of the graph, numbered from 0 in the order of the logs.

    If a URL gave several responses, the page is the last one.
    """

    def __init__(self, pages: Iterator[session.LoggedPage]) -> None:
        keys = np.frombuffer(array("Q", (page.row.key for page in pages)), np.uint64)
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], np.ones(min(1, len(keys)), np.bool_))
        self._keys, order = keys[last], order[last]
        self.counts = np.zeros(len(keys), np.bool_)  # for each response: whether it is a page
        self.counts[order] = True
        self._ids = (np.cumsum(self.counts, dtype=np.int32) - np.int32(1))[order]

    def __len__(self) -> int:
        return len(self._keys)

    def ids(self, keys: npt.NDArray[np.uint64]) -> Ids:
        """Return the number of the page with each key, -1 where no page has it."""
        if not len(self):
            return np.full(len(keys), -1, np.int32)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        return np.where(self._keys[at] == keys, self._ids[at], np.int32(-1))


def write_edges(directory: Path, path: Path) -> list[str]:
    """Write a line for each link: the URL of its page, a tab, and the URL of its target.

    The file is compressed if its name ends in `.gz`. Returns what was written.
    """
    nodes, links = _read_nodes(directory), 0
    with ExitStack() as stack:
        file = _open(stack, path)
        for page, ids in _read_links(directory, nodes):
            start = page.row.url
            known = [one for one, number in zip(page.urls, ids, strict=True) if number >= 0]
            file.write("".join([f"{start}\t{end}\n" for end in known]).encode())
            links += len(known)
    return [f"{path}: {links:,} links between {len(nodes):,} pages"]


def write_webgraph(directory: Path, base: Path) -> list[str]:
    """Write BASE.graph-txt, in WebGraph's ASCII form, and BASE.urls, with the URL of each page.

    The first line of the graph is the number of pages. Then a line for each page has the numbers of
    the pages that it links to, in ascending order. Returns what was written.
    """
    nodes, links = _read_nodes(directory), 0
    graph_path, urls_path = (base.with_name(f"{base.name}.{end}") for end in ("graph-txt", "urls"))
    with ExitStack() as stack:
        graph, urls = _open(stack, graph_path), _open(stack, urls_path)
        graph.write(f"{len(nodes)}\n".encode())
        for page, ids in _read_links(directory, nodes):
            successors = distinct(ids[ids >= 0]).tolist()
            graph.write((" ".join(map(str, successors)) + "\n").encode())
            urls.write(f"{page.row.url}\n".encode())
            links += len(successors)
    return [f"{graph_path}: {links:,} links", f"{urls_path}: {len(nodes):,} pages"]


def _open(stack: ExitStack, path: Path) -> IO[bytes]:
    """Open a file that replaces `path` at the end of the context; a `.gz` is compressed."""
    file: IO[bytes] = stack.enter_context(session.replacing(path))
    if path.suffix != ".gz":
        return file
    packed: Any = igzip.IGzipFile(fileobj=file, mode="wb", mtime=0)  # type: ignore[no-untyped-call]
    stack.callback(packed.close)  # before the file is closed
    return cast("IO[bytes]", packed)


def _read_nodes(directory: Path) -> _Nodes:
    url.tell_apart(session.given_up(directory))
    return _Nodes(_responses(directory))


def _responses(directory: Path) -> Iterator[session.LoggedPage]:
    logs = session.log_files(directory)
    for entry in session.read_latest(logs, session.Superseded.of(directory)):
        if not isinstance(entry, session.LoggedPage) or entry.row.role != PAGE:
            continue
        if entry.row.status is not None:
            yield entry


def _read_links(directory: Path, nodes: _Nodes) -> Iterator[tuple[session.LoggedPage, Ids]]:
    """Yield each page of the graph, with the numbers of its targets, -1 for those outside it."""
    some: list[session.LoggedPage] = []
    links = 0
    for page, counts in zip(_responses(directory), nodes.counts.tolist(), strict=True):
        if counts:
            some.append(page)
            links += len(page.flags)
            if links >= _LINKS or len(some) >= _PAGES:
                yield from _with_ids(some, nodes)
                some, links = [], 0
    if some:
        yield from _with_ids(some, nodes)


def _with_ids(
    pages: Sequence[session.LoggedPage], nodes: _Nodes
) -> Iterator[tuple[session.LoggedPage, Ids]]:
    keys = np.frombuffer(b"".join([page.packed_keys for page in pages]), "<u8")
    ends = np.cumsum([len(page.flags) for page in pages])
    return zip(pages, np.split(nodes.ids(keys), ends[:-1]), strict=True)
