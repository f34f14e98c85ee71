"""What the measures of a session mean, in words for readers (docs/reference/measures.md).

A test compares the names with those in `metrics.json`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MEASURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "session": "the directory of the session",
        "mode": "the setting session.mode",
        "scheme": "the setting assignment.scheme",
        "max_pages": "the setting session.max_pages",
        "spares": "the setting dynamic.spares",
        "memory_budget": "the setting seen.memory, in bytes",
        "complete": (
            "true: no URL was left; false: a limit or a signal ended the crawl, or nothing was "
            "fetched"
        ),
        "reason": (
            "of the latest run: complete, nothing fetched, max_pages, max_time, stop, the name "
            "of a signal, or interrupted"
        ),
        "runs": "times that the session was started or resumed, or went on without a rank",
        "lost_ranks": (
            "ranks that died while the others went on (docs/resume.md#kill-and-a-rank-that-dies)"
        ),
        "seconds": (
            "the time of the slowest rank, from its start to its last message, added up over the "
            "runs; without the time for the tables"
        ),
        "pages": "fetches that gave a response, whatever its status: N",
        "pages_per_second": "pages / seconds",
        "unique_pages": "different URLs among these pages: I",
        "stored_pages": "pages stored as a WARC response record",
        "duplicate_content": (
            "pages whose payload the same rank, or the previous session, had stored before. They "
            "are stored as revisit records"
        ),
        "bytes": "bytes of the payloads, as received",
        "by_status": "pages by HTTP status",
        "by_error": (
            "URLs that gave no page, or only a part of one, after their last try; by error class"
        ),
        "requisites": (
            "fetches of requisites that gave a response (docs/whole-pages.md). All other counts "
            "of pages, URLs, errors and bytes leave requisites out"
        ),
        "failed_requisites": "requisites with an error, or with a status of 400 or more",
        "requisite_bytes": "bytes of the payloads of requisites, as received",
        "internal_errors": (
            "pages and files on which the program itself failed "
            "(docs/resume.md#internal-errors). After a kill, only errors with a row count"
        ),
        "plugin_errors": "errors of plug-ins, by name (docs/extend.md)",
        "seeds": "all seeds",
        "seeds_redirected": "seeds whose redirects end at another site or lead out of scope",
        "seeds_failed": "seeds that gave no page",
        "redirected_seeds": (
            "the first 1000 of these seeds: seed, url where its redirects end, and what: its "
            "site joined the scope, or out of scope"
        ),
        "failed_seeds": (
            "the first 1000 of these seeds: seed, url where its redirects end, and what: an "
            "error class or the status"
        ),
        "overlap": "(N - I) / I, where N is pages without asked_again",
        "asked_again": (
            "responses of URLs that were asked again with a cookie, as a redirect led back to "
            "them (docs/decisions/redirects.md)"
        ),
        "coverage": "the share of the pages of a known web that were fetched with status 200",
        "quality": (
            "of the I most important pages of a known web by back-links, the share that was fetched"
        ),
        "quality_pagerank": "the same by PageRank",
        "communication_overhead": "inter_part_urls / pages",
        "imbalance_bytes": (
            "W_max / W_avg - 1 over the ranks, of bytes. A seed server that has fetched nothing "
            "isn't counted"
        ),
        "imbalance_requests": "the same of pages",
        "requests": "requests for pages, requisites and robots.txt files, without retries",
        "retries": "how often a URL was put back after a failure, to be tried again",
        "by_trap": "links and URLs that each rule of [traps] kept out (docs/traps.md)",
        "inter_part_links": "links to URLs of other ranks",
        "dropped_links": "the inter-part links that the mode firewall dropped (docs/modes.md)",
        "inter_part_pages": "pages of other ranks that a rank crossed over to",
        "inter_part_urls": (
            "URLs sent to other ranks. A URL that is sent once more, to be asked again with a "
            "cookie, counts once"
        ),
        "messages_page_part": (
            "(page, other rank) pairs with a link. In the model, all links that a page sends to "
            "a rank are one message. Each response of a URL that was asked again counts as a "
            "page"
        ),
        "messages_site_part": "(site, other rank) pairs with a link",
        "transmissions_target_part": (
            "(URL, sending rank) pairs; null unless exchange.remember is all"
        ),
        "inter_part_requisites": "requisites sent to other ranks, which count nowhere else here",
        "claims": "sites that a rank asked the registrar for",
        "mpi_messages": "messages over MPI: batches, waves of the end of the crawl, notes",
        "mpi_bytes": "the bytes of these messages",
        "waiting": "URLs that were known, but not fetched, at the end of the latest run",
        "politeness": (
            "the result of the request logs (docs/decisions/request-log.md), with fields of its "
            "own (docs/measures.md#politeness); null without such logs"
        ),
        "dynamic": (
            "what seed servers and their clients did (docs/dynamic.md), with fields of its own "
            "(docs/measures.md#dynamic-assignment); null in other schemes"
        ),
        "torn_logs": "logs with a tail that was cut off",
        "overview": "what the report shows first (docs/report.md)",
        "findings": "what to look at first (docs/report.md)",
        "against": "what became of the URLs of the earlier session (docs/report.md)",
        "ranks": "the same counts for each rank, with further fields (docs/measures.md#ranks)",
        "series": (
            "pages, seconds since the first page, overlap, coverage, quality, quality_pagerank "
            "and communication_overhead, at up to 100 moments that are evenly spread over the "
            "pages. The exchanged URLs are known to the second"
        ),
    }
)
# Ranks count these while they run: if a run was killed, they are null.
LIVE: Final = frozenset(
    (
        "seconds",
        "pages_per_second",
        "communication_overhead",
        "requests",
        "retries",
        "plugin_errors",
        "by_trap",
        "inter_part_links",
        "dropped_links",
        "inter_part_pages",
        "inter_part_urls",
        "messages_page_part",
        "messages_site_part",
        "transmissions_target_part",
        "inter_part_requisites",
        "claims",
        "mpi_messages",
        "mpi_bytes",
        "waiting",
    )
)
