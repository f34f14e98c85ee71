"""Plug-ins that the configuration names, and their options."""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, NamedTuple

from crawler.config.values import Check


def _check_option(value: object) -> None:
    """Raise ValueError if session.toml can't hold a value."""
    if value is None:
        raise ValueError("must not be None; leave the option out")
    if isinstance(value, Mapping):
        inner = list(value.values())
        if not all(isinstance(name, str) for name in value):
            raise ValueError("must have strings as keys")
    elif isinstance(value, list | tuple):
        inner = list(value)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("must be a finite number")
    elif isinstance(value, str | int | float):
        inner = []
    else:
        raise ValueError("must be a string, a number, a boolean, a list or a table")
    for one in inner:
        _check_option(one)


# The options of one plug-in.
Options = Mapping[str, Annotated[object, Check(_check_option)]]


class NamedPlugin(NamedTuple):
    """A plug-in that a key of the configuration names."""

    key: str  # such as scope.filters
    name: str
