"""What the commands write to the terminal."""

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawler.ports import UserError


def show(text: str, end: str = "\n") -> None:
    """Print what the user asked for."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def complain(error: UserError | str) -> None:
    """Tell the user of a mistake."""
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()


def print_report(directory: Path, words: Callable[[dict[str, Any]], str], *, as_json: bool) -> None:
    """Print the measures of a session: as JSON, or as the text that `words` makes of them."""
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    show(json.dumps(metrics) if as_json else words(metrics))


def readable(result: dict[str, Any]) -> str:
    """Return what was found of one URL, a line for each value."""
    lines = []
    for name, value in result.items():
        if name == "links":
            lines.append(f"links       {len(value)}")
            lines += [f"            {link['url']}" for link in value]
        elif name in {"headers", "redirects"}:
            lines.append(f"{name:11} {len(value)}")
            lines += [f"            {one_line(item)}" for item in value]
        else:
            lines.append(f"{name:11} {one_line(value)}")
    return "\n".join(lines) + "\n"


def one_line(value: object) -> str:
    """Return a value as one line, without control characters."""
    if isinstance(value, list):
        return ": ".join(map(one_line, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {one_line(item)}" for name, item in value.items())
    # Text from the web must not send control characters to the terminal.
    return "".join(c if c.isprintable() else "?" for c in str(value))


def wrapped(word: str, says: str) -> list[str]:
    """Return the lines of a word and its text, for 80 columns. URLs and paths stay in one piece."""
    return textwrap.wrap(
        says,
        80,
        initial_indent=f"{word:12}",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
