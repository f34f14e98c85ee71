"""The commands that crawl: `crawl`, and `resume`."""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from crawler import config, session
from crawler.agent import planning
from crawler.agent.board import Voice
from crawler.agent.crawl import crawl as crawl_together
from crawler.commands.ranks import run
from crawler.commands.terminal import complain, print_report
from crawler.ports import EXIT_FAILED, EXIT_INTERNAL, EXIT_STOPPED, EXIT_USAGE, Group, UserError
from crawler.report.endings import causes


def crawl(arguments: argparse.Namespace) -> int:
    """Begin a session."""

    def prepare(ranks: int) -> planning.Plan:
        settings = _crawl_settings(arguments)
        _check_address(settings)
        directory = Path(settings.session.directory)
        if arguments.resume and settings.session.directory and session.exists(directory):
            return planning.prepare_again(directory, settings, ranks)
        return planning.prepare(settings, ranks)

    return run(partial(_crawl_and_report, prepare, arguments))


def resume(arguments: argparse.Namespace) -> int:
    """Go on with a session."""

    def prepare(ranks: int) -> planning.Plan:
        values = {"directory": str(arguments.session), **_limits(arguments)}
        before = session.load(arguments.session).config
        tables = {"session": values, **_spares(arguments)}
        settings = config.load(None, arguments.set, tables, before=before)
        _refuse_useless_spares(arguments, settings)
        _refuse_foreign_code(arguments, settings.frontier.order)
        _check_address(settings)
        failures = arguments.retry_failed
        retried = () if failures is None else session.failures_named(failures)
        return planning.prepare_again(arguments.session, settings, ranks, retried=retried)

    return run(partial(_crawl_and_report, prepare, arguments))


def _check_address(settings: config.Config) -> None:
    if settings.dashboard.listen:
        from crawler.dashboard.server import check_address  # noqa: PLC0415  a while to import

        check_address(settings.dashboard.listen)


def _refuse_foreign_code(arguments: argparse.Namespace, order: str) -> None:
    """Refuse to run a module that the session names, unless the user names the module, too.

    Somebody else may have made the session. Raises UserError.
    """
    if ":" in order and not _is_set(arguments, "frontier.order"):
        raise UserError(
            f"{arguments.session}: frontier.order = {order!r} names a module. A resume runs it only"
            f" if you name it, too: --set frontier.order={order}"
        )


def _is_set(arguments: argparse.Namespace, name: str) -> bool:
    """Return whether `--set` names a key of the configuration."""
    return any(one.partition("=")[0].strip() == name for one in arguments.set)


async def _crawl_and_report(
    prepare: Callable[[int], planning.Plan], arguments: argparse.Namespace, group: Group
) -> int:
    """Crawl on all ranks, and print the report. Returns the exit code.

    `prepare(ranks)` makes the plan at rank 0.
    """
    plan = await planning.plan_together(prepare, group)
    if isinstance(plan, UserError):  # all ranks know of the error, so all leave without an abort
        if group.rank == 0:
            complain(plan)
        return EXIT_USAGE
    ending = await crawl_together(plan, group, voice=Voice(arguments.voice))
    if group.rank == 0 and ending.reported:
        from crawler.report.summary import brief  # noqa: PLC0415  only rank 0 needs pyarrow

        print_report(plan.directory, brief, as_json=arguments.json)
    elif group.rank == 0:
        complain(
            f"{plan.directory}: the disk has no room for the tables; free some space, and resume"
            " the session"
        )
    if group.rank == 0 and not (ending.fetched and ending.seeded) and ending.reported:
        metrics = json.loads((plan.directory / "report" / "metrics.json").read_text())
        for line in causes(metrics):
            complain(f"{'all seeds failed' if ending.fetched else 'nothing fetched'}: {line}")
    if (ending.stopped and not ending.complete) or not ending.reported:
        return EXIT_STOPPED
    if ending.internal_errors:
        return EXIT_INTERNAL
    return 0 if ending.fetched and ending.seeded else EXIT_FAILED


def _crawl_settings(arguments: argparse.Namespace) -> config.Config:
    files = [word for word in arguments.what if word.endswith(".toml") and "://" not in word]
    if len(files) > 1:
        raise UserError(f"{files[0]}, {files[1]}: one configuration file only; merge the two")
    seeds = [word for word in arguments.what if word not in files]
    given = _limits(arguments)
    if arguments.session is not None:
        given["directory"] = arguments.session
    if seeds or arguments.seeds_file is not None:
        given["seeds"] = seeds
    if arguments.seeds_file is not None:
        given["seeds_file"] = arguments.seeds_file
    elif seeds and not _is_set(arguments, "session.seeds_file"):
        given["seeds_file"] = ""
    file = Path(files[0]) if files else None
    settings = config.load(file, arguments.set, {"session": given, **_spares(arguments)})
    _refuse_useless_spares(arguments, settings)
    return settings


def _spares(arguments: argparse.Namespace) -> dict[str, dict[str, object]]:
    return {} if arguments.spares is None else {"dynamic": {"spares": arguments.spares}}


def _refuse_useless_spares(arguments: argparse.Namespace, settings: config.Config) -> None:
    scheme = settings.assignment.scheme
    if arguments.spares is not None and scheme != "dynamic":
        raise UserError(
            f"--spares {arguments.spares}: assignment.scheme = {scheme!r}: only a seed server has"
            " spares come; add --set assignment.scheme=dynamic"
        )


def _limits(arguments: argparse.Namespace) -> dict[str, object]:
    given = {"max_pages": arguments.max_pages, "max_time": arguments.max_time}
    return {key: value for key, value in given.items() if value is not None}
