"""The command line of the partitioning job; nothing but arguments and printing."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Never

from crawler import __version__
from partition import UserError, graph, job
from partition.engines import EngineError
from partition.job import DEFAULT_TOLERANCES, Plan, Tolerances
from partition.partvector import PartVector, PartVectorError

_COLUMNS: Final = (
    "model",
    "k",
    "imbalance bytes",
    "requests",
    "messages page",
    "site",
    "transmissions",
    "volume KB",
    "seconds",
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Never:
        raise UserError(message)


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def _seed(text: str) -> int:
    if not text.strip().isdecimal() or int(text) >= 1 << 31:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 0 to {2**31 - 1}")
    return int(text)


def _wholes(text: str) -> list[int]:
    return [_whole(piece) for piece in text.split(",")]


def _models(text: str) -> list[str]:
    models = list(job.MODELS) if text == "all" else text.split(",")
    for model in models:
        if model not in job.MODELS:
            raise argparse.ArgumentTypeError(
                f"{model}: must be all, or some of {','.join(job.MODELS)}"
            )
    return models


def _tolerances(text: str) -> Tolerances:
    given = dict(zip(job.WEIGHTS, DEFAULT_TOLERANCES, strict=True))
    for piece in text.split(","):
        name, _, number = piece.partition("=")
        try:
            given[name] = float(number)
        except ValueError:
            given[name] = -1
        if name not in job.WEIGHTS or not 0 <= given[name] < float("inf"):
            raise argparse.ArgumentTypeError(
                f"{piece}: has the form bytes=0.05,requests=0.05, numbers from 0 on"
            )
    return given["bytes"], given["requests"]


def _parser() -> _Parser:
    parser = _Parser(
        prog="partition", description="Part vectors out of the link graphs of sessions."
    )
    parser.add_argument("--version", action="version", version=f"abc-crawler {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    build = commands.add_parser("build", help="make the part vector of the next session")
    build.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="SESSION",
        help="oldest first: later ones win; or one folder with a graph",
    )
    build.add_argument("-k", type=_whole, required=True, help="number of parts")
    build.add_argument("--model", default="site-graph", choices=job.SITE_MODELS)
    build.add_argument("--out", type=Path, required=True, metavar="FILE", help="the part vector")

    evaluate = commands.add_parser("evaluate", help="what models, or a part vector, mean on a web")
    evaluate.add_argument("path", type=Path, metavar="SESSION|GRAPH|PARTVECTOR")
    evaluate.add_argument("--on", type=Path, metavar="SESSION|GRAPH", help="with a PARTVECTOR")
    evaluate.add_argument("-k", type=_wholes, metavar="K,..", help="numbers of parts")
    evaluate.add_argument(
        "--models",
        type=_models,
        metavar="M,..|all",
        help=f"of {', '.join(job.MODELS)} (default: all; with a PARTVECTOR url-hash,site-hash)",
    )
    for command in (build, evaluate):
        command.add_argument("--version", action="version", version=f"abc-crawler {__version__}")
        command.add_argument(
            "--seed", type=_seed, default=0, metavar="X", help="equal seeds, equal parts"
        )
        command.add_argument("--tries", type=_whole, default=1, metavar="N", help="best of N seeds")
        command.add_argument(
            "--epsilon",
            type=_tolerances,
            default=DEFAULT_TOLERANCES,
            metavar="WEIGHT=E,..",
            help="imbalance allowed (default: bytes=0.05,requests=0.05)",
        )
        command.add_argument(
            "--site-column",
            default="site",
            metavar="NAME",
            help="of a graph's pages (default: site)",
        )
        command.add_argument(
            "--json", action="store_true", help="results as JSON on standard output"
        )
    return parser


def _build(arguments: argparse.Namespace) -> None:
    out: Path = arguments.out
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"--out {out}: must be a file in a folder that exists")
    plans = job.build(
        arguments.paths,
        arguments.k,
        out,
        model=arguments.model,
        seed=arguments.seed,
        tries=arguments.tries,
        tolerances=arguments.epsilon,
        site_column=arguments.site_column,
    )
    _show(plans, as_json=arguments.json)
    built, *baselines = plans
    for baseline in baselines:
        _say(
            f"messages: {baseline.counts.messages_page_part:,} by {baseline.model},"
            f" {built.counts.messages_page_part:,} by {built.model}"
        )
    _say(f"written: {out}")


def _evaluate(arguments: argparse.Namespace) -> None:
    path: Path = arguments.path
    options = {"tolerances": arguments.epsilon, "seed": arguments.seed, "tries": arguments.tries}
    if path.is_file():
        vector = PartVector.open(path)
        if arguments.on is None:
            raise UserError(f"{path}: a part vector needs --on SESSION|GRAPH to be evaluated on")
        if arguments.k not in (None, [vector.parts]):
            raise UserError(f"-k: {path} has {vector.parts} parts; leave -k out")
        web = graph.read([arguments.on], arguments.site_column)
        unlisted = sum(vector.site_part(site) is None for site in web.sites)
        if unlisted:
            _say(f"{unlisted:,} of {len(web.sites):,} sites aren't in {path}: by site-hash")
        models, numbers = arguments.models or job.BASELINES, [vector.parts]
        plans = [job.follow(web, vector, arguments.epsilon)]
    else:
        if arguments.on is not None:
            raise UserError(f"--on: only for a part vector; {path} is none")
        if arguments.k is None:
            raise UserError("-k: needed, numbers of parts like 4,8,16")
        web = graph.read([path], arguments.site_column)
        models, numbers, plans = arguments.models or job.MODELS, arguments.k, []
    for parts in numbers:
        plans += [job.plan(web, model, parts, **options) for model in models]
    _say(f"{web.pages:,} pages, {len(web.sites):,} sites, {web.links:,} links")
    _show(plans, as_json=arguments.json)


def _show(plans: Sequence[Plan], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([plan.row() for plan in plans], indent=1) + "\n")
        return
    lines = [_COLUMNS, *map(_cells, plans)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        sys.stdout.write("  ".join([line[0].ljust(widths[0]), *cells[1:]]) + "\n")
    for plan in plans:
        if plan.reason:
            sys.stdout.write(f"{plan.model}, k = {plan.parts}: {plan.reason}\n")
        if plan.constraints == 1:
            sys.stdout.write(
                f"{plan.model}, k = {plan.parts}: this pymetis has no METIS for two weights;"
                " the sum of bytes and requests was balanced\n"
            )


def _cells(plan: Plan) -> tuple[str, ...]:
    counts = plan.counts
    return (
        plan.model,
        str(plan.parts),
        f"{counts.imbalance_bytes:.1%}",
        f"{counts.imbalance_requests:.1%}",
        f"{counts.messages_page_part:,}",
        f"{counts.messages_site_part:,}",
        f"{counts.transmissions_target_part:,}",
        f"{counts.volume_bytes / 1000:,.0f}",
        f"{plan.seconds:.2f}",
    )


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 1 failed, 2 wrong usage."""
    try:
        arguments = _parser().parse_args(words)
        {"build": _build, "evaluate": _evaluate}[arguments.command](arguments)
    except (UserError, PartVectorError) as error:
        _say(f"partition: {error}")
        return 2
    except (EngineError, OSError) as error:
        _say(f"partition: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
