"""The command `ask`."""

import argparse
import json

from crawler import asking
from crawler.commands.terminal import show, wrapped
from crawler.ports import EXIT_FAILED


def ask(arguments: argparse.Namespace) -> int:
    """Print what a session knows of a URL or of a site."""
    found = asking.ask(arguments.session, arguments.what)
    if arguments.json:
        show(json.dumps(asking.as_json(found)))
    else:
        for word, says in asking.says(found):
            show("\n".join(wrapped(word, says)))
    return 0 if found.is_known else EXIT_FAILED
