"""Makes an HTML page from a template of this folder. Importing this module imports jinja2."""

import base64
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from crawler.pages.words import duration, number, percent, sentence, short_url, size

_FOLDER = Path(__file__).parent


def render(template: str, **values: Any) -> str:
    """Return the page that a template of this folder makes of these values."""
    return _environment().get_template(template).render(values)


class _CompiledTemplates(FileSystemBytecodeCache):
    """Keeps compiled templates beside Python's compiled modules, if that folder can be used.

    Their names tell which version of this module compiled them.
    """

    def __init__(self) -> None:
        folder = _FOLDER / "__pycache__"
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
        version = sha256(Path(__file__).read_bytes()).hexdigest()[:16]
        super().__init__(str(folder), f"%s.{version}")

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


@cache
def _environment() -> Environment:
    environment = Environment(
        bytecode_cache=None if sys.dont_write_bytecode else _CompiledTemplates(),
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=number,
        percent=percent,
        size=size,
        duration=duration,
        short_url=short_url,
        sentence=sentence,
    )
    style = (_FOLDER / "style.css").read_text("utf-8")
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    environment.globals.update(
        style=Markup(style),  # noqa: S704  # the project's own file
        policy=(
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        ),
    )
    return environment
