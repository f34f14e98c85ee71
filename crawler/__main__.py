"""The command line: runs the command that the arguments name, and prints what it gives.

Each command imports what it alone needs. Every rank runs this module, so its imports cost a large
job much time.
"""

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop

import crawler.startup  # before numpy
from crawler import config, session, steering
from crawler.arguments import SCRIPT, make_parser
from crawler.commandline import guess, print_completion
from crawler.ports import (
    EXIT_FAILED,
    EXIT_INTERNAL,
    EXIT_STOPPED,
    EXIT_USAGE,
    Failure,
    Group,
    NoRoomError,
    Peers,
    UserError,
)
from crawler.report.endings import causes
from crawler.report.explanations import explained_alone
from crawler.report.outcomes import failure_of
from crawler.templates import TEMPLATES, template

_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def _demo(_: argparse.Namespace) -> int:
    from crawler.demo import demo  # noqa: PLC0415

    return _run(demo.run)


def _run(main: Callable[[Group], Coroutine[Any, Any, int]]) -> int:
    """Run `main` on all ranks that mpirun has started."""
    from crawler import mpi  # noqa: PLC0415  importing mpi starts MPI

    return mpi.run(main)


def _run_together(main: Callable[[Peers], Coroutine[Any, Any, int]]) -> int:
    """Run `main` on all ranks that mpirun has started, or in this process alone without MPI."""
    if not any(name in os.environ for name in _RANK_VARIABLES):
        return session.alone(main(session.Alone()))

    async def with_one_code(group: Group) -> int:
        return await group.bcast(await main(group))

    return _run(with_one_code)


def _crawl(arguments: argparse.Namespace) -> int:
    from crawler.agent import planning  # noqa: PLC0415

    def prepare(ranks: int) -> planning.Plan:
        settings = _crawl_settings(arguments)
        _check_address(settings)
        directory = Path(settings.session.directory)
        if arguments.resume and settings.session.directory and session.exists(directory):
            return planning.prepare_again(directory, settings, ranks)
        return planning.prepare(settings, ranks)

    return _run(partial(_crawl_together, prepare, arguments))


def _resume(arguments: argparse.Namespace) -> int:
    from crawler.agent import planning  # noqa: PLC0415

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

    return _run(partial(_crawl_together, prepare, arguments))


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
    """Whether `--set` names a key of the configuration."""
    return any(one.partition("=")[0].strip() == name for one in arguments.set)


async def _crawl_together(
    prepare: Callable[[int], Any], arguments: argparse.Namespace, group: Group
) -> int:
    """Crawl on all ranks, and print the report. Returns the exit code.

    `prepare(ranks)` makes the plan at rank 0.
    """
    from crawler.agent import planning  # noqa: PLC0415
    from crawler.agent.board import Voice  # noqa: PLC0415
    from crawler.agent.crawl import crawl  # noqa: PLC0415

    plan = await planning.plan_together(prepare, group)
    if isinstance(plan, UserError):  # all ranks know of the error, so all leave without an abort
        if group.rank == 0:
            _complain(plan)
        return EXIT_USAGE
    ending = await crawl(plan, group, voice=Voice(arguments.voice))
    if group.rank == 0 and ending.reported:
        from crawler.report.summary import brief  # noqa: PLC0415

        _print_report(plan.directory, brief, as_json=arguments.json)
    elif group.rank == 0:
        _complain(
            f"{plan.directory}: the disk has no room for the tables; free some space, and resume"
            " the session"
        )
    if group.rank == 0 and not (ending.fetched and ending.seeded) and ending.reported:
        metrics = json.loads((plan.directory / "report" / "metrics.json").read_text())
        for line in causes(metrics):
            _complain(f"{'all seeds failed' if ending.fetched else 'nothing fetched'}: {line}")
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


def _steer(order: Callable[..., str], *names: str) -> Callable[[argparse.Namespace], int]:
    """Return the command that gives an order of `steering`, with these arguments."""

    def command(arguments: argparse.Namespace) -> int:
        _print(order(arguments.session, *(getattr(arguments, name) for name in names)))
        return 0

    return command


def _status(arguments: argparse.Namespace) -> int:
    from crawler.watch import follow  # noqa: PLC0415  rich takes a while to import

    if arguments.json:
        _print(msgspec.json.encode(session.read_status(arguments.session)).decode())
    else:
        follow.show(arguments.session)
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    from crawler.watch import follow  # noqa: PLC0415  rich takes a while to import

    follow.follow(arguments.session)
    return 0


def _ask(arguments: argparse.Namespace) -> int:
    from crawler import asking  # noqa: PLC0415

    found = asking.ask(arguments.session, arguments.what)
    if arguments.json:
        _print(json.dumps(asking.as_json(found)))
    else:
        for word, says in asking.says(found):
            _print("\n".join(_wrapped(word, says)))
    return 0 if found.is_known else EXIT_FAILED


def _wrapped(word: str, says: str) -> list[str]:
    """A word and what it says, for a terminal of 80 columns. URLs and paths stay in one piece."""
    return textwrap.wrap(
        says,
        80,
        initial_indent=f"{word:12}",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _verify(arguments: argparse.Namespace) -> int:
    from crawler.report.verify import verify_together  # noqa: PLC0415

    async def verify(peers: Peers) -> int:
        verdict = await verify_together(arguments.session, peers)
        if isinstance(verdict, UserError):  # all ranks know of it, so all leave
            if peers.rank == 0:
                _complain(verdict)
            return EXIT_USAGE
        if verdict is None:
            return 0
        if arguments.json:
            _print(json.dumps(asdict(verdict)))
        else:
            for line in (*verdict.notes, *verdict.lines, verdict.summary):
                _print(_one_line(line))
        return 0 if verdict.sound else 1

    return _run_together(verify)


def _report(arguments: argparse.Namespace) -> int:
    from crawler.report.summary import comparison, summary  # noqa: PLC0415

    directories = [arguments.session, *([arguments.other] if arguments.other else [])]

    async def report(peers: Peers) -> int:
        each = []
        for directory in directories:
            measured = await _measure(directory, arguments.graph, peers)
            if isinstance(measured, UserError):  # all ranks know of it, so all leave
                if peers.rank == 0:
                    _complain(measured)
                return EXIT_USAGE
            each.append(measured)
        if peers.rank > 0:
            return 0
        if len(each) == 1:
            _print_report(arguments.session, summary, as_json=arguments.json)
        elif arguments.json:
            _print(json.dumps(each))
        else:
            _print(comparison(dict(zip(map(str, directories), each, strict=True))))
        return 0

    return _run_together(report)


def _export(arguments: argparse.Namespace) -> int:
    from crawler.export import FORMATS, export  # noqa: PLC0415

    files = {name: getattr(arguments, name) for name in FORMATS}
    for line in export(arguments.session, files):
        _print(_one_line(line))
    return 0


async def _measure(directory: Path, graph: Path | None, peers: Peers) -> dict[str, Any] | UserError:
    """Write together the tables and the measures of a session that isn't being crawled.

    Returns the measures on the first process, and nothing of interest on the others. If it can't
    begin, or if the disk is full, all processes return the error.
    """
    from crawler.report.report import write_metrics  # noqa: PLC0415

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


def _print_report(
    directory: Path, words: Callable[[dict[str, Any]], str], *, as_json: bool
) -> None:
    """Print the measures of a session, as JSON or in these words."""
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    _print(json.dumps(metrics) if as_json else words(metrics))


def _config(arguments: argparse.Namespace) -> int:
    if arguments.file in TEMPLATES:
        if arguments.set:
            raise UserError(f"--set: {arguments.file} is a template, which is printed as it is")
        _print(template(arguments.file), end="")
        return 0
    file = None if arguments.file is None else Path(arguments.file)
    if file and not file.exists() and not file.suffix:
        raise UserError(
            f"{file}: no such file or template; {guess(str(file), TEMPLATES)}the templates are"
            f" {', '.join(TEMPLATES)}"
        )
    _print(config.as_toml(config.load(file, arguments.set), commented=True), end="")
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    print_completion(make_parser(SCRIPT), arguments.shell)
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from crawler import inspect  # noqa: PLC0415

    settings = config.load(arguments.config, arguments.set)

    async def fetch_all() -> int:
        came, internal = False, False
        async for result in inspect.fetch(settings, arguments.urls):
            _print(json.dumps(result) if arguments.json else _readable(result))
            what = failure_of(result.get("status"), result.get("error"))
            came = came or what is None
            internal = internal or what == Failure.INTERNAL
            if what is not None:
                _complain(_one_line(f"{result['url']}: {what}: {explained_alone(what)}"))
        if internal:
            return EXIT_INTERNAL
        return 0 if came else EXIT_FAILED

    return uvloop.run(fetch_all())


def _explain(arguments: argparse.Namespace) -> int:
    from crawler import inspect  # noqa: PLC0415

    result = uvloop.run(
        inspect.explain(
            config.load(arguments.config, arguments.set),
            arguments.url,
            arguments.ranks,
            robots_file=arguments.robots_file,
            offline=arguments.offline,
        )
    )
    _print(json.dumps(result) if arguments.json else _readable(result))
    return 0


def _simulate(arguments: argparse.Namespace) -> int:
    from crawler import simulate  # noqa: PLC0415

    # A known web has no traps, and its sites need no delay between requests.
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.model_fields)]
    planned = simulate.plan(
        [
            config.load(None, [*sets, *arguments.set], {"session": {"mode": mode}})
            for mode in arguments.modes.split(",")
        ],
        procs=arguments.procs,
        seeds=arguments.seeds,
        repeat=arguments.repeat,
    )
    web = simulate.load_web(arguments.graph)
    if web.left_out:
        pages = f"{web.left_out} pages whose URLs are refused"
        sys.stderr.write(f"left out: {pages}, and the links from and to them\n")
    outcomes = [asdict(outcome) for outcome in simulate.experiments(web, planned)]
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "simulate.json").write_text(json.dumps(outcomes, indent=1) + "\n")
    _print(json.dumps(outcomes) if arguments.json else _table(outcomes))
    return 0


def _readable(result: dict[str, Any]) -> str:
    lines = []
    for name, value in result.items():
        if name == "links":
            lines.append(f"links       {len(value)}")
            lines += [f"            {link['url']}" for link in value]
        elif name in {"headers", "redirects"}:
            lines.append(f"{name:11} {len(value)}")
            lines += [f"            {_one_line(item)}" for item in value]
        else:
            lines.append(f"{name:11} {_one_line(value)}")
    return "\n".join(lines) + "\n"


def _one_line(value: object) -> str:
    if isinstance(value, list):
        return ": ".join(map(_one_line, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_one_line(item)}" for name, item in value.items())
    # Text from the web must not send control characters to the terminal.
    return "".join(c if c.isprintable() else "?" for c in str(value))


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


def _print(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


_COMMANDS: dict[str | None, Callable[[argparse.Namespace], int]] = {
    None: _demo,
    "crawl": _crawl,
    "resume": _resume,
    "stop": _steer(steering.stop),
    "pause": _steer(steering.pause),
    "continue": _steer(steering.go_on),
    "add-seeds": _steer(steering.add_seeds, "urls", "file"),
    "add-client": _steer(steering.add_client),
    "retire-client": _steer(steering.retire_client, "rank"),
    "status": _status,
    "watch": _watch,
    "ask": _ask,
    "verify": _verify,
    "report": _report,
    "export": _export,
    "config": _config,
    "completion": _completion,
    "fetch": _fetch,
    "explain": _explain,
    "simulate": _simulate,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name. Returns its exit code."""
    crawler.startup.begin()
    # A wrong command line is wrong on all ranks, so only the first rank reports the error.
    first = all(os.environ.get(name, "0") == "0" for name in _RANK_VARIABLES)
    try:
        with nullcontext() if first else _silence():
            arguments = make_parser().parse_args(words)
        alone = arguments.command not in {None, "crawl", "resume"}
        with session.mistakes_told() if alone else nullcontext():
            return _COMMANDS[arguments.command](arguments)
    except UserError as error:
        if first:
            _complain(error)
        return EXIT_USAGE


def _complain(error: UserError | str) -> None:
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()


@contextmanager
def _silence() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


if __name__ == "__main__":
    sys.exit(main())
