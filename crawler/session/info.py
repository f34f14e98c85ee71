"""session.toml: what was run, by which program, from when to when.

The configuration stands in it as in a configuration file; the table [program] is written by us.
"""

import os
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from crawler import __version__, config
from crawler.ports import UserError

_NAME = "session.toml"


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [program]. The last three fields are None until the crawl has ended."""

    version: str
    ranks: int
    parts: int
    started: datetime
    ended: datetime | None = None
    complete: bool | None = None  # true: the frontier ran empty; false: something ended the crawl
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    config: config.Config
    program: Program


def create(directory: Path, settings: config.Config, ranks: int, parts: int) -> None:
    """Make the directory of a new session, with its parents.

    Raises UserError if there is a session in it already, or if it can't be made.
    """
    if (directory / _NAME).exists() or any(directory.glob("rank-*")):
        raise UserError(
            f"{directory}: holds a session already; name another directory, or remove this one"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory, settings, Program(__version__, ranks, parts, _now()))
    except OSError as error:
        raise UserError(
            f"{directory}: {error.strerror}; a directory that can be made and written is needed"
        ) from None


def finish(directory: Path, complete: bool, reason: str) -> None:
    """Note the end of the crawl."""
    info = load(directory)
    program = msgspec.structs.replace(info.program, ended=_now(), complete=complete, reason=reason)
    _write(directory, info.config, program)


def load(directory: Path) -> SessionInfo:
    """Read session.toml. Raises UserError if there is none or if it isn't one."""
    path = directory / _NAME
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
        program = msgspec.convert(raw.pop("program", None), Program)
        return SessionInfo(config.load(values=raw), program)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the directory of a session has one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"{path}: not the description of a session: {error}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _write(directory: Path, settings: config.Config, program: Program) -> None:
    lines = ["[program]"]
    for name, value in msgspec.structs.asdict(program).items():
        if isinstance(value, datetime):
            lines.append(f"{name} = {value.isoformat()}")
        elif value is not None:
            lines.append(f"{name} = {config.toml_value(value)}")
    text = "\n".join(lines) + "\n\n" + config.as_toml(settings)
    new = directory / f"{_NAME}.new"
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(directory / _NAME)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
