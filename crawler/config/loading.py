"""Loads a configuration: from a file, from another configuration, and from `--set`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from crawler.config.checking import Mistakes
from crawler.config.mistakes import explain, is_plain, show
from crawler.config.table import Table
from crawler.config.values import what_is_named
from crawler.config.whole import Config
from crawler.extensions import KINDS
from crawler.ports import UserError

_SITES: Final = "sites"  # the only name in a configuration that isn't the name of one table


def load(
    path: Path | None = None,
    overrides: Iterable[str] = (),
    values: Mapping[str, Mapping[str, object] | Sequence[object]] | None = None,
    *,
    before: Config | None = None,
) -> Config:
    """Load a configuration from a file. Without a file, start with `before` or the defaults.

    Relative paths in the file of what the crawl reads begin at the folder of the file.
    `overrides` have the form `table.key=value`, and replace what the file says. `values` replace
    both. Raises UserError with the first mistake and the number of further ones.
    """
    import tomllib  # noqa: PLC0415  most ranks read no TOML

    where = str(path) if path else "configuration"
    raw: dict[str, Any] = {}
    for name, table in before or ():
        raw[name] = dict(table) if isinstance(table, Table | Mapping) else table
    try:
        if path:
            raw |= _beside(path, tomllib.loads(path.read_text("utf-8-sig")))
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}; name a TOML file that can be read") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not TOML: {error}; correct the file") from None
    for override in overrides:
        table, key, value = _parse_override(override)
        if table == _SITES:
            raw[table] = value
        else:
            _table(raw, table, where)[key] = value
    for table, entries in (values or {}).items():
        if isinstance(entries, Mapping):
            _table(raw, table, where).update(entries)
        else:
            raw[table] = entries
    try:
        config = Config(**raw)
    except Mistakes as error:
        raise UserError(f"{where}: {explain(error)}") from None
    if config.assignment.scheme == "part-vector" and not config.assignment.part_vector:
        raise UserError(
            f"{where}: assignment.part_vector = '': assignment.scheme = 'part-vector' needs the"
            " path of a file; python -m partition build writes one"
        )
    delays = [config.politeness.delay_s, *(site.delay_s or 0.0 for site in config.sites)]
    if 0 < config.session.checkpoint <= max(delays):
        raise UserError(
            f"{where}: session.checkpoint = {config.session.checkpoint:g}: must be longer than the"
            f" longest delay of a site, {max(delays):g} s, because after each checkpoint a site"
            " rests for this long before its first page"
        )
    connections = [site.connections is not None for site in config.sites]
    if config.politeness.per == "address" and any(connections):
        raise UserError(
            f"{where}: [[sites]] {connections.index(True) + 1}: connections: with politeness.per ="
            " 'address' an address counts its connections, not a site; leave this key out"
        )
    if config.assignment.scheme == "dynamic" and config.session.mode != "exchange":
        raise UserError(
            f"{where}: session.mode = {config.session.mode!r}: assignment.scheme = 'dynamic' needs"
            " session.mode = 'exchange', as clients send what they find to their server"
        )
    useless = set(config.plugins) - {plugin.name for plugin in config.named_plugins()}
    if useless:
        raise UserError(
            f"{where}: plugins.{min(useless)}: options of a plug-in that isn't used; name it in one"
            f" of {', '.join(KINDS)}, or leave them out"
        )
    if config.assignment.scheme == "dynamic" and config.extract.requisites:
        raise UserError(
            f"{where}: extract.requisites = true: assignment.scheme = 'dynamic' can't fetch"
            " requisites, as seed servers hand out pages only; choose another scheme"
        )
    return config


def _beside(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """The content of a file, with the paths of files and sessions that it names beside it."""
    for table_name, table in Config():
        entries = raw.get(table_name)
        if not (isinstance(entries, dict) and isinstance(table, Table)):
            continue
        for key, about in table.all_keys.items():
            if key in entries and what_is_named(about.kind) in {"file", "session"}:
                entries[key] = _move(entries[key], path.parent)
    return raw


def _move(value: object, folder: Path) -> object:
    if isinstance(value, list):
        return [_move(one, folder) for one in value]
    return str(folder / value) if isinstance(value, str) and value else value


def _parse_override(text: str) -> tuple[str, str, object]:
    """Table, key and value of an override. Raises UserError if it has another form.

    All tables `[[sites]]` together are one value, without a key.
    """
    import tomllib  # noqa: PLC0415  most ranks read no TOML

    name, equals, value = text.partition("=")
    table, dot, key = name.strip().partition(".")
    if not equals or bool(dot and key) is (table == _SITES):
        shown = text if is_plain(value) else f"{name}=..."  # the value may be a secret
        raise UserError(
            f"--set {shown}: must have the form table.key=value, for example fetch.concurrency=8"
        )
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return table, key, value.strip()  # a bare word is a string


def _table(raw: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """The table of that name, or a new one. Raises UserError if the value isn't a table."""
    table: object = raw.setdefault(name, {})
    if not isinstance(table, dict):
        raise UserError(f"{where}: {name} = {show(table)}: must be a table, [{name}]")
    return table
