"""Writes docs/reference/ from the code: `python docs/reference.py` (a test compares the pages).

The words stand in the code, beside what they describe. A path such as docs/traps.md in them becomes
a link.
"""

import argparse
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Union, get_args, get_origin

import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families

from crawler.arguments import SCRIPT, make_parser
from crawler.config import Config, Key, Site, Table, toml_value, what_is_named
from crawler.config.values import Bounds, Read, seconds, size
from crawler.dashboard.metrics import exposition
from crawler.ports import EXIT_CODES, MEANINGS, PASSING
from crawler.report.explanations import advice
from crawler.report.meanings import LIVE, MEASURES
from crawler.session import Bound, RankStatus, State, Status, columns, described
from partition.options import SCRIPT as PARTITION_SCRIPT
from partition.options import make_parser as make_partition_parser

FOLDER = Path(__file__).parent / "reference"
_NOTICE = "<!-- Written by docs/reference.py. Change the words in the code, then run it again. -->"
_DOCS_PATH = re.compile(r"\bdocs/([\w/.-]+\.md)((?:#[\w-]+)?)")
_BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "up to {}"}
_READ = {seconds: "duration", size: "size"}
_NAMES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}
_NAMED = {"file": "path of a file", "session": "directory of a session"}


def pages() -> Mapping[str, str]:
    """The content of each page, by the name of its file."""
    made = {
        "configuration.md": _configuration(),
        "commands.md": _commands(),
        "errors.md": _errors(),
        "metrics.md": _metrics(),
        "measures.md": _measures(),
        "tables.md": _tables(),
        "files.md": _files(),
    }
    return {name: f"{_NOTICE}\n\n" + "\n".join(lines) + "\n" for name, lines in made.items()}


def _words(text: str) -> str:
    """A text of the code as Markdown for a cell of a table."""
    return _DOCS_PATH.sub(r"[\1](../\1\2)", re.sub(r"([*<|])", r"\\\1", text))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(head)
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _configuration() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield "A configuration is a TOML file. `python -m crawler config` prints all keys with their"
    yield "defaults, and `--set TABLE.KEY=VALUE` sets one on the command line. Unknown keys are"
    yield 'refused. A duration is a number of seconds, or a text such as `"3h55m"`; a size is a'
    yield 'number of bytes, or a text such as `"64KiB"`.'
    for name, table in Config():
        if isinstance(table, Table):
            yield from ("", f"## [{name}]", "")
            yield from _keys(
                (name, key, f"`{toml_value(key.default)}`".replace("|", r"\|"))
                for name, key in table.all_keys.items()
            )
    yield from ("", "## [plugins]", "")
    yield "A key for each plug-in that has options, with the table of its options, such"
    yield 'as `no-print = { words = ["print"] }` ([extend.md](../extend.md)).'
    yield from ("", "## [[sites]]", "", "[sites.md](../sites.md) explains these tables.", "")
    yield from _keys((name, key, "") for name, key in Site.all_keys.items())


def _keys(rows: Iterable[tuple[str, Key, str]]) -> Iterator[str]:
    yield from _table(
        ("key", "value", "default", "what it does"),
        ((f"`{name}`", kind(key), default, _words(key.about)) for name, key, default in rows),
    )


def kind(key: Key) -> str:
    """What values a key takes, in words."""
    named = _NAMED.get(what_is_named(key.kind) or "", "text")
    return _kind(key.kind).replace("text", named)


def _kind(annotation: object, marks: Iterable[object] = ()) -> str:
    marks = list(marks)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _kind(arguments[0], [*marks, *arguments[1:]])
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin in {Union, types.UnionType}:
        return " or ".join(_kind(one) for one in arguments if one is not type(None))
    if origin is tuple:
        return f"list of: {_kind(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"
    read = [_READ[mark.read] for mark in marks if isinstance(mark, Read) and mark.read in _READ]
    bounds = " ".join(
        words.format(getattr(mark, bound))
        for mark in marks
        if isinstance(mark, Bounds) and "duration" not in read
        for bound, words in _BOUNDS.items()
        if getattr(mark, bound) is not None
    )
    assert isinstance(annotation, type)
    return f"{(read or [_NAMES[annotation]])[0]} {bounds}".strip()


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "`abc-crawl` and `abc-partition` are the same as `python -m crawler` and"
    yield "`python -m partition`. Put `mpirun -n K` before the commands that crawl."
    for script, parser in (
        (SCRIPT, make_parser(SCRIPT)),
        (PARTITION_SCRIPT, make_partition_parser(PARTITION_SCRIPT)),
    ):
        (commands,) = (
            action
            for action in parser._actions  # argparse has no other way
            if isinstance(action, argparse._SubParsersAction)
        )
        helps = {one.dest: one.help for one in commands._choices_actions}
        for name, command in commands.choices.items():
            yield from ("", f"## {script} {name}", "", _sentence(helps[name] or ""), "")
            yield from _table(("argument", ""), _arguments(command))


def _arguments(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in command._actions:
        if isinstance(action, argparse._HelpAction | argparse._VersionAction):
            continue
        value = action.metavar or (
            ",".join(map(str, action.choices)) if action.choices else action.dest.upper()
        )
        value = "" if action.nargs == 0 else str(value)
        many = {"*": "...", "+": "..."}.get(str(action.nargs), "")
        value = f"[{value}]" if action.nargs == "?" else value
        name = ", ".join(action.option_strings)
        shown = " ".join(filter(None, (name, value + many))).replace("|", r"\|")
        yield f"`{shown}`", _words(action.help or "")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


def _errors() -> Iterator[str]:
    yield "# Errors and exit codes"
    yield ""
    yield "## Error classes"
    yield ""
    yield "An error class says why a URL gave no page, or only a part of one. It stands in the"
    yield "column `error` of the table `pages`, in `crawl.log` and in the report. If a failure may"
    yield "pass, the URL is tried again, and `resume --retry-failed` fetches it once more."
    yield ""
    yield from _table(
        ("class", "meaning", "may pass", "what helps"),
        (
            (
                f"`{failure}`",
                _words(meaning),
                "yes" if failure in PASSING else "",
                _words(advice(failure)),
            )
            for failure, meaning in MEANINGS.items()
        ),
    )
    yield from ("", "## Exit codes", "")
    yield from _table(
        ("code", "meaning"), ((str(code), _words(text)) for code, text in EXIT_CODES.items())
    )
    yield ""
    yield "If the MPI or the batch system kills a crawl, the exit code is that of `mpirun`."
    yield "[resume.md](../resume.md#stop) says what a stop does."


def _metrics() -> Iterator[str]:
    yield "# Metrics for Prometheus"
    yield ""
    yield "Rank 0 answers at `/metrics` if `dashboard.listen` is set"
    yield "([watching.md](../watching.md#prometheus-and-grafana))."
    yield ""
    yield from _table(
        ("metric", "kind", "label", "meaning"),
        (
            (
                f"`{family.samples[0].name}`",
                family.type,
                ", ".join(f"`{label}`" for label in family.samples[0].labels),
                _words(family.documentation),
            )
            for family in text_string_to_metric_families(exposition(_some_status()).decode())
        ),
    )


def _some_status() -> Status:
    """A status in which every metric has a sample."""
    row = RankStatus(*([0] * 14), 0, {}, Bound.NOTHING)
    return Status(
        session="",
        state=State.CRAWLING,
        **dict.fromkeys(("time", "started", "seconds", "ranks", "pages", "max_pages"), 0),
        statuses={"2xx": 0},
        by_failure={"timeout": 0},
        plugin_errors={"no-words": 0},
        rows=[row],
    )


def _measures() -> Iterator[str]:
    yield "# Measures of a session"
    yield ""
    yield "These are the fields of `SESSION/report/metrics.json`. [measures.md](../measures.md)"
    yield "explains them. Ranks count those marked * while they run. If a run was killed, its"
    yield "counts are lost, and these fields are null."
    yield ""
    yield from _table(
        ("field", "meaning"),
        (
            (f"`{name}`" + (r" \*" if name in LIVE else ""), _words(meaning))
            for name, meaning in MEASURES.items()
        ),
    )


def _tables() -> Iterator[str]:
    yield "# Columns of the tables"
    yield ""
    yield "These are the Parquet files in `SESSION/tables/`. [session.md](../session.md#tables)"
    yield "explains their rows, and [corpus.md](../corpus.md) shows how to read them. A null means:"
    yield "not known, or not applicable."
    for name, schema, words in (
        ("pages", columns.PAGES, described.PAGES),
        ("links", columns.LINKS, described.LINKS),
        ("anchors", columns.ANCHORS, described.ANCHORS),
        ("sites", columns.SITES, described.SITES),
    ):
        yield from ("", f"## {name}", "", f"{_sentence(_row(name))}", "")
        yield from _table(("column", "type", ""), _columns(schema, words))


def _row(table: str) -> str:
    return described.FILES[f"tables/{table}/*.parquet"]


def _columns(schema: pa.Schema, words: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for field in schema:
        yield f"`{field.name}`", str(field.type), _words(words[field.name])


def _files() -> Iterator[str]:
    yield "# Files of a session"
    yield ""
    yield "A crawl writes all its files into the directory of its session. A `*` stands for any"
    yield "characters. [session.md](../session.md) explains the files."
    yield ""
    yield from _table(
        ("file", ""), ((f"`{path}`", _words(text)) for path, text in described.FILES.items())
    )


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, content in pages().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
