"""The options of the command line, and the settings that are made from them."""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from crawler.commandline import SHELLS, Parser, program
from crawler.version import __version__
from partition import (
    UserError,
    importers,
    job,
    judge,
    planning,
    politeness,
)
from partition.engines import ENGINES, RANKS
from partition.models import MODELS, Objective
from partition.network import read_costs
from partition.partvector import PartVector
from partition.planning import BASELINES
from partition.settings import DEFAULT_TOLERANCES, MIGRATION, PINS_PER_RANK, Settings, Tolerances

ALL: Final = (*BASELINES, *MODELS)  # the names of all models


SCRIPT: Final = "abc-partition"


class _Parser(Parser):
    mistake = UserError


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def _seed(text: str) -> int:
    if not text.strip().isdecimal() or int(text) >= 1 << 31:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 0 to {2**31 - 1}")
    return int(text)


def _number(text: str) -> float:
    if not 0 <= (number := _real(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number, 0 or more")
    return number


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _rate(text: str) -> float:
    if not 0 < (number := _real(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return number


def _fraction(text: str) -> float:
    if not 0 <= (number := _real(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0 to 1")
    return number


def _whole_or_auto(text: str) -> int | None:
    return None if text == "auto" else _whole(text)


def _wholes(text: str) -> list[int]:
    return [_whole(piece) for piece in text.split(",")]


def _models(text: str) -> list[str]:
    models = list(ALL) if text == "all" else text.split(",")
    for model in models:
        if model not in ALL:
            raise argparse.ArgumentTypeError(f"{model}: must be all, or some of {','.join(ALL)}")
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


def make_parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands. It raises UserError for wrong usage."""
    parser = _Parser(
        prog=prog or program(SCRIPT, "partition"),
        description="Make part vectors from the link graphs of sessions.",
    )
    parser.add_argument("--version", action="version", version=f"abc-crawler {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    build = commands.add_parser("build", help="make the part vector of the next session")
    build.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="SESSION",
        help="sessions, the oldest first: of a page, the latest one counts; or one graph folder",
    )
    build.add_argument(
        "-k",
        type=_whole_or_auto,
        required=True,
        metavar="K|auto",
        help="number of parts; auto: as many as make the crawl faster, by the predicted time",
    )
    build.add_argument(
        "--model",
        choices=MODELS,
        help=f"default: {job.DEFAULT_MODEL}, which keeps sites whole. If a site is heavier than a"
        " part and allows more pages a second than --rank-rate, the default is hybrid, which splits"
        " such sites only",
    )
    build.add_argument(
        "--pins-per-rank",
        type=_whole,
        metavar="N",
        help="under mpirun: the most pins and ends of edges of the model that one rank searches."
        " The ranks first coarsen a larger model together"
        f" (default: {PINS_PER_RANK})",
    )
    build.add_argument("--out", type=Path, required=True, metavar="FILE", help="the part vector")

    completion = commands.add_parser(
        "completion", help="print the completion of commands and options for a shell"
    )
    completion.add_argument("shell", choices=SHELLS)

    evaluate = commands.add_parser(
        "evaluate", help="compare what models, or a part vector, cost on a link graph"
    )
    evaluate.add_argument(
        "path",
        type=Path,
        metavar="SESSION|GRAPH|PARTVECTOR",
        help="a session, a graph folder, or a part vector",
    )
    evaluate.add_argument(
        "--on", type=Path, metavar="SESSION|GRAPH", help="the link graph for a PARTVECTOR"
    )
    evaluate.add_argument("-k", type=_wholes, metavar="K,..", help="numbers of parts")
    evaluate.add_argument(
        "--models",
        type=_models,
        metavar="M,..|all",
        help=f"all, or some of {', '.join(ALL)}"
        f" (default: all; with a PARTVECTOR {','.join(planning.COMPARED)})",
    )
    evaluate.add_argument(
        "--suffixes",
        type=Path,
        metavar="FILE",
        help="for the model hierarchical: a TOML file with the part of each suffix of host names",
    )
    evaluate.add_argument(
        "--html", type=Path, metavar="FILE", help="also write the plans as a page"
    )
    for command in (build, evaluate):
        _add_settings(command)

    importer = commands.add_parser(
        "import", help="make a graph folder from another program's graph"
    )
    importer.add_argument(
        "kind", choices=importers.KINDS, help="the form of the files (docs/graph.md)"
    )
    importer.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="input of every kind except parquet"
    )
    importer.add_argument(
        "--pages", type=Path, metavar="FILE", help="for parquet: the table of pages"
    )
    importer.add_argument(
        "--links", type=Path, metavar="FILE", help="for parquet: the table of links"
    )
    importer.add_argument(
        "--site-column",
        default="site",
        metavar="NAME",
        help="for parquet: the column with a page's site (default: site)",
    )

    synthetic = commands.add_parser("synthesize", help="make a graph folder of a random web")
    synthetic.add_argument(
        "--pages", type=_whole, required=True, metavar="N", help="number of pages"
    )
    synthetic.add_argument(
        "--sites", type=_whole, required=True, metavar="S", help="number of sites"
    )
    synthetic.add_argument(
        "--like",
        choices=["google"],
        default="google",
        help="the data set that the web resembles (default: google)",
    )
    synthetic.add_argument(
        "--communities",
        type=_fraction,
        metavar="SHARE",
        help="the share of choices of another site that stay in the site's community "
        "(default: 0.955, which was fitted)",
    )
    synthetic.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="X",
        help="equal seeds give equal webs (default: 0)",
    )
    for command in (importer, synthetic):
        command.add_argument(
            "--out", type=Path, required=True, metavar="GRAPH", help="the graph folder to make"
        )
    for command in (build, evaluate, importer, synthetic):
        command.add_argument("--version", action="version", version=f"abc-crawler {__version__}")
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--seed",
        type=_seed,
        default=0,
        metavar="X",
        help="equal seeds give equal parts (default: 0)",
    )
    add(
        "--tries",
        type=_whole,
        default=1,
        metavar="N",
        help="take the best of N seeds, from --seed on (default: 1)",
    )
    add(
        "--epsilon",
        type=_tolerances,
        default=DEFAULT_TOLERANCES,
        metavar="WEIGHT=E,..",
        help="the allowed imbalance of each weight; inf: the weight isn't balanced"
        " (default: bytes=0.05,requests=0.05)",
    )
    add(
        "--rank-rate",
        type=_rate,
        default=politeness.RANK_RATE,
        metavar="R",
        help="pages a second that a rank can fetch and read, which says how long a crawl takes;"
        f" build may split sites that allow more (default: {politeness.RANK_RATE:g})",
    )
    add("--engine", choices=ENGINES, help="default: metis for graphs, multilevel for hypergraphs")
    add(
        "--engine-ranks",
        type=_whole,
        metavar="N",
        help=f"with --engine zoltan: the number of ranks that Zoltan runs on (default: {RANKS})",
    )
    add(
        "--t-start",
        type=_number,
        metavar="T",
        help="for hybrid: what a message costs. Without --t-start and --t-byte, hybrid minimises"
        " both messages and volume (default: 1 with --t-byte)",
    )
    add(
        "--t-byte",
        type=_number,
        metavar="T",
        help="for hybrid: what each byte of a sent URL costs (default: 0 with --t-start)",
    )
    add(
        "--remember",
        choices=["nothing", "all"],
        default="nothing",
        help="for hybrid with --t-byte: all: a rank sends each URL once only (default: nothing)",
    )
    add(
        "--replicate",
        type=int,
        default=0,
        metavar="N",
        help="every rank knows the N most linked-to URLs from the start (default: 0)",
    )
    add("--previous", type=Path, metavar="PARTVECTOR", help="start from this part vector")
    add(
        "--migration",
        type=_fraction,
        metavar="F",
        help="with --previous: the largest fraction of the bytes, and of the requests, that moves"
        f" to another part (default: {MIGRATION:g})",
    )
    add("--together", choices=["address"], help="keep sites with the same IP address in one part")
    add(
        "--network",
        type=Path,
        metavar="FILE",
        help="a TOML file with the costs of messages between ranks",
    )
    add(
        "--site-column",
        default="site",
        metavar="NAME",
        help="the column of a graph folder with a page's site (default: site)",
    )
    add("--json", action="store_true", help="print results as JSON")


def check_for_ranks(arguments: argparse.Namespace) -> None:
    """Raise UserError if `build` is to do what several ranks can't do together."""
    given = {
        f"--engine {arguments.engine}": arguments.engine not in {None, "metis", "multilevel"},
        "--replicate": arguments.replicate,
        "--previous": arguments.previous,
        "--together": arguments.together,
        "--network": arguments.network,
        "--remember all": arguments.remember == "all",
    }
    for option, is_given in given.items():
        if is_given:
            raise UserError(
                f"{option}: only one process can do this; leave mpirun out, or leave out {option}"
            )


def settings(arguments: argparse.Namespace, say: Callable[[str], None]) -> Settings:
    """The settings of a job, whose progress is told by `say`. Reads the files that options name.

    Raises UserError, PartVectorError and OSError.
    """
    if arguments.replicate < 0:
        raise UserError(f"--replicate {arguments.replicate}: must be 0 or more")
    if arguments.engine_ranks and arguments.engine != "zoltan":
        raise UserError("--engine-ranks: only for --engine zoltan")
    if arguments.migration is not None and not arguments.previous:
        raise UserError("--migration: only with --previous; leave it out, or name a part vector")
    started = time.perf_counter()
    return Settings(
        tolerances=arguments.epsilon,
        seed=arguments.seed,
        tries=arguments.tries,
        engine=arguments.engine,
        ranks=arguments.engine_ranks or RANKS,
        objective=_objective(arguments),
        rank_rate=arguments.rank_rate,
        previous=_previous(arguments.previous),
        migration=MIGRATION if arguments.migration is None else arguments.migration,
        network=read_costs(arguments.network) if arguments.network else None,
        progress=lambda text: say(f"{time.perf_counter() - started:7.1f} s  {text}"),
    )


def _previous(path: Path | None) -> PartVector | None:
    try:
        return PartVector.open(path) if path else None
    except OSError as error:
        raise UserError(f"--previous {path}: {error.strerror}; name a part vector") from None


def _objective(arguments: argparse.Namespace) -> Objective | None:
    t_start, t_byte, remember = arguments.t_start, arguments.t_byte, arguments.remember == "all"
    if t_start is None and t_byte is None:
        if remember:
            raise UserError("--remember all: only with --t-byte")
        return None
    named = arguments.models if arguments.command == "evaluate" else [arguments.model or "hybrid"]
    if named and "hybrid" not in named:
        raise UserError("--t-start, --t-byte: only for the model hybrid; leave them out")
    objective = Objective(1.0 if t_start is None else t_start, t_byte or 0.0, remember)
    if not objective.t_start and not objective.t_byte:
        raise UserError("--t-start, --t-byte: one of them must be more than 0")
    return objective
