"""Simulated crawls: the cores of any number of ranks crawl a known web in one process.

Time is virtual. Fetches and messages take random virtual time, so messages overtake each other, and
the core must be right in any order of events. The papers' experiments and the randomised tests run
here. The core decides here as it does in a live crawl.

`web` holds the web graph, `shell` runs one crawl of it, `experiment` runs and measures many.
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
