"""The crawler in a script: `run` crawls in this process, `Session` reads what a crawl has left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from crawler import config, session, url
from crawler.dataset import table_files, table_path
from crawler.ports import UserError
from crawler.session.columns import SCHEMAS

Settings = config.Config | Mapping[str, Mapping[str, object]] | Path | str


@dataclass(frozen=True)
class Stored:
    """The response that a session has stored for a URL."""

    url: str  # normalised
    status: int
    headers: tuple[tuple[str, str], ...]  # as docs/session.md says
    body: bytes  # without content coding


def run(settings: Settings, *, resume: bool = False, progress: bool = False) -> "Session":
    """Crawl in this process, to the end or to a limit. Returns the session.

    `settings`: a configuration, its tables as a mapping, or the path of a TOML file. `resume`:
    continue the session if its directory holds one already. `progress`: show the progress on
    standard error, as the command does.

    A script that `mpirun -n K` has started crawls on its K ranks, if all of them call this
    function. There must be no running event loop. Raises UserError as the command does, and OSError
    if a file can't be written.
    """
    # Importing mpi starts MPI, which a script that only reads sessions doesn't need.
    from crawler import mpi  # noqa: PLC0415
    from crawler.agent import planning  # noqa: PLC0415
    from crawler.agent.board import Voice  # noqa: PLC0415
    from crawler.agent.crawl import crawl  # noqa: PLC0415
    from crawler.ports import Group  # noqa: PLC0415

    chosen, places = _load(settings), []

    def prepare(ranks: int) -> planning.Plan:
        directory = Path(chosen.session.directory)
        if resume and chosen.session.directory and session.exists(directory):
            return planning.prepare_again(directory, chosen, ranks)
        return planning.prepare(chosen, ranks)

    async def main(group: Group) -> int:
        plan = await planning.plan_together(prepare, group)
        if isinstance(plan, UserError):
            raise plan
        await crawl(plan, group, voice=Voice.NORMAL if progress else Voice.QUIET)
        places.append(plan.directory)
        return 0

    mpi.run(main)
    return Session(places[0])


def _load(settings: Settings) -> config.Config:
    if isinstance(settings, config.Config):
        return settings
    if isinstance(settings, Mapping):
        return config.load(values=settings)
    return config.load(Path(settings))


class Session:
    """A session that has been crawled, in a directory."""

    def __init__(self, directory: Path | str) -> None:
        """Raises UserError if the directory holds no session."""
        self.directory = Path(directory)
        info = session.load(self.directory)
        self.config = info.config
        self.complete = bool(info.last.complete)  # False also while it is being crawled

    def __repr__(self) -> str:
        return f"Session({str(self.directory)!r})"

    @property
    def metrics(self) -> dict[str, Any]:
        """The measures (docs/measures.md). Raises OSError before the crawl has ended."""
        content = (self.directory / "report" / "metrics.json").read_bytes()
        metrics: dict[str, Any] = msgspec.json.decode(content)
        return metrics

    def pages(self, *columns: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `pages` (docs/session.md), all columns or the named ones.

        Raises OSError before the crawl has ended, and UserError for a column that doesn't exist.
        """
        return self._rows("pages", columns)

    def links(self, *columns: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `links`, in the order of its pages. See `pages`."""
        return self._rows("links", columns)

    def anchors(self, *columns: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `anchors`. There are none without `extract.anchors`."""
        there = table_path(self.directory / "tables", "anchors").exists()
        return self._rows("anchors", columns) if there else iter(())

    def sites(self, *columns: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `sites`. See `pages`."""
        return self._rows("sites", columns)

    def rows(self, handler: str) -> Iterator[dict[str, Any]]:
        """Yield the rows that a page handler has written (docs/extend.md), with the page's URL.

        There are none if the handler has written none. Raises UserError if no handler can have this
        name, and OSError if the file can't be read.
        """
        for path in session.handled_files(self.directory / "tables", handler):
            with path.open("rb") as file:
                yield from map(msgspec.json.decode, file)

    def open(self, page: str | Mapping[str, Any]) -> Stored:
        """Read the response for a URL, or for a row of `pages`, from its WARC file.

        To open many pages, give rows: a URL is looked for in the whole table. The body of a revisit
        is read from the record that has it, in this session or in an earlier one.

        Raises LookupError if no response is stored, BadUrlError if the text is no URL, and OSError
        if a file can't be read.
        """
        row = self._find(page) if isinstance(page, str) else page
        if row["warc_file"] is None:
            raise LookupError(f"{row['url']}: no response is stored ({row['error'] or 'left out'})")
        stored = self._read(row)
        if stored.body or row["digest"] is None or not (row["duplicate"] or row["status"] == 304):
            return stored
        return Stored(stored.url, stored.status, stored.headers, self._original(row["digest"]).body)

    def _rows(self, table: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        rows = self._table(table)
        for name in columns:
            if name not in rows.schema.names:
                raise UserError(f"{table}: no column {name}; {', '.join(rows.schema.names)}")
        return (
            row
            for batch in rows.to_batches(columns=list(columns) or None)
            for row in batch.to_pylist()
        )

    def _table(self, name: str) -> Any:
        # With the schema, columns that tables of earlier versions lack are null.
        files = table_files(table_path(self.directory / "tables", name))
        return ds.dataset([str(file) for file in files], schema=SCHEMAS[name])

    def _find(self, text: str) -> dict[str, Any]:
        fold = self.config.normalise.folding()
        address = fold(url.normalise(text)) if fold else url.normalise(text)
        found = self._select(pc.field("url") == address)
        if not found:
            raise LookupError(f"{address}: the session has no page of this URL")
        return found[-1]  # behind a wall of cookies, the second answer is the page

    def _select(self, condition: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._table("pages").to_table(filter=condition).to_pylist()
        return rows

    def _original(self, digest: str) -> Stored:
        """Read a record that has the payload of this digest."""
        whole = (pc.field("digest") == digest) & ~pc.field("duplicate")
        found = self._select(whole & pc.field("warc_file").is_valid() & (pc.field("status") != 304))
        if found:
            return self._read(found[0])
        if self.config.session.previous:
            return Session(self.config.session.previous)._original(digest)  # noqa: SLF001
        raise LookupError(f"{digest}: no session has a record with this payload")

    def _read(self, row: Mapping[str, Any]) -> Stored:
        path = self.directory / f"rank-{row['rank']:05}" / row["warc_file"]
        with path.open("rb") as file:
            file.seek(row["warc_offset"])
            record = next(iter(ArchiveIterator(file)))
            head, body = record.http_headers, record.content_stream().read()
        return Stored(row["url"], int(head.get_statuscode()), tuple(head.headers), body)
