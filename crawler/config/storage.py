"""The table on what is stored of the pages."""

from typing import Annotated, Literal

from crawler.config.table import Table, key
from crawler.config.values import Bounds, DocumentKind, FilePrefix, Size


class Storage(Table):
    """What is stored of the pages, and how."""

    types: tuple[DocumentKind, ...] = key(
        default=("*/*",),
        aside=True,
        about="the documents that are stored, by Content-Type, sniffed type or extension, such as"
        ' "text/*", "!image/*", "!.zip"; other documents have only a row in the log',
    )
    warc_size: Size = key(
        default=1_000_000_000,
        aside=True,
        about="a WARC file that is larger than this is closed, and a new one is begun",
    )
    compression: Annotated[int, Bounds(ge=0, le=3)] = key(
        default=1,
        aside=True,
        about="gzip level (ISA-L) of WARC records, from 0 (fastest) to 3 (smallest)",
    )
    sync: Literal["record", "interval", "close"] = key(
        default="close",
        aside=True,
        about="when files are forced to disk. record: after each record; interval: every 5 s;"
        " close: at the end",
    )
    records: tuple[Literal["robots", "failures"], ...] = key(
        default=(),
        aside=True,
        about="what is stored besides the responses for pages (docs/archives.md). robots: each"
        " response for a robots.txt; failures: each request that got no response, and why",
    )
    warc_prefix: FilePrefix = key(
        default="abc", aside=True, about="what the names of WARC files begin with"
    )
    operator: str = key(
        default="",
        aside=True,
        about="who is responsible for the archive, for the first record of each WARC file",
    )
    description: str = key(
        default="",
        aside=True,
        about="what the archive is, for the first record of each WARC file, and for export",
    )
    block_digests: bool = key(
        default=False,
        aside=True,
        about="whether WARC records also have the SHA-1 hash of their whole block",
    )
