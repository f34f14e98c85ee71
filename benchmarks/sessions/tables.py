"""The tables of `sessions`, from its rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness import Row, markdown

LOG: Final = "sessions.jsonl"
_HEAD: Final = """# Sessions that follow each other: the tables

`python -m benchmarks sessions` writes this page from sessions.jsonl.
[sessions.md](sessions.md) explains the figures."""


def cases(rows: Sequence[Row]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row["graph"], row["k"]) for row in rows))


def _share(value: Any) -> str:
    return f"{value:.1%}".replace("%", " %") if isinstance(value, float) else ""


def write_tables(rows: Sequence[Row], out: Path) -> None:
    """Write sessions-tables.md: for each graph and K the crawls, and the vectors."""
    lines = [_HEAD]
    for name, parts in cases(rows):
        here = [row for row in rows if (row["graph"], row["k"]) == (name, parts)]
        crawls = [row for row in here if "crawl" in row]
        sessions = sorted({row["session"] for row in crawls})
        first = {row["session"]: row for row in reversed(crawls)}
        news = (
            f"session {number}: {row['pages']:,} pages, of which {_share(row['unknown_pages'])} on"
            f" {row['unknown_sites']} sites that the vector lacks"
            for number, row in sorted(first.items())
        )
        lines += ["", f"## {name}, {parts} parts", "", *(f"- {one}" for one in news), ""]
        heads = ["imbalance of requests, messages", *(f"session {one}" for one in sessions)]
        by = {(row["crawl"], row["session"]): row for row in crawls}
        table = []
        for crawl in dict.fromkeys(row["crawl"] for row in crawls):
            some = [by[crawl, session] for session in sessions]
            shown = (f"{_share(row['requests'])}, {row['messages']:,}" for row in some)
            table.append([crawl, *shown])
        lines += markdown(heads, table)
        heads = ["vector", "session", "requests", "bytes", "messages"]
        heads += ["moved pages", "moved bytes", "CPU s"]
        table = [
            [
                row["vector"],
                row["session"],
                _share(row["requests"]),
                _share(row["bytes"]),
                f"{row['messages']:,}",
                _share(row["moved_pages"]),
                _share(row["moved_bytes"]),
                f"{row['cpu_s']:.1f}",
            ]
            for row in here
            if "vector" in row
        ]
        lines += ["", *markdown(heads, table)]
    (out / "sessions-tables.md").write_text("\n".join(lines) + "\n")
