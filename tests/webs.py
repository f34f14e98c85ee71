"""Random webs, and all that a crawl of one may depend on."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from cluster import Listed, settings
from hypothesis import strategies as st
from slow_seen import stores

from crawler.core.schemes import Hierarchical, Scheme, SiteHash, UrlHash
from crawler.core.seen import LateSeen, MemorySeen, UrlSeen
from crawler.simulate import Delays, Simulation, Web


@dataclass
class Setting:
    """A random web, and all that a crawl of it may depend on."""

    web: Web
    links: list[tuple[int, int]]
    seeds: list[int]
    ranks: int
    scheme: Scheme
    delays: Delays
    concurrency: int
    seed: int
    options: list[str]

    def simulation(
        self,
        *overrides: str,
        kind: type[Simulation] = Simulation,
        late: bool = False,
        make_seen: Callable[[], UrlSeen | LateSeen] | None = None,
        make_sent: Callable[[], UrlSeen] = MemorySeen,
    ) -> Simulation:
        return kind(
            self.web,
            settings(*self.options, *overrides),
            self.scheme,
            self.ranks,
            seed=self.seed,
            delays=self.delays,
            concurrency=self.concurrency,
            make_seen=make_seen or stores(random.Random(self.seed), late=late),
            make_sent=make_sent,
        )


def random_web(dice: random.Random) -> tuple[Web, list[tuple[int, int]]]:
    pages, sites = dice.randint(1, 60), dice.randint(1, 10)
    urls = [f"http://s{dice.randrange(sites)}.example/{number}" for number in range(pages)]
    links = [
        (dice.randrange(pages), dice.randrange(pages)) for _ in range(dice.randint(0, 4 * pages))
    ]
    return Web(urls, np.array(links, np.int64).reshape(-1, 2)), links


@st.composite
def crawls(draw: st.DrawFn) -> Setting:
    seed = draw(st.integers(0, 2**32))
    ranks = draw(st.integers(1, 7))
    kind = draw(st.sampled_from(["url-hash", "site-hash", "hierarchical", "listed", "listed"]))
    unlisted = draw(st.sampled_from(["claim", "claim", "site-hash", "discoverer"]))
    dice = random.Random(seed)
    web, links = random_web(dice)
    parts = ranks + dice.choice([0, 0, 1, ranks])  # also more parts than ranks
    hosts = [f"s{number}.example" for number in range(10)]
    known = dice.random()
    listed = {f"{h}": dice.randrange(parts) for h in hosts if dice.random() < known}
    schemes: dict[str, Scheme] = {
        "url-hash": UrlHash(parts),
        "site-hash": SiteHash(parts),
        "hierarchical": Hierarchical({hosts[0]: 0, hosts[1]: parts - 1}, parts),
        "listed": Listed(parts, listed),
    }
    return Setting(
        web,
        links,
        seeds=dice.sample(range(len(web)), min(len(web), dice.randint(1, 4))),
        ranks=ranks,
        scheme=schemes[kind],
        delays=Delays((0.01, dice.choice([0.01, 0.5])), (0.0001, dice.choice([0.001, 0.1, 5]))),
        concurrency=dice.choice([1, 4, 16]),
        seed=seed,
        options=[
            f"assignment.unlisted={unlisted}",
            f"politeness.delay_s={dice.choice([0, 0.3])}",
            f"politeness.connections_per_site={dice.choice([1, 1, 3])}",
            f"exchange.batch_pages={dice.choice([1, 5, 64])}",
            f"exchange.max_delay_s={dice.choice([0.05, 1])}",
        ],
    )


def exact(setting: Setting) -> bool:
    """Whether the scheme gives each page one owner: the thesis's rule for new pages doesn't."""
    return not (
        isinstance(setting.scheme, Listed) and "assignment.unlisted=discoverer" in setting.options
    )


def reachable(web: Web, seeds: Iterable[int]) -> set[int]:
    """The pages that can be reached from the seeds."""
    return set(web.reachable(seeds).tolist())
