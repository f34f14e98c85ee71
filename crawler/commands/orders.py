"""The commands that give an order to a crawl that runs."""

import argparse
from collections.abc import Callable
from functools import partial

from crawler import steering
from crawler.commands.terminal import show


def _give(order: Callable[..., str], names: tuple[str, ...], arguments: argparse.Namespace) -> int:
    """Give an order of `steering` with these arguments of the command line."""
    show(order(arguments.session, *(getattr(arguments, name) for name in names)))
    return 0


stop = partial(_give, steering.stop, ())
pause = partial(_give, steering.pause, ())
go_on = partial(_give, steering.go_on, ())
add_seeds = partial(_give, steering.add_seeds, ("urls", "file"))
add_client = partial(_give, steering.add_client, ())
retire_client = partial(_give, steering.retire_client, ("rank",))
