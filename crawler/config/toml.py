"""Writes a configuration as TOML."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from crawler.config.sites import Site
from crawler.config.table import Table
from crawler.config.whole import Config

_BARE: Final = re.compile(r"[\w-]+", re.ASCII)


def as_toml(config: Config, *, commented: bool = False) -> str:
    """The configuration as TOML; with `commented`, each key under its description."""
    lines: list[str] = []
    for table_name, table in config:
        if table_name == "sites":
            continue
        lines += ["", f"[{table_name}]"]
        if table_name == "plugins":
            lines += ["# A key for each plug-in that has options, such as"] * commented
            lines += ['# no-print = { words = ["print"] }'] * commented
        for key, value in dict(table).items():
            if commented and isinstance(table, Table):
                allowed = _choices(table.all_keys[key].kind)
                lines.append(
                    f"# {table.all_keys[key].about}" + (f" ({allowed})" if allowed else "")
                )
            name = key if _BARE.fullmatch(key) else _toml_string(key)
            lines.append(f"{name} = {toml_value(value)}")
    if commented:
        lines += ["", "# Tables [[sites]] say what differs for some sites. Their keys:"]
        lines += [f"#   {key}: {info.about}" for key, info in Site.all_keys.items()]
    for site in config.sites:
        lines += ["", "[[sites]]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in site if value is not None]
    return "\n".join(lines[1:]) + "\n"


def _choices(annotation: object) -> str:
    choices = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) is Literal and len(choices) > 1:
        return " | ".join(map(str, choices))
    return ""


def toml_value(value: object) -> str:
    """A string, number, truth value, list or flat mapping as a TOML value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_string(k)} = {toml_value(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    assert isinstance(value, Sequence)
    return "[" + ", ".join(map(toml_value, value)) + "]"


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\u{ord(c[0]):04x}", escaped) + '"'
