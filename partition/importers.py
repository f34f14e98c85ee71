"""Graphs from elsewhere, made into graph folders (docs/graph.md): pages.parquet and links.parquet.

Each importer returns the pages and the links, as page ids. What it must leave out it counts and
says. Graphs whose pages have no URL have one site, `web`, which only page models and the hybrid
model can divide.
"""

import gzip
import re
import shutil
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]
from warcio.bufferedreaders import ChunkedDataReader  # type: ignore[import-untyped]
from warcio.exceptions import ArchiveLoadFailed  # type: ignore[import-untyped]

from crawler import url
from crawler.ports import Response
from crawler.reading.codings import undo
from crawler.reading.media import HTML, HTML_TYPES, types_of
from crawler.reading.parse import finish, form_of, read, read_headers
from partition import UserError, graph
from partition.webgraph import Ints, distinct, find

KINDS: Final = ("snap", "webgraph", "edges", "warc", "parquet")

_BLOCK: Final = 1 << 24  # bytes of text
_SITE: Final = "web"  # of pages without URLs
_MAX_BODY: Final = 100 << 20  # bytes, decoded; of a larger body the rest is left out
# Where links are taken from: as in a crawl by default.
ELEMENTS: Final = frozenset({"a", "area", "frame", "iframe", "link", "refresh"})
_COMMENT: Final = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)
_PAIR: Final = re.compile(rb"^[ \t]*\d{1,18}[ \t]+\d{1,18}[ \t\r]*$", re.MULTILINE)

Say = Callable[[str], None]
Imported = tuple[pa.Table, Ints, Ints]  # pages; source and target ids of the links


def run(
    kind: str,
    files: Sequence[Path],
    out: Path,
    *,
    pages: Path | None = None,
    links: Path | None = None,
    site_column: str = "site",
    say: Say,
) -> None:
    """Make the folder `out`, which must not exist, of files of one of KINDS. Raises UserError."""
    if kind == "parquet":
        if pages is None or links is None or files:
            raise UserError("import parquet: needs --pages FILE and --links FILE, nothing else")
        imported = _parquet(pages, links, site_column)
    else:
        if not files or pages or links:
            raise UserError(f"import {kind}: needs the files, and no --pages or --links")
        for path in files:
            if not path.is_file():
                raise UserError(f"{path}: no such file")
        if kind == "webgraph" and len(files) > 1:
            raise UserError("import webgraph: one file is one graph")
        imported = {"snap": _snap, "webgraph": _webgraph, "edges": _edges, "warc": _warc}[kind](
            files, say
        )
    write(out, *imported)


def write(out: Path, pages: pa.Table, src: Ints, dst: Ints) -> None:
    """A graph folder, whole or not at all. Raises UserError if it is there or is no graph."""
    if out.exists() or not out.absolute().parent.is_dir():
        raise UserError(f"--out {out}: must be a new folder in one that exists")
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        pq.write_table(pages, temporary / "pages.parquet", compression="zstd")
        table = pa.table({"src": src, "dst": dst})
        pq.write_table(table, temporary / "links.parquet", compression="zstd")
        if not len(pages):
            raise UserError(f"--out {out}: there is no page in what was given")
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _without_urls(ids: Ints) -> pa.Table:
    site = pa.DictionaryArray.from_arrays(np.zeros(len(ids), np.int32), [_SITE])
    return pa.table({"id": ids, "site": site})


# --- Numbers ---------------------------------------------------------------------------------


def _snap(files: Sequence[Path], say: Say) -> Imported:
    """Lines of two ids, between them blanks; lines that begin with # are comments."""
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
    return _without_urls(distinct(links)), links[:, 0].copy(), links[:, 1].copy()


def _blocks(path: Path) -> Iterator[bytes]:
    """The text in pieces of whole lines."""
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


def _webgraph(files: Sequence[Path], say: Say) -> Imported:
    """WebGraph's ASCIIGraph: the number of nodes, then for each node a line of its successors."""
    (path,) = files
    degrees, successors = array("q"), array("q")
    lines = (line for block in _blocks(path) for line in block.splitlines())
    first = next(lines, b"").strip()
    if not first.isdigit():
        raise UserError(f"{path}: line 1: must be the number of nodes")
    nodes = int(first)
    try:
        for line in lines:
            numbers = array("q", map(int, line.split()))
            degrees.append(len(numbers))
            successors.extend(numbers)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"{path}: line {len(degrees) + 2}: must be whole numbers: {error}"
        ) from None
    # A node without successors has an empty line; the last ones may be missing with their ends.
    if len(degrees) > nodes and not sum(degrees[nodes:]):
        degrees = degrees[:nodes]
    if len(degrees) > nodes:
        raise UserError(f"{path}: {len(degrees)} lines of successors for {nodes} nodes")
    dst = np.frombuffer(successors, np.int64) if successors else np.empty(0, np.int64)
    if len(dst) and not 0 <= dst.min() <= dst.max() < nodes:
        raise UserError(f"{path}: a successor isn't one of the nodes 0 to {nodes - 1}")
    src = np.repeat(np.arange(len(degrees)), np.array(degrees, np.int64))
    return _without_urls(np.arange(nodes)), src, dst


# --- URLs ------------------------------------------------------------------------------------


def _edges(files: Sequence[Path], say: Say) -> Imported:
    """CSV or, with tabs, TSV: two columns of URLs or ids. More columns, and a heading, may be."""
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
    # Each file gave its sources, then its targets.
    sizes = [len(column) for column in columns]
    is_source = np.repeat(np.arange(len(columns)) % 2 == 0, sizes)
    src, dst = number[is_source], number[~is_source]
    if all(name.strip().isdecimal() for name in names):
        ids = np.array([int(name) for name in names], np.int64)
        return _without_urls(distinct(ids)), ids[src], ids[dst]
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
    """Pages in the order of their normalised URLs; the page of each text, -1 if it isn't one."""
    normal: list[str | None] = []
    for text in texts:
        try:
            normal.append(url.normalise(text.strip()))
        except url.BadUrlError:
            normal.append(None)
    pages = sorted({text for text in normal if text is not None})
    number = {text: at for at, text in enumerate(pages)}
    page_of = np.array([-1 if text is None else number[text] for text in normal], np.int64)
    return _with_urls(pages), page_of


def _with_urls(urls: Sequence[str], sizes: Sequence[int] | None = None) -> pa.Table:
    columns: dict[str, Any] = {
        "id": np.arange(len(urls)),
        "url": pa.array(urls, pa.string()),
        "site": pa.array(map(url.site, urls), pa.string()),
    }
    if sizes is not None:
        columns["bytes"] = pa.array(sizes, pa.int64())
    return pa.table(columns)


# --- WARC ------------------------------------------------------------------------------------


class _Captures:
    """The pages of WARC files: of each its size and its links."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.links: dict[str, list[str]] = {}
        self.cut: set[str] = set()  # pages whose content coding ends early or isn't known
        self.revisits: dict[str, str] = {}  # by page: the id of the record that has its payload

    def take(self, record: Any) -> None:
        """Note a response. A revisit has no payload: its links are in another record."""
        for page in _pages_of(record):
            if record.rec_type == "revisit":
                self.revisits[page] = record.rec_headers.get_header("WARC-Refers-To") or ""
            elif record.rec_type == "response" and record.http_headers is not None:
                self.revisits.pop(page, None)
                self._read(record, [page])

    def originals(self) -> Callable[[Any], None]:
        """What reads the records that revisits refer to, with the URLs of the revisits."""
        wanted: dict[str, list[str]] = {}
        for page, record_id in self.revisits.items():
            wanted.setdefault(record_id, []).append(page)

        def take(record: Any) -> None:
            if record.rec_type == "response" and record.http_headers is not None:
                pages = wanted.pop(record.rec_headers.get_header("WARC-Record-ID"), ())
                if pages:
                    self._read(record, pages)
                for page in pages:
                    del self.revisits[page]

        return take

    def _read(self, record: Any, pages: Sequence[str]) -> None:
        body, whole = _body(record)
        for page in pages:
            (self.cut.discard if whole else self.cut.add)(page)
            self.sizes[page], self.links[page] = _read(record.http_headers, body, page)


def _walk(files: Sequence[Path], take: Callable[[Any], None]) -> None:
    for path in files:
        try:
            with path.open("rb") as file:
                try:
                    _take_all(file, take)
                except ArchiveLoadFailed as error:
                    if _ONE_MEMBER not in str(error):
                        raise
                    file.seek(0)
                    with gzip.open(file) as unpacked:
                        _take_all(unpacked, take)
        except (ArchiveLoadFailed, EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = "".join(c if c.isprintable() else " " for c in str(error))
            reason = " ".join(reason.split())[:_MOST_SAID]
            raise UserError(f"{path}: not an intact WARC file: {reason}") from None


def _take_all(file: Any, take: Callable[[Any], None]) -> None:
    for record in ArchiveIterator(file):
        take(record)


_ONE_MEMBER: Final = "non-chunked gzip"  # what warcio says of a WARC file that was gzipped whole
_MOST_SAID: Final = 200  # characters of an error


def _pages_of(record: Any) -> list[str]:
    """The URL of a record, normalised; none for other kinds of URLs."""
    return _normal([record.rec_headers.get_header("WARC-Target-URI") or ""], "")


def _warc(files: Sequence[Path], say: Say) -> Imported:
    """The pages in WARC files, and the links between them; of a URL the last record counts.

    A redirect is a page of 0 bytes with a link to its target. A revisit has the payload of the
    record that it refers to, if that is in the files. Links to URLs that the files don't have are
    left out.
    """
    captures = _Captures()
    _walk(files, captures.take)
    if captures.revisits:
        _walk(files, captures.originals())
    pages, links = sorted(captures.sizes), captures.links
    number = {address: at for at, address in enumerate(pages)}
    src, dst = array("q"), array("q")
    missing = 0
    for source in pages:
        for target in links[source]:
            if target in number:
                src.append(number[source])
                dst.append(number[target])
            else:
                missing += 1
    if missing:
        say(f"left out: {missing:,} links to URLs that aren't in the files")
    if captures.revisits:
        say(f"left out: {len(captures.revisits):,} revisits of records that aren't in the files")
    if cut := len(captures.cut):
        say(f"read in part: {cut:,} pages whose content coding ends early or isn't known")
    table = _with_urls(pages, [captures.sizes[address] for address in pages])
    return table, np.array(src, np.int64), np.array(dst, np.int64)


def _read(headers: Any, body: bytes, address: str) -> tuple[int, list[str]]:
    """Size of the body, and the distinct URLs that a response links to, read as in a crawl."""
    status = headers.get_statuscode()
    location = headers.get_header("Location")
    if status[:1] == "3" and location:
        return 0, _normal([location], address)
    fields = [(name.encode(), (value or "").encode()) for name, value in headers.headers]
    response = Response(
        url=address,
        started=0.0,
        seconds=0.0,
        address=None,
        request_head=b"",
        version="",
        status=int(status) if status.isdecimal() else 0,
        reason="",
        headers=fields,
        payload=body,
        body=body,
    )
    if not response.has_page:
        return len(body), []
    media, label = types_of(response)
    if media in HTML_TYPES or label == HTML:
        page = finish(read(response, ELEMENTS, form=form_of(media, label)))
    else:
        page = read_headers(response, ELEMENTS)
    return len(body), [target for target, _ in page.links]


def _body(record: Any) -> tuple[bytes, bool]:
    """The body of a response, its codings undone, and whether it is whole.

    warcio knows fewer codings than servers and other programs' WARC files use.
    """
    transfer = _codings(record, "transfer-encoding")
    stream = record.raw_stream
    if "chunked" in transfer:
        stream = ChunkedDataReader(stream)
    codings = _codings(record, "content-encoding")
    codings += [coding for coding in transfer if coding != "chunked"]
    body, failure, _ = undo(codings, stream.read(), _MAX_BODY)
    return body, failure is None


def _codings(record: Any, header: str) -> list[str]:
    """The codings that all lines of a header name, in lower case."""
    lines = [value for name, value in record.http_headers.headers if name.lower() == header]
    return [coding.strip().lower() for coding in ",".join(lines).split(",") if coding.strip()]


def _normal(references: Sequence[str], base: str) -> list[str]:
    urls: dict[str, None] = {}
    for reference in references:
        try:
            urls[url.normalise(reference, base or None)] = None
        except url.BadUrlError:
            continue  # mailto: and the like
    return list(urls)


# --- Parquet ---------------------------------------------------------------------------------


def _parquet(pages: Path, links: Path, site_column: str) -> Imported:
    """Tables as in a graph folder, but with the sites in any column, or none if there are URLs."""
    optional = list(dict.fromkeys(("url", "bytes", site_column)))
    batches = list(graph.batches(pages, "id", optional=optional))
    if not batches:
        raise UserError(f"{pages}: there is no page in it")
    table = pa.Table.from_batches(batches)
    if site_column in table.column_names:
        names = table[site_column].cast(pa.string()).combine_chunks().dictionary_encode()
        renamed = pa.array(map(url.renamed_site, names.dictionary.to_pylist()), pa.string())
        site = renamed.take(names.indices)
    elif site_column == "site" and "url" in table.column_names:
        try:
            site = pa.array(map(url.site, table["url"].to_pylist()), pa.string())
        except ValueError:
            needed = "normalised http or https URLs, or a column of sites"
            raise UserError(f"{pages}: url: needed: {needed}") from None
    else:
        raise UserError(f"{pages}: no column {site_column}; needed: id, {site_column} or url")
    kept = [name for name in ("id", "url", "bytes") if name in table.column_names]
    ids = np.sort(table["id"].to_numpy())
    ends = {name: [np.empty(0, np.int64)] for name in ("src", "dst")}
    for batch in graph.batches(links, *ends):
        for name, arrays in ends.items():
            arrays.append(batch[name].to_numpy().astype(np.int64))
            if not find(ids, arrays[-1])[1].all():
                raise UserError(f"{links}: {name}: an id that isn't in {pages}")
    src, dst = map(np.concatenate, ends.values())
    return table.select(kept).append_column("site", site), src, dst
