"""Makes an HTML page from a template of this folder. Importing this module imports jinja2."""

import base64
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from crawler.pages.words import duration, number, percent, sentence, short_url, size

_FOLDER = Path(__file__).parent


def render(template: str, **values: Any) -> str:
    """Return the page that a template of this folder makes of these values."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
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
