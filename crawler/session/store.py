"""Writes the files of a rank during a crawl: the WARC records of a fetch, then its log row."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from crawler.config import Storage
from crawler.faults import Faults
from crawler.ports import (
    NEVER_FOLLOWED,
    OUT_OF_SCOPE,
    PAGE,
    REQUISITE,
    Asked,
    CrawlDelay,
    Failure,
    Fetched,
    FetchError,
    Link,
    NoRoomError,
    Original,
    PageRow,
    Response,
    UserError,
)
from crawler.session.content_seen import ContentSeen
from crawler.session.early import EarlyRequests
from crawler.session.joined import Joined, JoinedWriter
from crawler.session.log import LogWriter
from crawler.session.metadata import Metadata, metadata_of
from crawler.session.pagelog import PageLog
from crawler.session.requests import Manners, RequestLog
from crawler.session.warc import FOR_ROBOTS, Place, WarcWriter, digest

_LOG = logging.getLogger("crawler")
_SYNC_INTERVAL_S = 5.0
_SLOW_STORE_S = 5.0  # storing a page for longer than this is worth a warning, as it blocks the rank
_NO_METADATA = Metadata()
_NOTHING_KEPT = (None, False, None, _NO_METADATA)


class RankStore:
    """The repository of one rank (`ports.Repository`), the only writer of its WARC files and log.

    Fetches go through `hash`, `archive` and `log`. Several fetches take each of these steps
    together, and share its writes. A failed write raises NoRoomError if it may succeed later, or
    else OSError. It can leave WARC records that no row names, but never a row without its records.
    """

    def __init__(
        self,
        session: Path,
        rank: int,
        storage: Storage,
        *,
        user_agent: str,
        obeys_robots: bool,
        keeps: Callable[[Response], bool] = lambda response: True,
        faults: Faults | None = None,
        manners: Manners | None = None,
    ) -> None:
        """Start new files beside those of earlier runs, which must have been mended before.

        `keeps` says which pages with status 2xx are stored; others have only a row. `faults`
        counts responses that the store fails to read: their rows say `internal`. `manners` is what
        the rank promises to sites; without it, requests aren't logged.
        """
        self._faults = faults or Faults()
        self.directory = session / f"rank-{rank:05}"
        log = self.directory / "log"
        log.mkdir(parents=True, exist_ok=True)
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise UserError(
                f"{self.directory}: can't be written; allow this user to make files there"
            )
        self._rank = rank
        self._keeps = keeps
        self._warc = WarcWriter(
            self.directory,
            rank,
            storage,
            {
                "http-header-user-agent": user_agent,
                "robots": "obey" if obeys_robots else "ignore",
                "isPartOf": session.resolve().name,
            },
        )
        self.seen = ContentSeen(self.directory, self._warc.flush)
        self._log = LogWriter(log)
        self.log_path = self._log.path
        self._joined = JoinedWriter(self.log_path)
        self._page_log = PageLog(self.directory)
        self._requests = None
        self._early = None
        self.lacks_room = False  # whether the last write failed, as the disk is full
        if manners is not None:
            self._early = EarlyRequests(manners)
            path = self.directory / "requests" / self.log_path.name
            self._requests = RequestLog(path, manners)
        self._policy = storage.sync
        self._synced_at = time.monotonic()

    def hash(self, fetched: Fetched) -> None:
        """Set the digest of a fetch that has a response, unless it is that of an earlier fetch."""
        response = fetched.response
        if response is not None and not (response.status == 304 and fetched.earlier):
            fetched.digest = digest(response.stored)

    def archive(
        self,
        fetched: Fetched,
        part: int,
        follows: Callable[[PageRow], bool] = lambda row: True,
    ) -> PageRow:
        """Let the WARC records of a fetch wait for `log`. Returns the row that names them.

        If `follows(row)` is false, all links are flagged OUT_OF_SCOPE, so that the log tells which
        links a resumed session must follow.
        """
        try:
            if fetched.joins is not None:
                self._joined.add([Joined(*fetched.joins, fetched.found.url)])
            row = self._row(fetched, part)
        except NoRoomError:
            self.lacks_room = True
            raise
        self.seen.remember(row)
        if not self._follows(row, follows):
            fetched.links = [
                link._replace(flags=link.flags | OUT_OF_SCOPE) for link in fetched.links
            ]
            fetched.judged_with = NEVER_FOLLOWED
        return row

    def log(self, pages: Sequence[Fetched], rows: list[PageRow]) -> None:
        """Write the WARC records that wait, then the rows of fetches with their links.

        A row that can't be written is replaced by one that can, also in the list.
        """
        began = time.monotonic()
        self.flush()
        self.lacks_room = True
        frames = []
        for at, fetched in enumerate(pages):
            rows[at], frame = self._frame(rows[at], fetched)
            frames.append(frame)
        self._log.write(frames)
        self.lacks_room = False
        for fetched, row in zip(pages, rows, strict=True):
            self._page_log.add(row, len(fetched.found.chain), fetched.detail)
        self._sync_log()
        took = time.monotonic() - began
        if took > _SLOW_STORE_S:
            _LOG.warning("%s is slow: storing pages took %.1f s", self.directory, took)

    def flush(self) -> None:
        """Write the WARC records that wait. Raises NoRoomError; then they still wait."""
        self.lacks_room = True
        self._warc.flush()
        if self._policy == "record":  # records must be on disk before the rows that name them
            self._warc.sync()
        self.lacks_room = False

    def introduce(self, authority: str, sitemaps: Sequence[Link]) -> None:
        """Log the sitemaps that the robots.txt of an authority names."""
        self._log.sitemaps(authority, [link.url for link in sitemaps])
        self._sync_log()

    def note_joined(self, sites: Iterable[Joined]) -> None:
        """Note sites that have joined the scope, before a page is stored that was judged with them.

        Raises NoRoomError.
        """
        self._joined.add(sites)
        self._joined.sync()

    def keep(self, url: str, response: Response) -> None:
        """Let the records of a response for a robots.txt wait for `flush`."""
        self._write(url, response, digest(response.stored), None, FOR_ROBOTS)

    def keep_failure(self, url: str, started: float, seconds: float, error: FetchError) -> None:
        """Let a record wait for `flush` that says that a request got no response.

        `started`: seconds since the epoch.
        """
        self._warc.write_failure(url, started, seconds, error)

    def note(self, what: Asked | CrawlDelay) -> None:
        """Write a row of the request log: a request, or a Crawl-delay."""
        if self._requests is not None:
            self._requests.note(what)
        if self._early is not None and isinstance(what, Asked):
            self._early.note(what)

    @property
    def early(self) -> int:
        """The number of requests that came earlier than promised, as far as this rank sees."""
        return 0 if self._early is None else self._early.count

    def nbytes(self) -> int:
        """About how many bytes of memory it takes to know payloads and early requests again."""
        return self.seen.nbytes() + (0 if self._early is None else self._early.nbytes())

    def sync(self) -> None:
        """Force all files to disk, whatever `storage.sync` says."""
        if self._requests is not None:
            self._requests.sync()
        self._warc.sync()
        self._joined.sync()
        self._log.sync()
        self._synced_at = time.monotonic()

    def write_lines(self) -> None:
        """Write the lines of crawl.log that wait. Call this each second."""
        self._page_log.write()

    def close(self) -> None:
        """Write the records that wait, and sync and close the files."""
        with suppress(NoRoomError):  # no row names these records
            self.flush()
        self._page_log.close()
        self._warc.close()
        self._joined.close()
        if self._requests is not None:
            lost = self._requests.close()
            if lost:
                _LOG.warning("no room: %d rows of the request log are lost", lost)
        self._log.close()

    def _follows(self, row: PageRow, follows: Callable[[PageRow], bool]) -> bool:
        try:
            return follows(row)
        except BaseException as error:
            self._faults.note(error, "the rules on traps", row.url)
            return True

    def _frame(self, row: PageRow, fetched: Fetched) -> tuple[PageRow, bytes]:
        """Return the frame of a row with its links, and the row.

        A row that can't be written loses the fields that come from the server.
        """
        try:
            return row, self._log.frame(
                row,
                fetched.links,
                fetched.found.chain,
                fetched.sitemaps_of,
                fetched.lastmods,
                fetched.judged_with,
                gives_cookies=fetched.gives_cookies,
                anchors=fetched.anchors if fetched.links else (),
                rows=fetched.rows,
                requisites=fetched.requisites,
            )
        except BaseException as error:
            self._faults.note(error, "the row", row.url)
            fetched.links, fetched.lastmods, fetched.sitemaps_of = [], {}, None
            fetched.anchors = ()
            fetched.requisites = []
            row = msgspec.structs.replace(
                row,
                error=Failure.INTERNAL.value,
                content_type=None,
                etag=None,
                last_modified=None,
                title=None,
                language=None,
            )
            return row, self._log.frame(row, [], fetched.found.chain)

    def _row(self, fetched: Fetched, part: int) -> PageRow:
        """Return the row of a fetch. If there was a response, its WARC records wait for `flush`."""
        found, response = fetched.found, fetched.response
        url = found.address
        payload_digest, duplicate, place, metadata = (
            _NOTHING_KEPT if response is None else self._keep(url, response, fetched)
        )
        failure = fetched.failure or (response.failure if response else None)
        # The fields have no names here, because msgspec takes ten times as long with 27 names.
        return PageRow(
            url,
            found.key,
            found.site,
            part,
            self._rank,
            found.hops,
            fetched.time,
            response.seconds if response else 0.0,
            response.address if response else fetched.address,
            response.status if response else None,
            failure.value if failure else None,  # error
            response.truncated if response else None,
            len(response.payload) if response else 0,  # bytes
            metadata.content_type,
            payload_digest,
            duplicate,
            place and place.file,
            place and place.offset,
            fetched.retries,
            metadata.etag,
            metadata.last_modified,
            fetched.noindex,
            fetched.alike,
            metadata.media_type,
            fetched.title,
            fetched.language,
            REQUISITE if found.is_requisite else PAGE,  # role
        )

    def _keep(
        self, url: str, response: Response, fetched: Fetched
    ) -> tuple[str, bool, Place | None, Metadata]:
        """Let the WARC records of a response wait for `flush`.

        Returns the digest of the payload, whether the record is a revisit, the place of the record,
        and what the row says besides.
        """
        try:
            payload_digest, original = self.seen.identify(response, fetched.earlier, fetched.digest)
            stored = not response.has_page or self._keeps(response)
            metadata = metadata_of(response, fetched.earlier)
        except OSError:  # of the disk
            raise
        except BaseException as error:
            self._faults.note(error, "the response", response.url)
            fetched.failure = Failure.INTERNAL
            payload_digest, original = digest(response.payload), None
            stored, metadata = True, _NO_METADATA
        place = None
        if stored:
            place, as_sent = self._write(url, response, payload_digest, original)
            if not as_sent:
                fetched.failure = Failure.INTERNAL
        return payload_digest, original is not None, place, metadata

    def _write(
        self,
        url: str,
        response: Response,
        payload_digest: str,
        original: Original | None,
        more: str = "",
    ) -> tuple[Place | None, bool]:
        """Let the records wait for `flush`. Returns their place, and whether they are complete.

        If the head of the response can't be written, the records hold the payload alone.
        """
        try:
            return self._warc.write(url, response, payload_digest, original, more), True
        except OSError:  # of the disk
            raise
        except BaseException as error:
            self._faults.note(error, "the record", url)
        bare = msgspec.structs.replace(
            response, request_head=b"", reason="", headers=(), address=None, by_name={}
        )
        try:
            return self._warc.write(url, bare, digest(response.stored), None, more), False
        except OSError:  # of the disk
            raise
        except BaseException as error:
            self._faults.note(error, "the payload's record", url)
            return None, False

    def _sync_log(self) -> None:
        if self._policy == "record":
            self._log.sync()
        elif self._policy == "interval" and time.monotonic() - self._synced_at > _SYNC_INTERVAL_S:
            self.sync()
