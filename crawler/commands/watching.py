"""The commands that look at a crawl: `status` and `watch`."""

import argparse

import msgspec

from crawler import session
from crawler.commands.terminal import show
from crawler.watch import follow


def status(arguments: argparse.Namespace) -> int:
    """Print the present state of a session."""
    if arguments.json:
        show(msgspec.json.encode(session.read_status(arguments.session)).decode())
    else:
        follow.show(arguments.session)
    return 0


def watch(arguments: argparse.Namespace) -> int:
    """Show a session until it ends."""
    follow.follow(arguments.session)
    return 0
