"""session.toml: what was run, by which program, from when to when. And the seeds, beside it.

The configuration of the latest run stands in it as in a configuration file; the tables [[run]], one
for each time that the session was started or resumed, are written by us.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from xxhash import xxh3_64_intdigest

from crawler import __version__, config
from crawler.ports import UserError
from crawler.regular import regular
from crawler.session.files import mistakes_told, replacing
from crawler.url import BadUrlError, normalise, without_login

_NAME = "session.toml"
_SEEDS = "seeds.txt"
_REPLICATED = "replicated.txt"
_STOP = "stop"
_SITE_NAMES = 2


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table [[run]]. The last fields are None until the run has ended, and stay so if it was
    killed."""

    version: str  # of the program
    ranks: int
    parts: int
    scope: str  # what decides whether a link is followed, as a sum: equal if nothing has changed
    started: datetime
    ended: datetime | None = None
    complete: bool | None = None  # true: the frontier ran empty; false: something ended the run
    reason: str | None = None
    lost: int | None = None  # ranks that died, and the others went on in the next run
    site_names: int | None = None  # 2: without the scheme; None: `http://host`, as once


_Runs = Annotated[list[Run], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    config: config.Config
    runs: Sequence[Run]  # at least one

    @property
    def last(self) -> Run:
        return self.runs[-1]


def create(
    directory: Path, settings: config.Config, ranks: int, parts: int, seeds: Sequence[str]
) -> None:
    """Write the first files of a session into a directory that is locked.

    Raises UserError if there is a session in it already, or if it can't be written.
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
            f"{directory}: {error.strerror}; a directory that can be made and written is needed"
        ) from None


def exists(directory: Path) -> bool:
    """Whether there is a session, whole or not."""
    return (directory / _NAME).exists() or any(directory.glob("rank-*"))


def resume(
    directory: Path, settings: config.Config, ranks: int, parts: int, seeds: Sequence[str]
) -> SessionInfo:
    """Note a further run of a session, with these settings; how it stands now. `seeds` are all,
    old and new.

    An order to stop that was meant for an earlier run is taken away.
    """
    info = load(directory)
    (directory / _STOP).unlink(missing_ok=True)
    _write_seeds(directory, seeds)
    runs = [*info.runs, _run(settings, ranks, parts, seeds)]
    _write(directory, settings, runs)
    return SessionInfo(settings, runs)


def finish(directory: Path, complete: bool, reason: str, *, lost: int | None = None) -> None:
    """Note the end of the latest run."""
    info = load(directory)
    last = msgspec.structs.replace(
        info.last, ended=_now(), complete=complete, reason=reason, lost=lost
    )
    _write(directory, info.config, [*info.runs[:-1], last])


def load(directory: Path) -> SessionInfo:
    """Read session.toml. Raises UserError if there is none or if it isn't one."""
    path = directory / _NAME
    try:
        raw = tomllib.loads(regular(path).read_text("utf-8"))
        runs = msgspec.convert(raw.pop("run", None), _Runs)
        return SessionInfo(config.load(values=raw), runs)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the directory of a session has one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"{path}: not the description of a session: {error}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def seeds(directory: Path) -> list[str]:
    """The seeds of a session, normalised. Raises UserError if the file is gone or damaged."""
    return _read_urls(directory / _SEEDS)


def replicated(directory: Path) -> list[str]:
    """The URLs that every rank knows from the start of a session, normalised; mostly none.

    Raises UserError if the file is damaged.
    """
    path = directory / _REPLICATED
    return _read_urls(path) if path.exists() else []


def _read_urls(path: Path) -> list[str]:
    needed = "a text file with the URLs of the session, one a line, is needed"
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {needed}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {error}; {needed}") from None
    urls = text.split("\n")
    if urls.pop():
        raise UserError(f"{path}: its last line is cut; {needed}")
    for number, url in enumerate(urls, 1):
        try:
            normalise(url)
        except BadUrlError:
            raise UserError(f"{path}, line {number}: {url!r} is no URL; {needed}") from None
    return urls


def write_replicated(directory: Path, urls: Iterable[str]) -> None:
    """Note the URLs that every rank knows, all runs' together, if there are any."""
    text = "".join(f"{url}\n" for url in urls)
    if text:
        _replace(directory / _REPLICATED, text)


def ask_to_stop(directory: Path) -> None:
    """Leave the order to stop for the ranks, which may be on other nodes."""
    with replacing(directory / _STOP):
        pass


def is_asked_to_stop(directory: Path) -> bool:
    return (directory / _STOP).exists()


def _run(settings: config.Config, ranks: int, parts: int, seeds: Sequence[str]) -> Run:
    judges = settings.model_dump_json(include={"scope": True, "traps": True, "robots": True})
    # With other names of sites the sites of the seeds are others, and so is the scope.
    what = " ".join([f"sites {_SITE_NAMES}", judges, *sorted(seeds)])
    scope = f"{xxh3_64_intdigest(what.encode()):016x}"
    return Run(__version__, ranks, parts, scope, _now(), site_names=_SITE_NAMES)


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
    # A resumed run needs the secrets again, so they stand there, but for nobody else to read.
    _replace(directory / _NAME, text, 0o600 if settings.fetch.holds_secrets else 0o666)


def _without_logins(settings: config.Config) -> config.Config:
    """The settings with seeds as they are fetched: a login in a URL is never sent."""
    seeds = tuple(map(without_login, settings.session.seeds))
    return settings.model_copy(
        update={"session": settings.session.model_copy(update={"seeds": seeds})}
    )


def _replace(path: Path, text: str, mode: int = 0o666) -> None:
    with replacing(path, mode) as file:
        file.write(text.encode())


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
