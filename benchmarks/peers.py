"""Crawls a web with the crawlers of others."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from harness import Usage, run_command
from web import Target

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


def exclude(web: Target) -> str:
    """Return the expression for links that no crawler follows."""
    return f"{EXCLUDE}|^{'http' if web.scheme == 'https' else 'https'}:"


def wget2(web: Target, folder: Path) -> tuple[int, Usage]:
    """Crawl with wget2, which filters links before it fetches. Its pages are the files of HTML."""
    # With -H, wget2 would follow links to all hosts, whatever -D says.
    seeds, stored = folder / "seeds.txt", folder / "stored"
    seeds.write_text("\n".join(web.seeds))
    command = ["wget2", "--no-config", "-q", "-r", "-l", "0", "-D", ",".join(web.hosts)]
    command += ["--filter-urls", "--reject-regex", exclude(web), "--robots=off"]
    command += ["-t", "1", "-T", "20", f"--max-threads={CONNECTIONS}", "--hsts=off"]
    command += [f"--compression={'gzip' if web.is_compressed else 'none'}"]
    command += [f"--ca-certificate={web.ca_file}"] if web.ca_file else []
    command += ["-i", str(seeds), "-P", str(stored)]
    used = run_command(command, folder / "output")
    if used.status not in {0, _REFUSED}:
        raise CrawlerError(f"wget2 ended with {used.status}: is it installed?")
    return distinct(_html_files(stored)), used


def _html_files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(_START).lower()
            if b"<html" in start or b"<!doctype html" in start:
                yield str(path)


def scrapy(web: Target, folder: Path) -> tuple[int, Usage]:
    """Crawl with Scrapy (scrapy_peer.py). Its pages are the HTML responses with status 200."""
    job = {"seeds": web.seeds, "hosts": web.hosts, "exclude": exclude(web)}
    (folder / "job.json").write_text(json.dumps(job))
    command = [sys.executable, str(Path(__file__).with_name("scrapy_peer.py"))]
    command += [str(folder / name) for name in ("job.json", "bodies", "urls")]
    used = run_command(command, folder / "output")
    if used.status:
        raise CrawlerError(f"Scrapy ended with {used.status}: is it installed? pip install scrapy")
    return distinct((folder / "urls").read_text().splitlines()), used


PEERS: Final[dict[str, Callable[[Target, Path], tuple[int, Usage]]]] = {
    "wget2": wget2,
    "scrapy": scrapy,
}
