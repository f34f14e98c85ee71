"""Imports graphs as text: pairs of ids, WebGraph's ASCIIGraph, and tables of two columns."""

import gzip
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from crawler import url
from partition import UserError
from partition.arrays import Ints, distinct
from partition.importers.pages import Imported, Say, with_urls, without_urls

_BLOCK: Final = 1 << 24  # bytes of text read at a time
_COMMENT: Final = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)
_DIGITS: Final = 19  # numbers with fewer fit into 64 bits
_MOST_NODES: Final = (1 << 31) - 1  # pages have numbers of 32 bits
_PAIR: Final = re.compile(rb"^[ \t]*\d{1,18}[ \t]+\d{1,18}[ \t\r]*$", re.MULTILINE)


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def snap(files: Sequence[Path], say: Say) -> Imported:
    """Read lines of two ids separated by blanks. Lines that begin with # are comments."""
    blocks = [np.empty(0, np.int64)]
    for path in files:
        for block in _blocks(path):
            text = _COMMENT.sub(b"", block)
            wrong = _PAIR.sub(b"", text).strip()
            if wrong:
                line = wrong.splitlines()[0].decode(errors="replace")
                raise UserError(f"{path}: {line!r}: each line must be two whole numbers")
            if text.strip():
                blocks.append(np.fromstring(text, np.int64, sep=" "))
    links = np.concatenate(blocks).reshape(-1, 2)
    return without_urls(distinct(links)), links[:, 0].copy(), links[:, 1].copy()


def _blocks(path: Path) -> Iterator[bytes]:
    """Read the text in pieces of whole lines."""
    try:
        with _open(path) as file:
            rest = b""
            while block := file.read(_BLOCK):
                lines, end, tail = (rest + block).rpartition(b"\n")
                yield lines + end
                rest = tail
            yield rest
    except (gzip.BadGzipFile, EOFError) as error:
        raise UserError(f"{path}: not an intact gzip file: {error}") from None


def webgraph(files: Sequence[Path], say: Say) -> Imported:
    """Read WebGraph's ASCIIGraph: the number of nodes, then a line of successors for each."""
    (path,) = files
    degrees, successors = array("q"), array("q")
    lines = (line for block in _blocks(path) for line in block.splitlines())
    first = next(lines, b"").strip()
    if not first.isdigit():
        raise UserError(f"{path}: line 1: must be the number of nodes")
    nodes = int(first) if len(first) < _DIGITS else _MOST_NODES + 1
    if nodes > _MOST_NODES:
        raise UserError(f"{path}: line 1: {_MOST_NODES:,} nodes at most")
    try:
        for line in lines:
            numbers = array("q", map(int, line.split()))
            degrees.append(len(numbers))
            successors.extend(numbers)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"{path}: line {len(degrees) + 2}: must be whole numbers: {error}"
        ) from None
    # A node without successors has an empty line. Empty lines at the end may be missing.
    if len(degrees) > nodes and not sum(degrees[nodes:]):
        degrees = degrees[:nodes]
    if len(degrees) > nodes:
        raise UserError(
            f"{path}: {len(degrees)} lines of successors; must have {nodes}, one a node"
        )
    dst = np.frombuffer(successors, np.int64) if successors else np.empty(0, np.int64)
    if len(dst) and not 0 <= dst.min() <= dst.max() < nodes:
        raise UserError(f"{path}: a successor isn't one of the nodes 0 to {nodes - 1}")
    src = np.repeat(np.arange(len(degrees)), np.array(degrees, np.int64))
    return without_urls(np.arange(nodes)), src, dst


def edges(files: Sequence[Path], say: Say) -> Imported:
    """Read CSV, or TSV if the first line has a tab: two columns of URLs or ids.

    The file may have a header line and further columns.
    """
    columns: list[pa.Array] = []
    for path in files:
        try:
            columns += _two_columns(path)
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            what = str(error).partition("\n")[0]
            raise UserError(f"{path}: must be CSV or TSV of two columns: {what}") from None
    ends = pa.chunked_array(columns, pa.string()).combine_chunks().dictionary_encode()
    names = ends.dictionary.to_pylist()
    number = ends.indices.to_numpy()
    # The sources of each file come first, then its targets.
    sizes = [len(column) for column in columns]
    is_source = np.repeat(np.arange(len(columns)) % 2 == 0, sizes)
    src, dst = number[is_source], number[~is_source]
    if all(name.strip().isdecimal() for name in names):
        if any(len(name.strip()) >= _DIGITS for name in names):
            raise UserError(f"{files[0]}: an id has {_DIGITS} digits or more; must have fewer")
        ids = np.array([int(name) for name in names], np.int64)
        return without_urls(distinct(ids)), ids[src], ids[dst]
    pages, page_of = _pages_of_urls(names)
    src, dst = page_of[src], page_of[dst]
    good = (src >= 0) & (dst >= 0)
    if not good.all():
        say(f"left out: {int((~good).sum()):,} links whose ends aren't both http or https URLs")
    return pages, src[good], dst[good]


def _two_columns(path: Path) -> list[pa.Array]:
    with _open(path) as file:
        first = file.readline()
    delimiter = "\t" if b"\t" in first else ","
    cells = first.decode(errors="replace").strip().split(delimiter)[:2]
    heading = not all(re.fullmatch(r'\s*(\d+|"?https?:.*)', cell, re.IGNORECASE) for cell in cells)
    table = pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(
            autogenerate_column_names=True, skip_rows=1 if heading else 0
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=["f0", "f1"], column_types={"f0": pa.string(), "f1": pa.string()}
        ),
    )
    return [table[name].combine_chunks() for name in ("f0", "f1")]


def _pages_of_urls(texts: Sequence[str]) -> tuple[pa.Table, Ints]:
    """Return pages ordered by normalised URL, and the page of each text (-1 for none)."""
    normal: list[str | None] = []
    for text in texts:
        try:
            normal.append(url.normalise(text.strip()))
        except url.BadUrlError:
            normal.append(None)
    pages = sorted({text for text in normal if text is not None})
    number = {text: at for at, text in enumerate(pages)}
    page_of = np.array([-1 if text is None else number[text] for text in normal], np.int64)
    return with_urls(pages), page_of
