"""The demonstration, which runs if no command is named."""

import argparse

from crawler.commands.ranks import run
from crawler.demo import demo


def demonstrate(_: argparse.Namespace) -> int:
    """Crawl the web of the demonstration twice."""
    return run(demo.run)
