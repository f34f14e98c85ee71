"""The commands for what a session has brought: `verify`, `report` and `export`."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crawler import session
from crawler.commands.ranks import run_together
from crawler.commands.terminal import complain, one_line, print_report, show
from crawler.export import FORMATS
from crawler.export import export as write_files
from crawler.ports import EXIT_USAGE, NoRoomError, Peers, UserError
from crawler.report.report import write_metrics
from crawler.report.summary import comparison, summary
from crawler.report.verify import verify_together


def verify(arguments: argparse.Namespace) -> int:
    """Say whether a session is whole, and was polite."""

    async def verify_session(peers: Peers) -> int:
        verdict = await verify_together(arguments.session, peers)
        if isinstance(verdict, UserError):  # all ranks know of it, so all leave
            if peers.rank == 0:
                complain(verdict)
            return EXIT_USAGE
        if verdict is None:
            return 0
        if arguments.json:
            show(json.dumps(asdict(verdict)))
        else:
            for line in (*verdict.notes, *verdict.lines, verdict.summary):
                show(one_line(line))
        return 0 if verdict.sound else 1

    return run_together(verify_session)


def report(arguments: argparse.Namespace) -> int:
    """Measure one session or two, and print the measures."""
    directories = [arguments.session, *([arguments.other] if arguments.other else [])]

    async def measure(peers: Peers) -> int:
        each = []
        for directory in directories:
            measured = await _measure(directory, arguments.graph, peers)
            if isinstance(measured, UserError):  # all ranks know of it, so all leave
                if peers.rank == 0:
                    complain(measured)
                return EXIT_USAGE
            each.append(measured)
        if peers.rank > 0:
            return 0
        if len(each) == 1:
            print_report(arguments.session, summary, as_json=arguments.json)
        elif arguments.json:
            show(json.dumps(each))
        else:
            show(comparison(dict(zip(map(str, directories), each, strict=True))))
        return 0

    return run_together(measure)


def export(arguments: argparse.Namespace) -> int:
    """Write a session in formats of other programs."""
    files = {name: getattr(arguments, name) for name in FORMATS}
    for line in write_files(arguments.session, files):
        show(one_line(line))
    return 0


async def _measure(directory: Path, graph: Path | None, peers: Peers) -> dict[str, Any] | UserError:
    """Write together the tables and the measures of a session that isn't being crawled.

    Returns the measures on the first process, and nothing of interest on the others. If it can't
    begin, or if the disk is full, all processes return the error.
    """
    mistake: UserError | None = None
    if peers.rank == 0:
        mistake = _begin_report(directory)
    mistake = await peers.bcast(mistake)
    if mistake is not None:
        return mistake
    try:
        with session.mistakes_told(str(directory)):
            return await write_metrics(directory, peers, graph) or {}
    except NoRoomError as error:
        return error
    finally:
        if peers.rank == 0:
            session.unlock_session(directory)


def _begin_report(directory: Path) -> UserError | None:
    """Lock and check a session. Returns the mistake if that can't be done."""
    try:
        with session.mistakes_told(str(directory)):
            session.load(directory)
            session.lock_session(directory, session.REPORTED)
            try:
                session.check_layout(directory)
            except BaseException:
                session.unlock_session(directory)
                raise
    except UserError as error:
        return error
    return None
