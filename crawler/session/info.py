"""Reads and writes session.toml, which describes the runs of a session, and the list of seeds.

session.toml holds the configuration of the latest run, in the form of a configuration file. It also
holds a table [[run]] for each time that the session was started or resumed.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from xxhash import xxh3_64_intdigest

from crawler import config, extensions
from crawler.ports import UserError
from crawler.reading.parse.elements import READER
from crawler.regular import regular
from crawler.session.files import mistakes_told, replacing
from crawler.session.orders import forget_orders
from crawler.session.questions import forget_questions
from crawler.url import BadUrlError, normalise, of_seed, without_login
from crawler.version import __version__

_NAME = "session.toml"
_SEEDS = "seeds.txt"
_REPLICATED = "replicated.txt"
_SITE_NAMES = 2


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table [[run]].

    `ended`, `complete` and `reason` are None until the run has ended. They stay None if the run was
    killed.
    """

    version: str  # the version of the program
    ranks: int
    parts: int
    scope: str  # a hash of all settings that decide whether a link is followed
    started: datetime
    ended: datetime | None = None
    complete: bool | None = None  # whether the frontier ran empty
    reason: str | None = None
    lost: int | None = None  # how many ranks died, if the others went on
    retried: list[str] | None = None  # the failures that this run has tried again
    site_names: int | None = None  # 2: `host:port`; None: `http://host`, as in old versions
    html_reader: str | None = None  # that of rank 0: `elements.READER`
    # By key and name, such as "scope.filters no-print": the package and its version.
    plugins: dict[str, str] | None = None


_Runs = Annotated[list[Run], msgspec.Meta(min_length=1)]


class SessionInfo(msgspec.Struct, frozen=True):
    """The content of session.toml: the configuration and the runs."""

    config: config.Config
    runs: Sequence[Run]  # at least one

    @property
    def last(self) -> Run:
        """Return the latest run."""
        return self.runs[-1]


def create(
    directory: Path, settings: config.Config, ranks: int, parts: int, seeds: Sequence[str]
) -> None:
    """Write the first files of a session into a locked directory.

    Raises UserError if the directory holds a session already, or can't be written.
    """
    if exists(directory):
        raise UserError(
            f"{directory}: holds a session already; resume it (python -m crawler resume"
            f" {directory}, or crawl with --resume), name another directory, or remove this one"
        )
    make_directory(directory)
    with mistakes_told(str(directory)):
        _write_seeds(directory, seeds)
        _write(directory, settings, [_run(settings, ranks, parts, seeds)])


def make_directory(directory: Path) -> None:
    """Make a directory for a session, with its parents. Raises UserError if that can't be done."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{directory}: {error.strerror}; name a directory that can be made and written"
        ) from None


def exists(directory: Path) -> bool:
    """Whether the directory holds a session, even a damaged one."""
    return (directory / _NAME).exists() or any(directory.glob("rank-*"))


def is_described(directory: Path) -> bool:
    """Whether the directory has a session.toml."""
    return (directory / _NAME).is_file()


def resume(
    directory: Path,
    settings: config.Config,
    ranks: int,
    parts: int,
    seeds: Sequence[str],
    retried: Sequence[str] = (),
) -> SessionInfo:
    """Note in session.toml a further run, with these settings. Returns the new content.

    `seeds`: all seeds, old and new. `retried`: the failures that this run tries again
    (`session.retried`). Orders that were meant for an earlier run are removed.
    """
    info = load(directory)
    forget_orders(directory)
    forget_questions(directory)
    _write_seeds(directory, seeds)
    run = msgspec.structs.replace(
        _run(settings, ranks, parts, seeds), retried=list(retried) or None
    )
    runs = [*info.runs, run]
    _write(directory, settings, runs)
    return SessionInfo(settings, runs)


def finish(directory: Path, complete: bool, reason: str, *, lost: int | None = None) -> None:
    """Note the end of the latest run in session.toml."""
    info = load(directory)
    last = msgspec.structs.replace(
        info.last, ended=_now(), complete=complete, reason=reason, lost=lost
    )
    _write(directory, info.config, [*info.runs[:-1], last])


def load(directory: Path) -> SessionInfo:
    """Read session.toml. Raises UserError if the file is missing or not a session's description."""
    import tomllib  # noqa: PLC0415  most ranks read no TOML

    path = directory / _NAME
    try:
        raw = tomllib.loads(regular(path).read_text("utf-8"))
        runs = msgspec.convert(raw.pop("run", None), _Runs)
        _modernise(raw, runs[-1])
        return SessionInfo(config.load(values=raw), runs)
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; name the directory of a session, which has this file"
        ) from None
    except (ValueError, RecursionError) as error:  # also what msgspec raises
        raise UserError(f"{path}: not the description of a session: {error}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _modernise(raw: dict[str, Any], last: Run) -> None:
    """Write the settings of an old version as this version does."""
    scope = raw.get("scope")
    if last.version == "0.1.0" and isinstance(scope, dict) and scope.get("max_hops") == 0:
        scope["max_hops"] = "unlimited"
    # The headers of an authority came before those of its host.
    fetch = raw.get("fetch")
    old = fetch.pop("headers", {}) if isinstance(fetch, dict) else {}
    tables = [
        {"match": f"^{re.escape(name.rstrip('/'))}/" if "://" in name else name, "headers": headers}
        for name, headers in sorted(old.items(), key=lambda item: "://" not in item[0])
    ]
    if tables:
        raw["sites"] = [*tables, *raw.get("sites", [])]


def enlarge_seeds(directory: Path, more: Iterable[str]) -> None:
    """Add seeds to seeds.txt while the session is crawled. Raises UserError or OSError."""
    _write_seeds(directory, dict.fromkeys([*seeds(directory), *more]))


def seeds(directory: Path) -> list[str]:
    """Return the normalised seeds of a session (`url.of_seed` gives their URLs).

    Raises UserError if their file is missing or damaged.
    """
    return _read_urls(directory / _SEEDS)


def replicated(directory: Path) -> list[str]:
    """Return the URLs that every rank knows from the start, normalised. Most sessions have none.

    Raises UserError if the file is damaged.
    """
    path = directory / _REPLICATED
    return _read_urls(path) if path.exists() else []


def _read_urls(path: Path) -> list[str]:
    needed = "the session needs this text file, with one URL a line; restore the file"
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {needed}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {error}; {needed}") from None
    urls = text.split("\n")
    if urls.pop():
        raise UserError(f"{path}: the last line is incomplete; {needed}")
    for number, url in enumerate(urls, 1):
        try:
            normalise(of_seed(url))
        except BadUrlError:
            raise UserError(f"{path}, line {number}: {url!r} is no URL; {needed}") from None
    return urls


def write_replicated(directory: Path, urls: Iterable[str]) -> None:
    """Write the URLs that every rank knows from the start. Writes no file if there are none."""
    text = "".join(f"{url}\n" for url in urls)
    if text:
        _replace(directory / _REPLICATED, text)


def _run(settings: config.Config, ranks: int, parts: int, seeds: Sequence[str]) -> Run:
    judges = _json({name: dict(getattr(settings, name)) for name in ("scope", "robots", "traps")})
    if settings.sites:
        keys = ("match", "robots", "max_urls", "max_bytes")
        rows = [{key: getattr(site, key) for key in keys} for site in settings.sites]
        judges += _json({"sites": rows})
    plugins = {
        f"{key} {name}": extensions.package_of(key, name) for key, name in settings.named_plugins()
    }
    for name in settings.scope.filters:
        judges += f"{plugins[f'scope.filters {name}']} {dict(settings.options_of(name))}"
    # The scope depends on how sites are named, because the sites of the seeds are in scope.
    what = " ".join([f"sites {_SITE_NAMES}", judges, *sorted(seeds)])
    scope = f"{xxh3_64_intdigest(what.encode()):016x}"
    run = Run(__version__, ranks, parts, scope, _now(), site_names=_SITE_NAMES, html_reader=READER)
    return msgspec.structs.replace(run, plugins=plugins or None)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _write_seeds(directory: Path, seeds: Iterable[str]) -> None:
    _replace(directory / _SEEDS, "".join(f"{seed}\n" for seed in seeds))


def _write(directory: Path, settings: config.Config, runs: Sequence[Run]) -> None:
    lines = []
    for run in runs:
        lines.append("[[run]]")
        for name, value in msgspec.structs.asdict(run).items():
            if isinstance(value, datetime):
                lines.append(f"{name} = {value.isoformat()}")
            elif value is not None:
                lines.append(f"{name} = {config.toml_value(value)}")
        lines.append("")
    text = "\n".join(lines) + "\n" + config.as_toml(_without_logins(settings))
    # A resume needs the secrets again, so the file holds them. Nobody else may read it then.
    _replace(directory / _NAME, text, 0o600 if settings.holds_secrets else 0o666)


def _without_logins(settings: config.Config) -> config.Config:
    """Return the settings without the logins in URLs of seeds, which are never sent."""
    seeds = tuple(map(without_login, settings.session.seeds))
    return settings.replace(session=settings.session.replace(seeds=seeds))


def _replace(path: Path, text: str, mode: int = 0o666) -> None:
    with replacing(path, mode) as file:
        file.write(text.encode())


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
