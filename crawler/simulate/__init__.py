"""The other shell: cores over a known web and in virtual time, any number of ranks in one process.

Fetches and messages take random virtual time, so messages overtake each other; the core must be
right whatever the order. The papers' experiments and the randomised tests run here, on the same
decisions as a live crawl.

`web` is the web graph, `shell` one crawl of it, `experiment` many of them, measured.
"""

from crawler.simulate.experiment import Experiment, Outcome, experiments, measure, plan
from crawler.simulate.shell import Delays, Simulation
from crawler.simulate.web import Web, load_web

__all__ = [
    "Delays",
    "Experiment",
    "Outcome",
    "Simulation",
    "Web",
    "experiments",
    "load_web",
    "measure",
    "plan",
]
