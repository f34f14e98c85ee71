"""The command line of the partitioning job: arguments and printing only.

Several ranks run `build` together (`partition.ranks`). One process doesn't import MPI.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawler.commandline import (
    has_other_ranks,
    is_first,
    only_first_tells,
    print_completion,
    printable,
)
from partition import (
    UserError,
    graph,
    importers,
    job,
    options,
    page,
    planning,
    politeness,
    ranks,
    synthesize,
    table,
    webgraph,
)
from partition.child import EngineError
from partition.partvector import PartVector, PartVectorError
from partition.planning import Plan
from partition.settings import PINS_PER_RANK, Settings
from partition.suffixes import read_suffixes
from partition.webgraph import WebGraph

if TYPE_CHECKING:
    from crawler.ports import Group


def _check_file(option: str, path: Path) -> None:
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: must be a file in a folder that exists")


def _build(arguments: argparse.Namespace) -> None:
    _check_file("--out", arguments.out)
    out: Path = arguments.out.resolve()  # writing replaces a file, and a link must stay a link
    if arguments.pins_per_rank:
        raise UserError("--pins-per-rank: only for several ranks; use mpirun, or leave it out")
    settings = options.settings(arguments, _say)
    plans = job.build(
        arguments.paths,
        arguments.k,
        out,
        model=arguments.model,
        settings=settings,
        together=arguments.together == "address",
        replicate=arguments.replicate,
        site_column=arguments.site_column,
    )
    _tell(plans, arguments, settings)


def _tell(
    plans: Sequence[Plan | ranks.UnitPlan], arguments: argparse.Namespace, settings: Settings
) -> None:
    """Show the plan of the part vector that was written, and those of the baselines."""
    _show(plans, as_json=arguments.json)
    built, *baselines = plans
    if not arguments.json:
        sys.stdout.write(printable(f"{built.bound}") + "\n")
    _say(f"written: {arguments.out}; {built.bound}")
    if built.forecast is not None:
        _say(f"with {_ranks(built.parts)}, {built.forecast}")
    _say(table.closing(built, baselines, settings.tolerances))


def _build_on_ranks(arguments: argparse.Namespace) -> int:
    """Build on all ranks that a launcher has started. Returns the exit code."""
    if arguments.command != "build":
        raise UserError(f"{arguments.command}: runs in one process; leave mpirun out")
    options.check_for_ranks(arguments)
    from crawler import mpi  # noqa: PLC0415  importing mpi starts MPI
    from crawler.ports import UserError as MpiError  # noqa: PLC0415

    try:
        return mpi.run(partial(_build_together, arguments))
    except MpiError as error:
        raise UserError(str(error)) from None


async def _build_together(arguments: argparse.Namespace, group: "Group") -> int:
    try:
        settings = replace(
            options.settings(arguments, _say if group.rank == 0 else _say_nothing),
            pins_per_rank=arguments.pins_per_rank or PINS_PER_RANK,
        )
        await ranks.agreed_at_first(group, partial(_check_file, "--out", arguments.out))
        plans = await ranks.build(
            arguments.paths, arguments.k, arguments.out.resolve(), arguments.model, settings, group
        )
    except (UserError, PartVectorError, EngineError, OSError) as error:  # is raised on all ranks
        return _fail(error)
    if plans:
        _tell(plans, arguments, settings)
    return 0


def _evaluate(arguments: argparse.Namespace) -> None:
    path: Path = arguments.path
    if arguments.html:
        _check_file("--html", arguments.html)
    settings = options.settings(arguments, _say)
    models = arguments.models or (planning.COMPARED if path.is_file() else options.ALL)
    if arguments.together and not arguments.models:
        models = [name for name in models if not planning.divides_sites(name)]
    if arguments.suffixes:
        if "hierarchical" not in models:
            raise UserError("--suffixes: only for the model hierarchical; leave it out")
        settings = replace(settings, suffixes=read_suffixes(arguments.suffixes))
    vector = PartVector.open(path) if path.is_file() else None
    if vector is not None:
        if arguments.on is None:
            raise UserError(f"{path}: a part vector needs --on SESSION|GRAPH to be evaluated on")
        if arguments.k not in (None, [vector.parts]):
            raise UserError(f"-k: {path} has {vector.parts} parts; leave -k out")
        if arguments.replicate:
            raise UserError(f"--replicate: {path} lists the replicated URLs itself; leave it out")
        web = planning.known_to(graph.read([arguments.on], arguments.site_column), vector)
        unlisted = sum(vector.site_part(site) is None for site in web.sites)
        if unlisted:
            _say(
                f"{unlisted:,} of {len(web.sites):,} sites aren't in {path} and go to the parts"
                " that find them first, as claims do"
            )
        numbers = [vector.parts]
    else:
        if arguments.on is not None:
            raise UserError(f"--on: {path} isn't a part vector; leave --on out")
        if arguments.k is None:
            raise UserError("-k: give numbers of parts, like 4,8,16")
        for parts in arguments.k:
            for model in models:
                planning.check(settings, parts, model, together=bool(arguments.together))
        web = graph.read([path], arguments.site_column)
        if arguments.replicate:
            known = webgraph.popular(web, arguments.replicate)
            web = webgraph.without_links_to(web, known)
        numbers = arguments.k
    of_session = arguments.on or path
    settings = replace(
        settings,
        politeness=politeness.read([of_session]),
        seeds=graph.seeds([of_session], web),
    )
    if arguments.together:
        settings = replace(settings, together=graph.addresses(of_session))
    plans = [] if vector is None else [planning.follow(web, vector, settings)]
    for parts in numbers:
        plans += [planning.plan(web, model, parts, settings) for model in models]
    about = f"{_size(web)}; {plans[0].bound}"
    useful = planning.useful_ranks(web, settings)
    if useful is not None:
        about += f"; from {_ranks(useful)} on, more ranks hardly make the crawl faster"
    _say(about)
    _show(plans, as_json=arguments.json)
    if arguments.html:
        arguments.html.write_text(page.page(f"Partitions of {path}", about, web, plans))
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
        arguments.pages,
        arguments.sites,
        arguments.seed,
        synthesize.NEAR if arguments.communities is None else arguments.communities,
    )
    importers.write(arguments.out, *web)
    for name, value in synthesize.statistics(graph.read([arguments.out])).items():
        _say(f"{name:24}{value}")
    _say(f"written: {arguments.out}")


def _completion(arguments: argparse.Namespace) -> None:
    print_completion(options.make_parser(options.SCRIPT), arguments.shell)


def _size(web: WebGraph) -> str:
    source, target = web.site[web.sources()], web.site[web.adj]
    inside = float((source == target).mean()) if web.links else 1.0
    return (
        f"{web.pages:,} pages, {len(web.sites):,} sites, {web.links:,} links,"
        f" {inside:.1%} of them within sites"
    )


def _ranks(number: int) -> str:
    return f"{number} ranks" if number > 1 else "1 rank"


def _show(plans: Sequence[Plan | ranks.UnitPlan], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([plan.row() for plan in plans], indent=1) + "\n")
        return
    sys.stdout.write(table.text(plans))


def _say(text: str) -> None:
    sys.stderr.write("\n".join(map(printable, text.split("\n"))) + "\n")
    sys.stderr.flush()


def _say_nothing(_: str) -> None:
    pass


def main(words: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code: 0 done, 1 failed, 2 wrong usage."""
    try:
        with only_first_tells():
            arguments = options.make_parser().parse_args(words)
        if has_other_ranks():
            return _build_on_ranks(arguments)
        {
            "build": _build,
            "evaluate": _evaluate,
            "import": _import,
            "synthesize": _synthesize,
            "completion": _completion,
        }[arguments.command](arguments)
    except (UserError, PartVectorError, EngineError, OSError) as error:
        return _fail(error)
    return 0


def _fail(error: Exception) -> int:
    """Tell an error, once for all ranks. Returns the exit code."""
    if is_first():
        _say(f"partition: {error}")
    return 2 if isinstance(error, (UserError, PartVectorError)) else 1


if __name__ == "__main__":
    sys.exit(main())
