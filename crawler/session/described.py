"""What the files and tables of a session hold, in words for readers (docs/reference/).

A test compares these words with the files and tables that a crawl leaves. `docs/reference.py` makes
pages of them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# By path in the directory of the session, where * stands for any characters.
FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "session.toml": (
            "configuration, and for each run: program version, ranks, parts, start, end"
        ),
        "seeds.txt": "the seeds, normalised; //host/path if the user gave no scheme",
        "added-seeds.txt": "seeds that were added while it was crawled",
        "paused": "if it exists, the crawl begins no fetch",
        "replicated.txt": "URLs that every rank knows from the start, if there are any",
        "shared-keys.txt": "URLs that have given up a shared key, and this key, if there are any",
        "status.json": "how far the crawl is (docs/watching.md); may be deleted",
        "lock": "the lock of the command that writes (docs/resume.md)",
        "lock-ranks": "the lock of the ranks of a crawl (docs/resume.md)",
        "rank-*/*.warc.gz": "the responses, for tools of web archives",
        "rank-*/*.cdxj": "the index of a WARC file (docs/archives.md); may be deleted",
        "rank-*/log/*.log": "the fetched pages with their links; the source of all tables",
        "rank-*/log/*.joined": (
            "sites that redirects of seeds brought into the scope, if there are any"
        ),
        "rank-*/requests/*.log": "every request that was made, with its time",
        "rank-*/agent.log": "messages of the rank, a JSON object a line",
        "rank-*/crawl.log": "a line for each URL, for people (docs/watching.md); may be deleted",
        "rank-*/snapshot": "what the rank knew at a stop, for a faster resume; may be deleted",
        "rank-*/frontier/*": "waiting URLs that don't fit in memory; only during the crawl",
        "rank-*/seen/*": (
            "seen URLs, if seen.store is on disk. After a stop they stay if the snapshot names "
            "them; may be deleted"
        ),
        "tables/pages/*.parquet": "a row for each URL that was fetched, or couldn't be fetched",
        "tables/links/*.parquet": "a row for each distinct link of a page",
        "tables/anchors/*.parquet": "a row for each text of a link, if extract.anchors is set",
        "tables/sites/*.parquet": "a row for each site",
        "tables/*/*.jsonl": "the rows of a page handler, a JSON object a line (docs/extend.md)",
        "report/index.html": "the report for a browser (docs/report.md)",
        "report/metrics.json": "the measures (docs/measures.md)",
        "report/skipped.jsonl": "URLs that are known and have no response, and why",
        "report/broken.jsonl": "links to pages that don't exist, and where they stand",
        "report/outside.jsonl": "hosts out of scope, by the number of links to them",
        "report/counters.json": "counts of the ranks that no log holds; later reports need them",
        "report/reachable.npy": (
            "keys of the pages that can be reached, if the web is known (the demonstration)"
        ),
        "report/site_part.npz": "(site, other rank) pairs with a link; later reports need them",
        "stop": "an order to stop (docs/watching.md#steer-a-crawl), until the crawl obeys",
        "questions/*": "questions of `ask`, and their answers; only for a moment",
        "clients": "orders about clients of a seed server (docs/dynamic.md), until the run ends",
    }
)
# By column.
PAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "url": "the normalised URL",
        "key": (
            "the key of the URL: 64-bit XXH3 of the normalised URL, or another hash if two URLs "
            "shared this one (docs/decisions/keys.md). For a requisite, that of the URL with > at "
            "its end, so that it differs from the key of a page"
        ),
        "site": (
            "the host, with its port unless that is 80 or 443, or the registrable domain "
            "(assignment.site): a site has no scheme (docs/decisions/sites.md)"
        ),
        "part": "the part of the URL; with dynamic assignment the rank that fetched it",
        "rank": "the rank that fetched the URL",
        "hops": (
            "number of links from a seed; -1 for a sitemap that is a seed "
            "(docs/decisions/seeds.md#sitemaps). For a requisite, number of steps from a page: 1 "
            "if the page needs it, 2 if its style sheet does"
        ),
        "time": "start of the fetch",
        "seconds": "duration of the fetch",
        "address": "address of the server",
        "status": "HTTP status; null: no response",
        "error": "why there is no page, or only a part: dns-not-found, timeout, too-large, ...",
        "truncated": (
            "why only a part of the page was read: length, time, disconnect, unspecified. Either "
            "the payload is incomplete, and its record says the same; or the content coding ends "
            "early, or was undone up to a limit only"
        ),
        "bytes": "size of the payload, as received",
        "content_type": "what the header says, in lower case, without parameters",
        "digest": (
            "digest of the payload as stored, sha1: and base 32. After status 304, the digest of "
            "the page that hasn't changed"
        ),
        "duplicate": (
            "whether the rank, or the previous session, stored this payload before. Then the "
            "record is a revisit"
        ),
        "warc_file": "the WARC file, in the directory of the rank; null: there is no record",
        "warc_offset": "where the response or revisit record begins in the file",
        "retries": "requests for this URL that had failed before the one in this row",
        "etag": (
            "the header ETag, for the next session; null also if it can't be sent back as it came"
        ),
        "last_modified": "the header Last-Modified, as etag",
        "noindex": "whether the page asks not to be indexed (meta robots, X-Robots-Tag)",
        "alike": (
            "whether the page resembles pages of other hosts of its domain or address. Pages are "
            "only compared if the domain or address has many hosts "
            "(docs/traps.md#hosts-without-end)"
        ),
        "media_type": (
            "the type of the document by its header and its first bytes, as browsers sniff it "
            "(docs/decisions/reading.md); null: no body, or a row of an older version"
        ),
        "title": (
            "the first title of an HTML page (status 2xx): character references are undone, blanks "
            "are collapsed, and at most 512 characters are kept. Null if there is none in the "
            "first 131,072 characters, and in rows of older versions. After status 304, the title "
            "of the page that hasn't changed"
        ),
        "language": (
            "what the page says, as a language tag in lower case, such as de or pt-br: the "
            "attribute lang of the element html, else its xml:lang, else the header "
            "Content-Language if it names one language. Nothing is guessed from the text. Null "
            "also in rows of older versions"
        ),
        "role": (
            "page; or requisite: fetched because a page needs it to be shown "
            "(docs/whole-pages.md). Tables of earlier versions lack the column, and hold pages only"
        ),
    }
)
LINKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "source_key": "pages.key of the page",
        "target_key": "the key of the target, whether it was fetched or not",
        "target_url": "the normalised URL of the target",
        "flags": (
            "sum of 1 nofollow, 2 redirect, 4 canonical, 8 next, 16 prev, 32 alternate, 64 "
            "frame, 128 never followed: out of scope, or a link of a page that is the same as "
            "too many others (traps.max_same_content)"
        ),
        "lastmod": (
            "of an entry of a sitemap: when the page was changed last, as written there (W3C "
            "date; in RSS as in mail); else null"
        ),
    }
)
ANCHORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "source_key": "pages.key of the page that has the link",
        "target_key": "the key of the target, as in links",
        "element": "the element that has the link: a, area, frame, iframe, img, link or source",
        "text": (
            "what the element says: the content of an a, with the alt of its images; the alt of an "
            "area or img; the title of a frame or iframe; the rel of a link. At most 256 "
            "characters, and for an a from the first 2,048 of its content"
        ),
    }
)
SITES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "site": "the name of the site",
        "part": "the part of its pages; null: they belong to several parts",
        "pages": "rows of pages with a status",
        "errors": "rows of pages with an error (a page cut short counts in both)",
        "bytes": "size of the payloads of pages",
        "address": "the latest address",
        "first_time": "the first fetch",
        "last_time": "the last fetch",
        "requests": (
            "requests that were made, robots.txt and failures included; null: there is no "
            "request log"
        ),
        "smallest_gap": (
            "the gap between two requests that is shortest relative to its promise, in seconds. "
            "Requests of all ranks count"
        ),
        "promised_gap": "the promise for that gap, in seconds",
        "impolite": (
            "how many gaps are shorter than promised, and how many requests are too many at a "
            "time (docs/decisions/request-log.md)"
        ),
        "crawl_delay": (
            "the longest Crawl-delay, in seconds, that the robots.txt files of the site ask for, "
            "as known last. Null if there is none. Tables of earlier versions lack the column"
        ),
        "requisites": (
            "rows of requisites with a status (docs/whole-pages.md). Tables of earlier versions "
            "lack the column"
        ),
    }
)
