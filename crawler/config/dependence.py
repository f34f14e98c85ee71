"""Which settings the state of a crawl depends on, besides its logs.

Every key counts unless it is marked as `aside`, so nobody can forget a new key. The type of a key
says whether its value names a file or a session. The content of these counts as well.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crawler.config.table import Table
from crawler.config.values import what_is_named
from crawler.config.whole import Config


class Dependence(NamedTuple):
    """The settings that count, by table.key, and the files and sessions that they name.

    The code of the plug-ins that are named counts as well (`Config.named_plugins`).
    """

    values: dict[str, object]
    files: list[Path]
    sessions: list[Path]  # directories


def dependence(config: Config) -> Dependence:
    """What the state of a crawl with this configuration depends on."""
    result = Dependence({}, [], [])
    for table_name, table in _tables(config):
        for key, info in table.all_keys.items():
            if info.aside:
                continue
            value = getattr(table, key)
            result.values[f"{table_name}.{key}"] = value
            what = what_is_named(info.kind)
            names = [] if what is None else [value] if isinstance(value, str) else value
            for name in filter(None, names):
                if what == "file":
                    result.files.append(Path(name))
                else:
                    result.sessions.append(Path(name))
    result.values["plugins"] = config.plugins
    return result


def _tables(config: Config) -> Iterator[tuple[str, Table]]:
    for name, value in config:
        if isinstance(value, Table):
            yield name, value
        elif name == "sites":
            yield from ((f"{name}.{number}", table) for number, table in enumerate(value))
