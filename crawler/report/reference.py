"""A known web that a crawl is compared with, divided among the processes.

Each process reads some of the row groups of the tables. A page goes to the process that holds its
key (`together.by_holder`), and a link to the holder of its source and then to that of its target.
This takes about 120 bytes for each link of a process. They are free again when the importance of
the pages is known.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from crawler import arrow, url
from crawler.arrays import distinct
from crawler.dataset import table_files, table_path
from crawler.ports import OUT_OF_SCOPE, PAGE, Peers, UserError
from crawler.report.importance import pagerank_together, places_together
from crawler.report.measures import position
from crawler.session.together import everywhere, in_rounds, mine, to_holders

_Keys = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]

_PAGES: Final = {"session": ["key", "status"], "graph": ["id", "url"]}
_LINKS: Final = {"session": ["source_key", "target_key", "flags"], "graph": ["src", "dst"]}


class Web(NamedTuple):
    """The pages of a known web that a process holds."""

    keys: _Keys  # of their URLs, ascending
    # For back-links and for PageRank: the place of each page in the order of the whole web, from 0.
    places: Sequence[_Numbers]
    pages: int  # of all processes

    @classmethod
    async def read(cls, path: Path, peers: Peers) -> Self:
        """Read together a session, or a graph folder of the partitioning job.

        Of a session, the pages that were fetched with status 200 count. A graph folder must have
        URLs, and all its pages count. A repeated link counts once. A link counts only between two
        different pages. Raises UserError for anything else, on the process that meets it.
        """
        found = await peers.bcast(_Tables.find(path) if peers.rank == 0 else None)
        assert found is not None
        if found.kind == "session":
            keys, _ = await to_holders(found.read(found.pages, _fetched, peers), 0, peers)
            sources, targets = await to_holders(found.read(found.links, _followed, peers), 0, peers)
        else:
            keys, sources, targets = await _by_key(found, peers)
        keys = distinct(keys)
        real = (position(keys, sources) >= 0) & (sources != targets)
        sources, targets = await to_holders(in_rounds(sources[real], targets[real]), 1, peers)
        at = position(keys, targets)
        sources, at = _each_once(sources[at >= 0], at[at >= 0])
        back_links = np.bincount(at, minlength=len(keys))
        pagerank = await pagerank_together(keys, sources, at, peers)
        places = [await places_together(one, keys, peers) for one in (back_links, pagerank)]
        return cls(keys, places, sum(await everywhere(peers, len(keys))))


class _Tables(NamedTuple):
    """The row groups of the tables of a web, in their order: their files and numbers."""

    path: Path
    kind: str  # "session" or "graph"
    pages: Sequence[tuple[Path, int]]
    links: Sequence[tuple[Path, int]]

    @classmethod
    def find(cls, path: Path) -> Self:
        """Find the tables in a folder. Raises UserError if they or their columns are missing."""
        tables = path / "tables" if (path / "tables").is_dir() else path
        with _mistakes_told(path):
            columns, pages = _row_groups(table_path(tables, "pages"))
            kind = "session" if "key" in columns else "graph"
            found, links = _row_groups(table_path(tables, "links"))
            for name in (*_PAGES[kind], *_LINKS[kind]):
                if name not in columns | found:
                    raise KeyError(f"no column {name}")
        return cls(path, kind, pages, links)

    def read(
        self,
        groups: Sequence[tuple[Path, int]],
        choose: Callable[[pa.Table], tuple[_Keys, _Keys]],
        peers: Peers,
    ) -> Iterator[tuple[_Keys, _Keys]]:
        """Yield what `choose` returns for each of the row groups that this process reads."""
        wanted = [*_PAGES[self.kind], *_LINKS[self.kind], "role"]
        for file, number in mine(groups, peers):
            with _mistakes_told(self.path), pq.ParquetFile(file) as opened:
                chosen = choose(opened.read_row_group(number, wanted))
            yield chosen


@contextmanager
def _mistakes_told(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid, KeyError, IndexError, ValueError) as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else "unusable"
        raise UserError(
            f"{path}: {what}: {str(error).splitlines()[0]}; name a session with its tables, or"
            " a graph with pages.parquet (id, url) and links.parquet (src, dst)"
        ) from None


def _row_groups(path: Path) -> tuple[set[str], list[tuple[Path, int]]]:
    """Return the names of a table's columns, and its row groups."""
    columns, groups = set[str](), []
    for file in table_files(path):
        with pq.ParquetFile(file) as opened:
            columns.update(opened.schema_arrow.names)
            groups += [(file, number) for number in range(opened.num_row_groups)]
    return columns, groups


def _fetched(pages: pa.Table) -> tuple[_Keys, _Keys]:
    """The keys of the pages of a session that count, twice, because all rows have two columns."""
    if "role" in pages.column_names:
        pages = arrow.filter_(pages, arrow.equal(pages["role"], PAGE))
    keys = arrow.filter_(pages, arrow.equal(pages["status"], 200))["key"].to_numpy()
    return keys, keys


def _followed(links: pa.Table) -> tuple[_Keys, _Keys]:
    """The sources and targets of the links of a session that count."""
    inside = links["flags"].to_numpy() & OUT_OF_SCOPE == 0
    return links["source_key"].to_numpy()[inside], links["target_key"].to_numpy()[inside]


def _named(pages: pa.Table) -> tuple[_Keys, _Keys]:
    """The ids and keys of the pages of a graph."""
    keys = [url.own_key(url.normalise(address)) for address in pages["url"].to_pylist()]
    return pages["id"].to_numpy().astype(np.uint64), np.array(keys, np.uint64)


def _ends(links: pa.Table) -> tuple[_Keys, _Keys]:
    """The ids of the sources and targets of the links of a graph."""
    return links["src"].to_numpy().astype(np.uint64), links["dst"].to_numpy().astype(np.uint64)


async def _by_key(found: _Tables, peers: Peers) -> tuple[_Keys, _Keys, _Keys]:
    """Return the keys of a graph's pages, and its links as keys, at the holders of their sources.

    The process that an id names knows the key of its page.
    """
    ids, keys = await to_holders(found.read(found.pages, _named, peers), 0, peers)
    known, first = np.unique(ids, return_index=True)
    sources, targets = await to_holders(found.read(found.links, _ends, peers), 0, peers)
    at = position(known, sources)
    rows = in_rounds(keys[first[at[at >= 0]]], targets[at >= 0])
    sources, targets = await to_holders(rows, 1, peers)
    at = position(known, targets)
    rows = in_rounds(sources[at >= 0], keys[first[at[at >= 0]]])
    sources, targets = await to_holders(rows, 0, peers)
    keys, _ = await to_holders(in_rounds(keys, keys), 0, peers)
    return keys, sources, targets


def _each_once(sources: _Keys, targets: _Numbers) -> tuple[_Keys, _Numbers]:
    """Return the different links, in the order of their targets and sources."""
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
    return sources[new], targets[new]
