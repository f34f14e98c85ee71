"""The commands that look at single URLs: `fetch` and `explain`."""

import argparse
import json

import uvloop

from crawler import config, inspect
from crawler.commands.terminal import complain, one_line, readable, show
from crawler.ports import EXIT_FAILED, EXIT_INTERNAL, Failure
from crawler.report.explanations import explained_alone
from crawler.report.outcomes import failure_of


def fetch(arguments: argparse.Namespace) -> int:
    """Fetch URLs as a crawl would, and print what came."""
    settings = config.load(arguments.config, arguments.set)

    async def fetch_all() -> int:
        came, internal = False, False
        async for result in inspect.fetch(settings, arguments.urls):
            show(json.dumps(result) if arguments.json else readable(result))
            what = failure_of(result.get("status"), result.get("error"))
            came = came or what is None
            internal = internal or what == Failure.INTERNAL
            if what is not None:
                complain(one_line(f"{result['url']}: {what}: {explained_alone(what)}"))
        if internal:
            return EXIT_INTERNAL
        return 0 if came else EXIT_FAILED

    return uvloop.run(fetch_all())


def explain(arguments: argparse.Namespace) -> int:
    """Print what a crawl would do with a URL."""
    result = uvloop.run(
        inspect.explain(
            config.load(arguments.config, arguments.set),
            arguments.url,
            arguments.ranks,
            robots_file=arguments.robots_file,
            offline=arguments.offline,
        )
    )
    show(json.dumps(result) if arguments.json else readable(result))
    return 0
