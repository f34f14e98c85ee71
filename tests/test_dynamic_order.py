"""With no delays, a seed server has URLs fetched in the order in which one rank fetches them."""

import random

import pytest
from cluster import few_examples, settings
from hypothesis import given
from hypothesis import strategies as st
from webs import random_web

from crawler import config
from crawler.core.schemes import Scheme, SiteHash, make_scheme
from crawler.ports import CrawlUrl
from crawler.simulate import Delays, Simulation, Web


class Timed(Simulation):
    """Each page takes a time of its own, so that no two fetches end at once. Messages take none."""

    def __init__(
        self, web: Web, settings: config.Config, scheme: Scheme, ranks: int, concurrency: int
    ) -> None:
        delays = Delays(fetch=(1.0, 2.0), message=(0.0, 0.0))
        super().__init__(web, settings, scheme, ranks, delays=delays, concurrency=concurrency)
        self._dice = self._share
        self._rank = 0

    def _advance(self, rank: int) -> None:
        self._rank = rank
        super()._advance(rank)

    def _share(self) -> float:
        """By the page whose visit has begun last."""
        key = next(reversed(self.cores[self._rank].unfinished.visiting), None)
        return 0.0 if key is None else self.web.pages[key] / len(self.web)


def as_found(found: CrawlUrl) -> float:
    """The URLs come in the order in which they were found, whatever their sites.

    (In the order breadth-first of one rank, the sites take turns.)
    """
    return 0.0


@pytest.mark.parametrize("order", ["backlinks", "opic", "pagerank", "depth-first", "random", ""])
@few_examples
@given(seed=st.integers(0, 2**32), clients=st.integers(1, 6))
def test_one_page_at_a_time_is_fetched_in_the_order_of_one_rank(
    order: str, seed: int, clients: int
) -> None:
    dice = random.Random(seed)
    web, _ = random_web(dice)
    seeds = dice.sample(range(len(web)), min(len(web), dice.randint(1, 4)))
    own = f"{__name__}:as_found"
    alone = Timed(web, settings(f"frontier.order={order or own}"), SiteHash(1), 1, clients)
    chosen = settings(
        f"frontier.order={order or 'breadth-first'}",
        "assignment.scheme=dynamic",
        "dynamic.granularity=page",
        "dynamic.rest_s=0",
        "dynamic.stock=1",
        "dynamic.per_site=1",
        "exchange.batch_pages=1",
    )
    ranks = 1 + clients
    served = Timed(web, chosen, make_scheme(chosen, ranks), ranks, 1)
    assert alone.run(seeds)
    assert served.run(seeds)
    assert served.order == alone.order
