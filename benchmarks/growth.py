"""How the cost of a page and the memory of a rank grow with the pages of a crawl.

    python -m benchmarks growth [--pages N,..] [--links N] [--runs N]

ABC crawls made webs of small pages (`web.Numbered`) on one rank, live and with everything on. A row
for each size has the fields of the benchmark `crawl`, and `rest_bytes`: the peak of the rank
without its tables of URLs and sites. If memory is flat, this is the same for every size.
"""

from collections.abc import Iterator
from functools import partial

from crawl import abc, in_scratch
from harness import Numbers, Row, in_turns, medians
from web import Numbered, serve

QUICK = {"pages": [500, 1000]}
SITE = 500  # pages


def run(
    *, pages: Numbers = (20_000, 50_000, 500_000), links: int = 12, runs: int = 1
) -> Iterator[Row]:
    for number in pages:
        with serve(Numbered(-(-number // SITE), SITE, links)) as web:
            call = partial(in_scratch, partial(abc, 1, "auto"), web)
            row = medians(in_turns({f"{number} pages": call}, runs)[f"{number} pages"])
        rest = row["rank_peak_bytes"] - row["tables_peak_bytes"]
        yield {"web": f"{number:,} pages"} | row | {"rest_bytes": rest}
