"""A Scrapy spider that crawls the same web as the benchmark `crawl`, for comparison.

    python benchmarks/scrapy_peer.py JOB.json BODIES URLS

JOB.json: seeds, hosts, exclude (a regular expression). Bodies go to the file BODIES, and the URLs
of HTML pages to the file URLS. Links are taken by selectolax, which makes it twice as fast as
Scrapy's own link extractor; robots.txt isn't asked, and nothing is compressed.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess
from selectolax.lexbor import LexborHTMLParser

JOB = json.loads(Path(sys.argv[1]).read_text())
HOSTS = frozenset(JOB["hosts"])
EXCLUDE = re.compile(JOB["exclude"])


class Peer(scrapy.Spider):
    name = "peer"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.bodies = Path(sys.argv[2]).open("wb")  # noqa: SIM115  closed with the process
        self.urls = Path(sys.argv[3]).open("w")  # noqa: SIM115  closed with the process

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for seed in JOB["seeds"]:
            yield scrapy.Request(seed)

    def parse(self, response: Any) -> Iterator[scrapy.Request]:
        self.bodies.write(response.body)
        if b"html" not in response.headers.get("Content-Type", b""):
            return
        self.urls.write(f"{response.url}\n")
        references = set()
        for node in LexborHTMLParser(response.body).css("[href]"):
            if node.tag in {"a", "area"} and (reference := node.attributes["href"]):
                references.add(reference.strip().partition("#")[0])
        for reference in references:
            try:
                url = urljoin(response.url, reference)
                split = urlsplit(url)
            except ValueError:
                continue
            if split.hostname in HOSTS and not EXCLUDE.search(url):
                yield scrapy.Request(url)


process = CrawlerProcess(
    {
        "LOG_LEVEL": "ERROR",
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "DNSCACHE_SIZE": 100_000,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    }
)
process.crawl(Peer)
process.start()
