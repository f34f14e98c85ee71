"""The table on what is stored of the pages."""

from typing import Annotated, Literal

from pydantic import ByteSize, Field

from crawler.config.table import ASIDE, Table
from crawler.config.values import DocumentKind, FilePrefix, Size


class Storage(Table):
    """What is stored of the pages, and how."""

    types: tuple[DocumentKind, ...] = Field(
        ("*/*",),
        json_schema_extra=ASIDE,
        description="the documents that are stored, by Content-Type, sniffed type or extension,"
        ' such as "text/*", "!image/*", "!.zip"; other documents have only a row in the log',
    )
    warc_size: Size = Field(
        ByteSize(1_000_000_000),
        json_schema_extra=ASIDE,
        description="a WARC file that is larger than this is closed, and a new one is begun",
    )
    compression: Annotated[int, Field(ge=0, le=3)] = Field(
        1,
        json_schema_extra=ASIDE,
        description="gzip level (ISA-L) of WARC records, from 0 (fastest) to 3 (smallest)",
    )
    sync: Literal["record", "interval", "close"] = Field(
        "close",
        json_schema_extra=ASIDE,
        description="when files are forced to disk. record: after each record; interval: every 5 s;"
        " close: at the end",
    )
    records: tuple[Literal["robots", "failures"], ...] = Field(
        (),
        json_schema_extra=ASIDE,
        description="what is stored besides the responses for pages (docs/archives.md). robots:"
        " each response for a robots.txt; failures: each request that got no response, and why",
    )
    warc_prefix: FilePrefix = Field(
        "abc", json_schema_extra=ASIDE, description="what the names of WARC files begin with"
    )
    operator: str = Field(
        "",
        json_schema_extra=ASIDE,
        description="who is responsible for the archive, for the first record of each WARC file",
    )
    description: str = Field(
        "",
        json_schema_extra=ASIDE,
        description="what the archive is, for the first record of each WARC file, and for export",
    )
    block_digests: bool = Field(
        False,
        json_schema_extra=ASIDE,
        description="whether WARC records also have the SHA-1 hash of their whole block",
    )
