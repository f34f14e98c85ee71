"""Crawls the web of the benchmark `crawl` with the crawlers of others."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from harness import Row, Usage, run_command

EXCLUDE: Final = (
    r"/_sources/|\.(txt|py|whl|deb|ipynb|inv|patch|diff|c|h|cpp|json|xsd|asc|sh|js|log|yaml|cfg"
    r"|png|jpe?g|gif|svg|pdf|zip|gz|tgz|bz2|xz|css|ico|eps|ps|tar|mp4|csv|xml|epub|rst)(\?|$)"
)
CONNECTIONS: Final = 16  # to a site
_START: Final = 1024  # bytes of a file that tell whether it holds HTML
_REFUSED: Final = 8  # wget2's exit code if a server answered a request with an error


class CrawlerError(Exception):
    """A crawler ended with an error."""


def distinct(urls: Iterable[str]) -> int:
    """Count pages as wget2 stores them: `x/` and `x/index.html` are one page."""
    return len({url.removesuffix("index.html") for url in urls})


def wget2(web: Path, folder: Path) -> tuple[int, Usage]:
    """Crawl with wget2, which filters links before it fetches. Its pages are the files of HTML."""
    # With -H, wget2 would follow links to all hosts, whatever -D says.
    hosts, stored = (web / "hosts.txt").read_text().split(), folder / "stored"
    command = ["wget2", "--no-config", "-q", "-r", "-l", "0", "-D", ",".join(hosts)]
    command += ["--filter-urls", "--reject-regex", f"^https:|{EXCLUDE}", "--robots=off"]
    command += ["-t", "1", "-T", "20", f"--max-threads={CONNECTIONS}", "--hsts=off"]
    command += ["--compression=none", "-i", str(web / "seeds.txt"), "-P", str(stored)]
    used = run_command(command, folder / "output")
    if used.status not in {0, _REFUSED}:
        raise CrawlerError(f"wget2 ended with {used.status}")
    return distinct(_html_files(stored)), used


def _html_files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(_START).lower()
            if b"<html" in start or b"<!doctype html" in start:
                yield str(path)


def scrapy(web: Path, folder: Path) -> tuple[int, Usage]:
    """Crawl with Scrapy (scrapy_peer.py). Its pages are the HTML responses with status 200."""
    job: Row = {name: (web / f"{name}.txt").read_text().split() for name in ("seeds", "hosts")}
    (folder / "job.json").write_text(json.dumps(job | {"exclude": EXCLUDE}))
    command = [sys.executable, str(Path(__file__).with_name("scrapy_peer.py"))]
    command += [str(folder / name) for name in ("job.json", "bodies", "urls")]
    used = run_command(command, folder / "output")
    if used.status:
        raise CrawlerError(f"Scrapy ended with {used.status}: is it installed? pip install scrapy")
    return distinct((folder / "urls").read_text().splitlines()), used


PEERS: Final[dict[str, Callable[[Path, Path], tuple[int, Usage]]]] = {
    "wget2": wget2,
    "scrapy": scrapy,
}
