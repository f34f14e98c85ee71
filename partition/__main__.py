"""The command line of the partitioning job; nothing but arguments and printing."""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Never

from crawler import __version__
from partition import (
    UserError,
    graph,
    importers,
    job,
    judge,
    politeness,
    synthesize,
    table,
    webgraph,
)
from partition.child import EngineError
from partition.engines import ENGINES, RANKS
from partition.job import BASELINES, Plan
from partition.models import MODELS, Objective
from partition.network import read_costs
from partition.partvector import PartVector, PartVectorError
from partition.settings import DEFAULT_TOLERANCES, Settings, Tolerances
from partition.suffixes import read_suffixes
from partition.webgraph import WebGraph

_ALL: Final = (*BASELINES, *MODELS)


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


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number, 0 or more")
    return number


def _fraction(text: str) -> float:
    number = _number(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0 to 1")
    return number


def _wholes(text: str) -> list[int]:
    return [_whole(piece) for piece in text.split(",")]


def _models(text: str) -> list[str]:
    models = list(_ALL) if text == "all" else text.split(",")
    for model in models:
        if model not in _ALL:
            raise argparse.ArgumentTypeError(f"{model}: must be all, or some of {','.join(_ALL)}")
    return models


def _tolerances(text: str) -> Tolerances:
    given = dict(zip(judge.WEIGHTS, DEFAULT_TOLERANCES, strict=True))
    said = set()
    for piece in text.split(","):
        name, _, number = piece.partition("=")
        if name in said:
            raise argparse.ArgumentTypeError(f"{piece}: {name} is given twice; must be once")
        said.add(name)
        try:
            given[name] = float(number)
        except ValueError:
            given[name] = -1
        if name not in judge.WEIGHTS or not given[name] >= 0:
            raise argparse.ArgumentTypeError(
                f"{piece}: has the form bytes=0.05,requests=0.05, numbers from 0 on or inf"
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
    build.add_argument(
        "--model",
        choices=MODELS,
        help=f"(default: {job.DEFAULT_MODEL}, which keeps sites whole; or hybrid, if sites heavier"
        " than a part allow more pages a second than --rank-rate, for these)",
    )
    build.add_argument(
        "--rank-rate",
        type=_number,
        default=politeness.RANK_RATE,
        metavar="R",
        help="pages a second that a rank can fetch and read"
        f" (default: {politeness.RANK_RATE:g}); faster sites may be divided",
    )
    build.add_argument("--out", type=Path, required=True, metavar="FILE", help="the part vector")

    evaluate = commands.add_parser("evaluate", help="what models, or a part vector, mean on a web")
    evaluate.add_argument("path", type=Path, metavar="SESSION|GRAPH|PARTVECTOR")
    evaluate.add_argument("--on", type=Path, metavar="SESSION|GRAPH", help="with a PARTVECTOR")
    evaluate.add_argument("-k", type=_wholes, metavar="K,..", help="numbers of parts")
    evaluate.add_argument(
        "--models",
        type=_models,
        metavar="M,..|all",
        help=f"of {', '.join(_ALL)} (default: all; with a PARTVECTOR {','.join(job.COMPARED)})",
    )
    evaluate.add_argument(
        "--suffixes",
        type=Path,
        metavar="FILE",
        help="hierarchical: the part of each suffix of host names, TOML",
    )
    evaluate.add_argument("--html", type=Path, metavar="FILE", help="the table as a page, too")
    for command in (build, evaluate):
        _add_settings(command)

    importer = commands.add_parser("import", help="make a graph folder of a graph from elsewhere")
    importer.add_argument("kind", choices=importers.KINDS)
    importer.add_argument("files", nargs="*", type=Path, metavar="FILE")
    importer.add_argument("--pages", type=Path, metavar="FILE", help="parquet: pages")
    importer.add_argument("--links", type=Path, metavar="FILE", help="parquet: links")
    importer.add_argument("--site-column", default="site", metavar="NAME", help="parquet: of pages")

    synthetic = commands.add_parser("synthesize", help="make a graph folder of a random web")
    synthetic.add_argument("--pages", type=_whole, required=True, metavar="N")
    synthetic.add_argument("--sites", type=_whole, required=True, metavar="S")
    synthetic.add_argument("--like", choices=["google"], default="google", help="(default: google)")
    synthetic.add_argument(
        "--communities",
        type=_fraction,
        default=0.0,
        metavar="SHARE",
        help="of the links between sites, those that stay within groups of 40 (default: 0)",
    )
    synthetic.add_argument("--seed", type=_seed, default=0, metavar="X")
    for command in (importer, synthetic):
        command.add_argument("--out", type=Path, required=True, metavar="GRAPH")
    for command in (build, evaluate, importer, synthetic):
        command.add_argument("--version", action="version", version=f"abc-crawler {__version__}")
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--seed", type=_seed, default=0, metavar="X", help="equal seeds, equal parts")
    add("--tries", type=_whole, default=1, metavar="N", help="best of N")
    add(
        "--epsilon",
        type=_tolerances,
        default=DEFAULT_TOLERANCES,
        metavar="WEIGHT=E,..",
        help="imbalance allowed (default: bytes=0.05,requests=0.05); inf: it doesn't matter",
    )
    add("--engine", choices=ENGINES, help="(default: metis for graphs, multilevel for hypergraphs)")
    add(
        "--engine-ranks",
        type=_whole,
        metavar="N",
        help=f"with --engine zoltan: the ranks it runs on (default: {RANKS})",
    )
    add(
        "--t-start",
        type=_number,
        metavar="T",
        help="hybrid: what a message costs by itself (default: 1; without --t-byte, messages and"
        " volume are both made small)",
    )
    add(
        "--t-byte",
        type=_number,
        metavar="T",
        help="hybrid: what each byte of a URL costs in it (default: 0 with --t-start)",
    )
    add(
        "--remember",
        choices=["nothing", "all"],
        default="nothing",
        help="hybrid: whether senders send a URL once only (default: nothing)",
    )
    add(
        "--replicate",
        type=int,
        default=0,
        metavar="N",
        help="the N most linked-to URLs are known to every rank (default: 0)",
    )
    add("--previous", type=Path, metavar="PARTVECTOR", help="start from it")
    add(
        "--migration",
        type=_fraction,
        default=0.1,
        metavar="F",
        help="with --previous: the fraction of the bytes, and of the requests, that may move"
        " (default: 0.1)",
    )
    add("--together", choices=["address"], help="keep sites in one part that share a server")
    add("--network", type=Path, metavar="FILE", help="costs of messages between ranks, TOML")
    add("--site-column", default="site", metavar="NAME", help="of a graph's pages (default: site)")
    add("--json", action="store_true", help="results as JSON on standard output")


def _settings(arguments: argparse.Namespace) -> Settings:
    if arguments.replicate < 0:
        raise UserError(f"--replicate {arguments.replicate}: must be 0 or more")
    if arguments.engine_ranks and arguments.engine != "zoltan":
        raise UserError("--engine-ranks: only for --engine zoltan")
    started = time.perf_counter()
    return Settings(
        tolerances=arguments.epsilon,
        seed=arguments.seed,
        tries=arguments.tries,
        engine=arguments.engine,
        ranks=arguments.engine_ranks or RANKS,
        objective=_objective(arguments),
        previous=PartVector.open(arguments.previous) if arguments.previous else None,
        migration=arguments.migration,
        network=read_costs(arguments.network) if arguments.network else None,
        progress=lambda text: _say(f"{time.perf_counter() - started:7.1f} s  {text}"),
    )


def _objective(arguments: argparse.Namespace) -> Objective | None:
    t_start, t_byte, remember = arguments.t_start, arguments.t_byte, arguments.remember == "all"
    if t_start is None and t_byte is None:
        if remember:
            raise UserError("--remember all: only with --t-byte")
        return None
    objective = Objective(1.0 if t_start is None else t_start, t_byte or 0.0, remember)
    if not objective.t_start and not objective.t_byte:
        raise UserError("--t-start, --t-byte: one of them must be more than 0")
    return objective


def _check_file(option: str, path: Path) -> None:
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: must be a file in a folder that exists")


def _build(arguments: argparse.Namespace) -> None:
    out: Path = arguments.out
    _check_file("--out", out)
    plans = job.build(
        arguments.paths,
        arguments.k,
        out,
        model=arguments.model,
        settings=replace(_settings(arguments), rank_rate=arguments.rank_rate),
        together=arguments.together == "address",
        replicate=arguments.replicate,
        site_column=arguments.site_column,
    )
    _show(plans, as_json=arguments.json)
    built, *baselines = plans
    if not arguments.json:
        sys.stdout.write(f"{built.bound}\n")
    for baseline in baselines:
        _say(
            f"messages: {baseline.counts.messages_page_part:,} by {baseline.model},"
            f" {built.counts.messages_page_part:,} by {built.model}"
        )
    _say(f"written: {out}; {built.bound}")


def _evaluate(arguments: argparse.Namespace) -> None:
    path: Path = arguments.path
    if arguments.html:
        _check_file("--html", arguments.html)
    settings = _settings(arguments)
    models = arguments.models or (job.COMPARED if path.is_file() else _ALL)
    if arguments.together and not arguments.models:
        models = [name for name in models if not job.divides_sites(name)]
    if arguments.suffixes:
        if "hierarchical" not in models:
            raise UserError("--suffixes: only for the model hierarchical")
        settings = replace(settings, suffixes=read_suffixes(arguments.suffixes))
    if path.is_file():
        vector = PartVector.open(path)
        if arguments.on is None:
            raise UserError(f"{path}: a part vector needs --on SESSION|GRAPH to be evaluated on")
        if arguments.k not in (None, [vector.parts]):
            raise UserError(f"-k: {path} has {vector.parts} parts; leave -k out")
        if arguments.replicate:
            raise UserError(f"--replicate: {path} says itself what is replicated; leave it out")
        web = job.known_to(graph.read([arguments.on], arguments.site_column), vector)
        unlisted = sum(vector.site_part(site) is None for site in web.sites)
        if unlisted:
            _say(f"{unlisted:,} of {len(web.sites):,} sites aren't in {path}: by site-hash")
        numbers, plans = [vector.parts], [job.follow(web, vector, settings)]
    else:
        if arguments.on is not None:
            raise UserError(f"--on: only for a part vector; {path} is none")
        if arguments.k is None:
            raise UserError("-k: needed, numbers of parts like 4,8,16")
        for parts in arguments.k:
            for model in models:
                job.check(settings, parts, model, together=bool(arguments.together))
        web = graph.read([path], arguments.site_column)
        if arguments.replicate:
            known = webgraph.popular(web, arguments.replicate)
            web = webgraph.without_links_to(web, known)
        numbers, plans = arguments.k, []
    of_session = arguments.on or path
    settings = replace(settings, politeness=politeness.read([of_session]))
    if arguments.together:
        settings = replace(settings, together=graph.addresses(of_session))
    for parts in numbers:
        plans += [job.plan(web, model, parts, settings) for model in models]
    about = f"{_size(web)}; {plans[0].bound}"
    _say(about)
    _show(plans, as_json=arguments.json)
    if arguments.html:
        arguments.html.write_text(table.page(f"Partitions of {path}", about, plans))
        _say(f"written: {arguments.html}")


def _import(arguments: argparse.Namespace) -> None:
    importers.run(
        arguments.kind,
        arguments.files,
        arguments.out,
        pages=arguments.pages,
        links=arguments.links,
        site_column=arguments.site_column,
        say=_say,
    )
    _say(f"written: {arguments.out}, {_size(graph.read([arguments.out]))}")


def _synthesize(arguments: argparse.Namespace) -> None:
    web = synthesize.google_like(
        arguments.pages, arguments.sites, arguments.seed, arguments.communities
    )
    importers.write(arguments.out, *web)
    for name, value in synthesize.statistics(graph.read([arguments.out])).items():
        _say(f"{name:24}{value}")
    _say(f"written: {arguments.out}")


def _size(web: WebGraph) -> str:
    source, target = web.site[web.sources()], web.site[web.adj]
    inside = float((source == target).mean()) if web.links else 1.0
    return (
        f"{web.pages:,} pages, {len(web.sites):,} sites, {web.links:,} links,"
        f" {inside:.1%} of them within sites"
    )


def _show(plans: Sequence[Plan], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([plan.row() for plan in plans], indent=1) + "\n")
        return
    sys.stdout.write(table.text(plans))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 1 failed, 2 wrong usage."""
    try:
        arguments = _parser().parse_args(words)
        {
            "build": _build,
            "evaluate": _evaluate,
            "import": _import,
            "synthesize": _synthesize,
        }[arguments.command](arguments)
    except (UserError, PartVectorError) as error:
        _say(f"partition: {error}")
        return 2
    except (EngineError, OSError) as error:
        _say(f"partition: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
