"""The memory of a rank by the number of URLs that it knows, against its budget.

    python benchmarks memory [--urls N] [--keys N] [--sites N] [--links N] [--budget BYTES]
                             [--store auto|runs|memory|drum|veuniq] [--order breadth-first]
                             [--every N] --work DIR --out DIR
    python benchmarks memory --plots --out DIR

One core of two crawls a made-up web, with the stores and spill files of a live rank. Its URLs to
the other rank are counted as sent, and then dropped. The web is arithmetic: a page's links follow
from its number, so the web takes no memory. Of 12 links of a page, 8 lead to new pages of its site,
2 to other pages of its site, and 2 to pages of other sites; --links sets how many links a page has.
The sizes of sites are very different (Pareto, 1,000 pages at least).

--keys: so many of the URLs are met besides, evenly over the crawl, half of them as seen and half as
sent. Only their keys are made, so that they cost little time. They stand for URLs that were met,
and fetched by others. Of a store that answers late, only the sent ones.

A line of OUT/memory.jsonl for every N known URLs has the resident set above that of an idle rank
with its compiled functions, the most that it has ever been (by the kernel's own mark), and what
each table takes (`core.budget`). `code` is what the compiled functions take. --plots draws
OUT/memory.svg.
"""

import shutil
import time
from array import array
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from harness import Row, append_rows, read_rows, resident_bytes

from crawler import config, url
from crawler.agent.stores import Stores
from crawler.core.budget import Budget
from crawler.core.core import Core
from crawler.core.outcomes import DONE
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash
from crawler.core.seen import LateSeen
from crawler.ports import Link
from crawler.reading.scope import Sites
from crawler.session import SpillFiles
from crawler.stores.auto import load_runs
from crawler.stores.memory import load_table

LOG: Final = "memory.jsonl"
URLS_A_SITE: Final = 300  # known at the end, on average
SMALLEST, LARGEST = 1000, 2_000_000  # pages of a site
OTHERS: Final = 6  # one link of a page in so many leads to its site again, and one to another
FILL: Final = 5_000  # keys that are put into a store together
LINKS: Final = 6000  # of pages between two looks at what is known
_MASK: Final = 2**64 - 1


def mixed(number: int) -> int:
    """Return a hash of a number (the finaliser of splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31


class ArithmeticWeb:
    """A web whose pages and links follow from numbers."""

    def __init__(self, sites: int, links: int) -> None:
        """`links`: of a page."""
        self._sites = sites
        self._others = links // OTHERS
        self._new = links - 2 * self._others

    def pages(self, site: int) -> int:
        """The number of pages of a site."""
        return min(LARGEST, int(SMALLEST * 2**53 / ((mixed(site) >> 11) + 1)))

    def link(self, site: int, page: int) -> Link:
        name = f"www.site-{site}.example"
        address = f"http://{name}/section-{page % 97}/2026/{page}-the-title-of-an-article"
        return Link(url.key(address), address, name, 0)

    def links(self, address: str) -> list[Link]:
        """The links of a page, which is given by its URL."""
        parts = address.split("/", 5)
        site, page = int(parts[2][9:-8]), int(parts[5].partition("-")[0])
        last = self.pages(site) - 1
        links = [
            self.link(site, child)
            for child in range(self._new * page + 1, min(self._new * (page + 1), last) + 1)
        ]
        draw = mixed(site << 24 ^ page)
        for _ in range(self._others):
            draw = mixed(draw)
            links.append(self.link(site, draw % (last + 1)))
        for _ in range(self._others):
            draw = mixed(draw)
            other = draw % self._sites
            deep = draw >> 40 & 1
            links.append(self.link(other, deep * (mixed(draw) % self.pages(other))))
        return links


def highest_bytes() -> int:
    """Return the largest resident set since `forget_highest`."""
    words = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split(maxsplit=1)
    return int(words[0]) << 10


def forget_highest() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def crawl(
    urls: int,
    keys: int,
    sites: int,
    links: int,
    budget: int,
    store: str,
    order: str,
    every: int,
    work: Path,
    started: float,
):
    """Crawl until so many URLs are known. Gives a row for every `every` of them."""
    web = ArithmeticWeb(sites or max(urls // URLS_A_SITE, 10), links)
    settings = config.load(
        values={
            "politeness": {"delay_s": 1},
            "seen": {"memory": budget, "store": store},
            "frontier": {"order": order, "memory": 10**12},
        }
    )
    allowed = Budget(budget)
    stores = Stores(settings.seen, work / "seen")
    stores.register(allowed)
    with SpillFiles(work / "frontier") as spill:
        core = Core(
            settings,
            2,
            Ownership(0, SiteHash(2), [0, 1]),
            Sites("authority"),
            stores.seen,
            spill=spill,
            sent=stores.sent,
            budget=allowed,
        )
        code = resident_bytes()
        load_table(1 << 20)
        load_runs(work / "trial", 1 << 20).close()
        idle = resident_bytes()
        forget_highest()
        code = idle - code
        backlog, now, known, cpu = core._bench.backlog, 0.0, 0, time.process_time()

        def row() -> Row:
            used = allowed.used()
            return {
                "store": store,
                "order": order,
                "budget": budget,
                "code": code,
                "known": known,
                "pages": core.pages,
                "sites": len(core._bench.states.by_site),
                "waiting": backlog.waiting,
                "on_disk": backlog._store.on_disk,
                "resident": resident_bytes() - idle,
                "peak": highest_bytes() - idle,
                "counted_peak": used["all"].peak,
                "tables": {name: one.end for name, one in used.items()},
                "cpu_s": time.process_time() - cpu,
                "wall_s": time.perf_counter() - started,
            }

        draw, besides = np.random.default_rng(1), 0
        late = isinstance(stores.seen, LateSeen)
        filled = [stores.sent] if late else [stores.seen, stores.sent]
        share = keys / urls
        core.start([web.link(site, 0) for site in range(10)], now)
        while known < urls:
            visit = core.acquire(now)
            if visit is None:
                core.tick(now)
                due = min((t for t in (core.next_visit_time(), core.next_time()) if t), default=0.0)
                if not (due or core.waiting):
                    raise SystemExit(f"the web has only {known} URLs")
                now = max(now, due)
                continue
            core.end(visit, DONE, now)
            found = web.links(visit.found.url)
            for _ in core.stored(visit.found, found, now, response=True):
                pass
            core.tick(now)
            if core.pages % (LINKS // links):
                continue
            while besides < share * known:
                for one in filled:
                    one.update(array("Q", draw.bytes(8 * FILL)))
                besides += FILL * len(filled)
                core.tick(now)
            met = besides * (not late) // 2 + backlog.enqueued + len(stores.sent)
            is_due = known // every != met // every
            known = met
            if is_due:
                yield row()
    stores.close()


def line(row: Row) -> str:
    return (
        f"{row['known'] / 1e6:.1f} million known: {row['peak'] / 1e6:.0f} MB at most,"
        f" {row['counted_peak'] / 1e6:.0f} counted, of {row['budget'] / 1e6:.0f};"
        f" {row['wall_s']:.0f} s"
    )


def run(
    *,
    urls: int = 100_000_000,
    keys: Annotated[int, "of these, only as keys"] = 0,
    sites: Annotated[int, "of the web (default: one for 300 URLs)"] = 0,
    links: Annotated[int, "of a page"] = 12,
    budget: int = 1 << 30,
    store: str = "auto",
    order: str = "breadth-first",
    every: int = 1_000_000,
    work: Annotated[Path, "for the files of the stores; removed at the end"] = Path("memory-work"),
    out: Annotated[Path, "the folder of the results"] = Path("docs/results"),
    plots: bool = False,
) -> None:
    if not plots:
        size = urls, keys, sites, links
        rows = crawl(*size, budget, store, order, every, work, time.perf_counter())
        append_rows(out / LOG, rows, line)
        shutil.rmtree(work, ignore_errors=True)
    plot(read_rows(out / LOG), out / "memory.svg")


def plot(rows: list[Row], path: Path) -> None:
    from plotting import panels, save  # noqa: PLC0415 (only plots need matplotlib)

    figure, axes = panels(1, 2)
    lines: dict[str, object] = {}
    millions = [row["known"] / 1e6 for row in rows]
    left, right = axes[0]
    budget = rows[-1]["budget"] / 1e6
    for name, label, style in (
        ("peak", "resident set above an idle rank, at most", "-"),
        ("counted_peak", "all tables, at most", "--"),
    ):
        (lines[label],) = left.plot(millions, [row[name] / 1e6 for row in rows], style, lw=1)
    lines["budget"] = left.axhline(budget, color="black", lw=0.8)
    lines["budget + 15 %"] = left.axhline(1.15 * budget, color="red", lw=0.8, ls=":")
    left.set(xlabel="million URLs known", ylabel="MB", ylim=0)
    names = ["seen", "sent", "waiting", "sites", "owners", "traps"]
    stack = [[row["tables"].get(name, 0) / 1e6 for row in rows] for name in names]
    lines |= dict(zip(names, right.stackplot(millions, stack, lw=0), strict=True))
    right.set(xlabel="million URLs known", ylim=0)
    save(figure, lines, path)
