"""The command line: runs the command that the arguments name.

Every rank runs this module, so its imports cost a large job much time. It imports only the module
of the command that it runs.
"""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Final

import crawler.startup  # before numpy
from crawler import session
from crawler.arguments import make_parser
from crawler.commandline import is_first, only_first_tells
from crawler.commands.terminal import complain
from crawler.ports import EXIT_USAGE, UserError

_CRAWLS: Final = frozenset((None, "crawl", "resume"))  # they tell mistakes on all ranks themselves
# Each command, by its module and its function in `crawler.commands`.
COMMANDS: Final[dict[str | None, str]] = {
    None: "demonstrating:demonstrate",
    "crawl": "crawling:crawl",
    "resume": "crawling:resume",
    "stop": "orders:stop",
    "pause": "orders:pause",
    "continue": "orders:go_on",
    "add-seeds": "orders:add_seeds",
    "add-client": "orders:add_client",
    "retire-client": "orders:retire_client",
    "status": "watching:status",
    "watch": "watching:watch",
    "ask": "asking:ask",
    "verify": "results:verify",
    "report": "results:report",
    "export": "results:export",
    "config": "printing:show_config",
    "completion": "printing:show_completion",
    "fetch": "inspecting:fetch",
    "explain": "inspecting:explain",
    "simulate": "simulating:simulate",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name. Returns its exit code."""
    crawler.startup.begin()
    try:
        with only_first_tells():
            words = sys.argv[1:] if words is None else words
            arguments = make_parser(first=next(iter(words), None)).parse_args(words)
        with nullcontext() if arguments.command in _CRAWLS else session.mistakes_told():
            module, _, function = COMMANDS[arguments.command].partition(":")
            command = getattr(import_module(f"crawler.commands.{module}"), function)
            code: int = command(arguments)
            return code
    except UserError as error:
        if is_first():
            complain(error)
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
