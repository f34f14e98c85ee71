"""Which links reach a seed server, counted from outside."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from test_dynamic import served

from crawler.core.core import Core
from crawler.messages import Batch, Message
from crawler.ports import CrawlUrl, Link
from crawler.reading.scope import Sites


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize(
    "kind", [("page", "server"), ("site", "server"), ("site", "own"), ("dset", "own")]
)
def test_links_that_lead_out_of_what_a_client_holds_reach_the_server(
    seed: int, kind: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With follow = "server" a client holds no site. With "own" it has some from the start."""
    crawl = served(seed, kind, (0,), "frontier.order=backlinks")
    simulation = crawl.simulation
    tree = simulation.cores[0].ownership.tree
    assert tree is not None
    received, held = Core.received, defaultdict[int, set[str]](set)
    site_of = Sites("authority").of
    left = arrived = 0
    batches = set[tuple[int, int]]()

    def stored(rank: int, found: CrawlUrl, links: Sequence[Link]) -> None:
        nonlocal left
        for link in links:
            own = link.site in held[rank] or (
                kind == ("dset", "own") and tree.dsets.holder(link.site) == rank
            )
            left += not own

    def arrive(core: Core, sender: int, message: Message, now: float) -> None:
        nonlocal arrived
        received(core, sender, message, now)
        if not isinstance(message, Batch):
            return
        if core.rank and kind == ("site", "own"):
            held[core.rank].update(map(site_of, message.urls))
        elif core.rank == 0 and (sender, message.number) not in batches:
            batches.add((sender, message.number))
            arrived += sum(message.counts)
            for _, counts in message.known.values():
                arrived += int(np.frombuffer(counts, np.uint32).sum())

    monkeypatch.setattr(Core, "received", arrive)
    simulation._stored = stored
    assert simulation.run(crawl.seeds)
    assert arrived == left
