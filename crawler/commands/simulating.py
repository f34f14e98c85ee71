"""The command `simulate`."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from crawler import config
from crawler import simulate as simulator
from crawler.commands.terminal import show


def simulate(arguments: argparse.Namespace) -> int:
    """Simulate crawls of a known web, and print their measures."""
    # A known web has no traps, and its sites need no delay between requests.
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.all_keys)]
    planned = simulator.plan(
        [
            config.load(None, [*sets, *arguments.set], {"session": {"mode": mode}})
            for mode in arguments.modes.split(",")
        ],
        procs=arguments.procs,
        seeds=arguments.seeds,
        repeat=arguments.repeat,
    )
    web = simulator.load_web(arguments.graph)
    if web.left_out:
        pages = f"{web.left_out} pages whose URLs are refused"
        sys.stderr.write(f"left out: {pages}, and the links from and to them\n")
    outcomes = [asdict(outcome) for outcome in simulator.experiments(web, planned)]
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "simulate.json").write_text(json.dumps(outcomes, indent=1) + "\n")
    show(json.dumps(outcomes) if arguments.json else _table(outcomes))
    return 0


def _table(outcomes: list[dict[str, Any]]) -> str:
    names = ["mode", "scheme", "procs", "pages", "coverage", "overlap", "quality"]
    names += ["communication_overhead", "messages_page_part"]
    lines = ["  ".join(f"{name:>{max(9, len(name))}}" for name in names)]
    for outcome in outcomes:
        cells = [
            f"{outcome[name]:.4f}" if isinstance(outcome[name], float) else str(outcome[name])
            for name in names
        ]
        lines.append(
            "  ".join(
                f"{cell:>{max(9, len(name))}}" for cell, name in zip(cells, names, strict=True)
            )
        )
    return "\n".join(lines)
