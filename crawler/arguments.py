"""The commands of the command line, and the arguments of each."""

import argparse
from collections.abc import Callable
from pathlib import Path

from crawler.commandline import SHELLS, Parser, program
from crawler.ports import EXIT_CODES, UserError
from crawler.templates import TEMPLATES
from crawler.version import __version__

SCRIPT = "abc-crawl"


class _Parser(Parser):
    mistake = UserError


def make_parser(prog: str | None = None, first: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line. It raises UserError for wrong usage.

    `first`: the first word of the command line, if it is known. If it names a command that crawls,
    the parser knows only these. Making the others takes 7 ms, which each rank would pay.
    """
    parser = _Parser(
        prog=prog or program(SCRIPT, "crawler"),
        description="A parallel web crawler: mpirun -n K python -m crawler COMMAND ..."
        " Without a command, it runs the demonstration, which needs no network.",
        epilog="Exit codes. "
        + " ".join(f"{code}: {meaning}." for code, meaning in EXIT_CODES.items()),
    )
    parser.add_argument("--version", action="version", version=f"abc-crawler {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def command(name: str, description: str, *, sets: bool = True) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=description, description=description)
        if sets:
            one.add_argument(
                "--set",
                action="append",
                default=[],
                metavar="TABLE.KEY=VALUE",
                help="override a key of the configuration; may be given several times",
            )
        return one

    _add_crawls(command)
    if first not in ("crawl", "resume"):
        _add_orders(command)
        _add_reports(command)
        _add_inspections(command)
        _add_simulation(command)
    return parser


# Makes the parser of a command from its name and its description.
_Command = Callable[..., argparse.ArgumentParser]


def _add_crawls(command: _Command) -> None:
    """Add the commands that run a crawl."""
    crawl = command("crawl", "Crawl from seeds, on all ranks that mpirun starts.")
    crawl.add_argument(
        "what",
        nargs="*",
        metavar="CONFIG.toml | URL",
        help="a configuration file, and seeds, which take the place of those in the file",
    )
    crawl.add_argument(
        "-i",
        "--seeds-file",
        metavar="FILE",
        help="a file with one seed a line, as session.seeds_file",
    )
    crawl.add_argument("--session", metavar="DIR", help="directory of the session")
    crawl.add_argument(
        "--resume", action="store_true", help="continue the session if it exists already"
    )
    resume = command("resume", "Continue a session, on any number of ranks.")
    resume.add_argument("session", type=Path, metavar="SESSION")
    resume.add_argument(
        "--retry-failed",
        nargs="?",
        const="",
        metavar="CLASS",
        help="fetch failed URLs again: those of an error class or status, such as timeout or 503;"
        " without CLASS, all whose failure may pass",
    )
    for one in (crawl, resume):
        one.add_argument("--max-pages", metavar="N", help="stop after N pages of all ranks")
        one.add_argument("--max-time", metavar="T", help="stop after this time, such as 3h55m")
        one.add_argument("--json", action="store_true", help="print metrics.json at the end")
        one.add_argument(
            "--spares",
            metavar="N",
            help="dynamic assignment: the last N ranks wait until a server has them come",
        )

        one.add_argument(
            "-q",
            "--quiet",
            dest="voice",
            action="store_const",
            const="quiet",
            default="normal",
            help="show no progress, only warnings",
        )
        one.add_argument(
            "-v",
            "--verbose",
            dest="voice",
            action="store_const",
            const="verbose",
            help="also show the URLs that give no page, at most five a second of each rank",
        )


def _add_orders(command: _Command) -> None:
    """Add the commands that tell a crawl what to do, and that ask what it does."""
    stop = command(
        "stop", "Ask a crawl to stop, from any node that sees its directory.", sets=False
    )
    stop.add_argument("session", type=Path, metavar="SESSION")

    rests = command(
        "pause", "Have a crawl begin no fetch, until continue; also after a resume.", sets=False
    )
    goes_on = command("continue", "End the pause of a crawl.", sets=False)
    more = command("add-seeds", "Give a crawl further seeds, also while it runs.", sets=False)
    for one in (rests, goes_on, more):
        one.add_argument("session", type=Path, metavar="SESSION")
    more.add_argument("urls", nargs="*", metavar="URL")
    more.add_argument("--file", type=Path, metavar="FILE", help="a file with one seed a line")

    once = command("status", "Show how far a crawl is, and what holds it up.", sets=False)
    once.add_argument("session", type=Path, metavar="SESSION")
    once.add_argument("--json", action="store_true", help="print status.json")
    always = command("watch", "Show this again each second, until the crawl has ended.", sets=False)
    always.add_argument("session", type=Path, metavar="SESSION")

    asks = command(
        "ask", "Say what a session knows of a URL or a site, also while it is crawled.", sets=False
    )
    asks.add_argument("session", type=Path, metavar="SESSION")
    asks.add_argument("what", metavar="URL | SITE", help="such as http://a.example/ or a.example")
    asks.add_argument("--json", action="store_true", help="print a JSON object")

    comes = command(
        "add-client", "Have a spare rank come to a crawl with dynamic assignment.", sets=False
    )
    leaves = command(
        "retire-client", "Have a client leave a crawl with dynamic assignment.", sets=False
    )
    for one in (comes, leaves):
        one.add_argument("session", type=Path, metavar="SESSION")
    leaves.add_argument("rank", type=int, metavar="RANK", help="the rank of the client")


def _add_reports(command: _Command) -> None:
    """Add the commands that read a session."""
    measures = command(
        "report", "Compute the measures of a session, write report/, and print them.", sets=False
    )
    measures.add_argument("session", type=Path, metavar="SESSION")
    measures.add_argument(
        "other", nargs="?", type=Path, metavar="OTHER", help="another session to compare"
    )
    measures.add_argument(
        "--graph",
        type=Path,
        metavar="GRAPH",
        help="compute coverage and quality against this session or graph; default: the previous"
        " session",
    )
    measures.add_argument(
        "--json", action="store_true", help="print metrics.json; with OTHER, a list of both"
    )

    check = command(
        "verify",
        "Check that a session is whole and was polite; exit code 1 if something is wrong.",
        sets=False,
    )
    check.add_argument("session", type=Path, metavar="SESSION")
    check.add_argument("--json", action="store_true", help="print a JSON object")

    out = command("export", "Write a session in formats of other programs.", sets=False)
    out.add_argument("session", type=Path, metavar="SESSION")
    out.add_argument(
        "--wacz", type=Path, metavar="FILE", help="a WACZ file: all WARC files, to replay the pages"
    )
    out.add_argument(
        "--cdxj", type=Path, metavar="FILE", help="a sorted CDXJ index of all WARC files"
    )
    out.add_argument(
        "--edges",
        type=Path,
        metavar="FILE",
        help="the link graph: two URLs a line, separated by a tab; compressed if FILE ends in .gz",
    )
    out.add_argument(
        "--webgraph",
        type=Path,
        metavar="BASE",
        help="the link graph in WebGraph's ASCII form, BASE.graph-txt, and its URLs, BASE.urls",
    )


def _add_inspections(command: _Command) -> None:
    """Add the commands that show what a crawl would do."""
    settings = command("config", "Print the configuration as commented TOML.")
    settings.add_argument(
        "file",
        nargs="?",
        metavar="CONFIG.toml | TEMPLATE",
        help="a configuration file, or a template, which is printed as it is: "
        + ", ".join(TEMPLATES)
        + "; without either, the defaults are printed",
    )
    completion = command(
        "completion", "Print the completion of commands and options for a shell.", sets=False
    )
    completion.add_argument("shell", choices=SHELLS)

    fetch = command("fetch", "Fetch URLs as a crawl would, but without asking for robots.txt.")
    fetch.add_argument("urls", nargs="+", metavar="URL")
    fetch.add_argument("--config", type=Path, metavar="CONFIG.toml")
    fetch.add_argument("--json", action="store_true", help="print one JSON object a line")

    explain = command("explain", "Say what a crawl does with a URL, and why.")
    explain.add_argument("url", metavar="URL")
    explain.add_argument("--config", type=Path, metavar="CONFIG.toml")
    explain.add_argument(
        "--ranks", type=_count, default=1, metavar="K", help="number of ranks of the crawl"
    )
    explain.add_argument(
        "--robots-file", type=Path, metavar="F", help="use this file as the site's robots.txt"
    )
    explain.add_argument("--offline", action="store_true", help="send no request")
    explain.add_argument("--json", action="store_true", help="print a JSON object")


def _add_simulation(command: _Command) -> None:
    """Add the command that crawls in virtual time."""
    virtual = command("simulate", "Crawl a link graph in virtual time, and print the measures.")
    virtual.add_argument("graph", type=Path, metavar="GRAPH", help="a session, or a graph folder")
    virtual.add_argument(
        "--modes", default="exchange", metavar="M,...", help="modes; default: exchange"
    )
    virtual.add_argument(
        "--procs",
        default=[1, 2, 4, 8],
        type=_counts,
        metavar="N,...",
        help="numbers of ranks; default: 1,2,4,8",
    )
    virtual.add_argument(
        "--seeds", default=5, type=_count, metavar="S", help="seeds for each rank; default: 5"
    )
    virtual.add_argument(
        "--repeat",
        default=1,
        type=_count,
        metavar="R",
        help="repetitions of each crawl, with other seeds; default: 1",
    )
    virtual.add_argument(
        "--out", type=Path, metavar="DIR", help="write simulate.json in this directory"
    )
    virtual.add_argument("--json", action="store_true", help="print a list of objects")


def _counts(text: str) -> list[int]:
    try:
        counts = [int(number) for number in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give whole numbers from 1, such as 1,2,4")
    return counts


def _count(text: str) -> int:
    return _counts(text)[0]
