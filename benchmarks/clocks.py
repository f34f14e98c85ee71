"""How fast several ranks crawl one site together, compared with one rank that owns all of it.

    python benchmarks clocks [--pages N] [--ranks K,..]

Gives a row for each politeness and each time that a message takes: the rate of one owner
in pages a second, and the share of it that K ranks reach with `url-hash`. Time is virtual, and a
fetch takes 0.05 to 0.5 s. The first page links to all others, and each page to three.
"""

import random
from collections.abc import Iterator

import numpy as np
from harness import Numbers, Row

from crawler import config
from crawler.core.schemes import Scheme, SiteHash, UrlHash
from crawler.simulate import Simulation, Web
from crawler.simulate.shell import Delays

POLITENESS = [(1, 1.0), (1, 0.1), (4, 0.25), (8, 0.0)]  # connections, delay in seconds
MESSAGES_S = [0.0001, 0.005, 0.1]


def one_site(pages: int) -> Web:
    dice = random.Random(1)
    links = [(0, page) for page in range(1, pages)]
    links += [(page, dice.randrange(pages)) for page in range(pages) for _ in range(3)]
    return Web([f"http://big.example/{page}" for page in range(pages)], np.array(links))


def seconds(
    web: Web, connections: int, delay_s: float, scheme: Scheme, ranks: int, message_s: float
) -> float:
    """Return how long a crawl takes, in virtual time."""
    sets = [f"politeness.delay_s={delay_s}", f"politeness.connections_per_site={connections}"]
    simulation = Simulation(
        web,
        config.load(None, sets),
        scheme,
        ranks,
        delays=Delays(fetch=(0.05, 0.5), message=(message_s, message_s)),
    )
    assert simulation.run([0])
    assert simulation.pages == len(web)
    return simulation.now


def run(*, pages: int = 6000, ranks: Numbers = (8, 64)) -> Iterator[Row]:
    web = one_site(pages)
    for connections, delay_s in POLITENESS:
        alone_s = seconds(web, connections, delay_s, SiteHash(1), 1, 0.0)
        for message_s in MESSAGES_S:
            shares = {
                f"ranks_{number}": alone_s
                / seconds(web, connections, delay_s, UrlHash(number), number, message_s)
                for number in ranks
            }
            row = {"connections": connections, "delay_s": delay_s, "message_s": message_s}
            yield row | {"one_owner_pages_per_s": len(web) / alone_s} | shares
