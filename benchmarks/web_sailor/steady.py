"""Figure 6 of the paper: how steady the rates of the clients are when a third one joins."""

import random
from typing import Final

import numpy as np
from harness import Row
from numpy.typing import NDArray

from crawler import config
from crawler.core.schemes import make_scheme
from crawler.simulate import Simulation, Web

from .comparison import DELAYS, SEEDS

CONNECTIONS: Final = (25, 10, 10)  # of the clients; the paper doesn't say those of the third
_WARM_S: Final = 20.0  # after which all clients have enough to do
_JOIN_S: Final = 140.0
_END_S: Final = 260.0
WINDOW_S: Final = 10.0
_SITE_DELAY_S: Final = 0.5


def conduct(web: Web, granularity: str) -> Row:
    """Crawl with two clients, and with three from the middle on. Returns the rates of each."""
    sets = [f"traps.{key}=0" for key in config.Traps.all_keys]
    sets += ["assignment.scheme=dynamic", f"dynamic.granularity={granularity}"]
    sets += ["frontier.order=backlinks", f"politeness.delay_s={_SITE_DELAY_S}"]
    sets += [f"dynamic.connections={list(CONNECTIONS)}", f"fetch.concurrency={max(CONNECTIONS)}"]
    sets += ["dynamic.spares=1", f"dynamic.join_after_s={_JOIN_S}"]
    chosen = config.load(None, sets)
    ranks = 1 + len(CONNECTIONS)
    simulation = Simulation(
        web,
        chosen,
        make_scheme(chosen, ranks),
        ranks,
        delays=DELAYS,
        concurrency=max(CONNECTIONS),
        encoded=False,
    )
    seeds = random.Random(0).sample(range(len(web)), min(SEEDS, len(web)))
    simulation.run(seeds, stop_at=(_END_S, 0))
    times, by = np.array(simulation.times), np.array(simulation.by)
    rates = np.array([_rates(times[by == rank]) for rank in range(1, ranks)])
    before = slice(int(_WARM_S / WINDOW_S), int(_JOIN_S / WINDOW_S))
    after = slice(int((_JOIN_S + _WARM_S) / WINDOW_S), None)
    return {
        "part": "steady",
        "granularity": granularity,
        "connections": CONNECTIONS,
        "join_s": _JOIN_S,
        "rates": rates.tolist(),
        "means": [[float(one[part].mean()) for part in (before, after)] for one in rates],
        "variations": [[_variation(one[part]) for part in (before, after)] for one in rates],
    }


def _rates(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pages a second in each window."""
    windows = int(_END_S / WINDOW_S)
    return np.histogram(times, windows, (0, _END_S))[0] / WINDOW_S


def _variation(rates: NDArray[np.float64]) -> float | None:
    """The coefficient of variation: the standard deviation by the mean."""
    mean = float(rates.mean())
    return float(rates.std()) / mean if mean else None
