"""Checks the values of a configuration, and turns them into the types of their keys."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from crawler.config.values import Bounds, Check, Key, Read

ABSENT: Final = object()  # stands for the value of a key that is missing


class Mistake(NamedTuple):
    """One mistake in a configuration."""

    where: tuple[str, ...]  # names of tables and keys; elements of lists are counted from 0
    words: str  # what is wrong; empty if the key is unknown
    value: object


class Mistakes(ValueError):  # noqa: N818  it is a list of them
    """All mistakes in a value, a table, or the whole configuration."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        lines = (f"{'.'.join(at)}: {words or 'unknown key'}" for at, words, _ in self.mistakes)
        super().__init__("; ".join(lines))


def checked(keys: Mapping[str, Key], values: Mapping[str, object]) -> dict[str, object]:
    """Return the values for a table with these keys, each as its key has it. Raises Mistakes."""
    mistakes = [
        Mistake((name,), "is missing", ABSENT)
        for name, key in keys.items()
        if key.is_required and name not in values
    ]
    right: dict[str, object] = {}
    known = [name for name in keys if name in values]
    try:
        right = _read_all((name, keys[name].kind, values[name]) for name in known)
    except Mistakes as error:
        mistakes += error.mistakes
    mistakes += [Mistake((name,), "", value) for name, value in values.items() if name not in keys]
    if mistakes:
        raise Mistakes(mistakes)
    return right


def check_together(check: Callable[[], None], values: Mapping[str, object]) -> None:
    """Check that the values of a table fit each other. Raises Mistakes."""
    try:
        check()
    except ValueError as error:
        raise Mistakes([Mistake((), str(error), values)]) from None


def _read_all(items: Iterable[tuple[str, Any, object]]) -> dict[str, Any]:
    """Return the values by their names. Each item is a name, a type and a value."""
    right, mistakes = {}, list[Mistake]()
    for name, kind, value in items:
        try:
            right[name] = _read(kind, value)
        except Mistakes as error:
            mistakes += [one._replace(where=(name, *one.where)) for one in error.mistakes]
    if mistakes:
        raise Mistakes(mistakes)
    return right


def _read(kind: Any, value: object) -> object:
    """Return a value as a type has it. Raises Mistakes."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _read_marked(inner[0], inner[1:], value)
    if origin in (Union, UnionType):
        return _read_one_of(inner, value)
    if origin is Literal:
        _demand(value in inner, value, "must be " + _alternatives(inner))
        return value
    if origin is tuple:
        _demand(isinstance(value, list | tuple), value, 'must be a list, like ["a", "b"]')
        assert isinstance(value, list | tuple)
        items = ((str(number), inner[0], one) for number, one in enumerate(value))
        return tuple(_read_all(items).values())
    if origin is not None and issubclass(origin, Mapping):
        _demand(_is_table(value), value, "must be a table, like { a = 1 }")
        assert isinstance(value, Mapping)
        return _read_all((name, inner[1], one) for name, one in value.items())
    return _read_plain(kind, value)


def _read_marked(kind: Any, marks: Iterable[object], written: object) -> object:
    value = written
    try:
        for mark in marks:
            if isinstance(mark, Read):
                value = mark.read(value)
        value = _read(kind, value)
        for mark in marks:
            if isinstance(mark, Bounds | Check):
                mark.check(value)
    except Mistakes:
        raise
    except ValueError as error:
        raise Mistakes([Mistake((), str(error), written)]) from None
    return value


def _read_one_of(kinds: Iterable[Any], value: object) -> object:
    """Return the value as the first type that takes it. Raises the Mistakes of the first type."""
    first: Mistakes | None = None
    for kind in kinds:
        try:
            return _read(kind, value)
        except Mistakes as error:
            first = first or error
    assert first is not None
    raise first


def _read_plain(kind: Any, value: object) -> object:
    if kind is object:
        return value
    if kind not in _PLAIN:  # a table
        if isinstance(value, kind):
            return value
        _demand(_is_table(value), value, "must be a table")
        assert isinstance(value, Mapping)
        return kind(**value)
    if isinstance(value, str) and kind in {int, float}:  # of the command line
        with suppress(ValueError):
            value = kind(value)
    if isinstance(value, float) and kind is int and value.is_integer():  # such as 1e6
        value = int(value)
    is_right, words = _PLAIN[kind]
    _demand(is_right(value), value, words)
    if kind is int:
        assert isinstance(value, int)
        _demand(abs(value) < 1 << 63, value, "must be less than 2^63")
    if kind is str:
        assert isinstance(value, str)
        _demand("\0" not in value, value, "must have no NUL character")
    if kind is float:
        _demand(_is_finite(value), value, "must be a finite number")
        assert isinstance(value, int | float)
        return float(value)
    return value


def _demand(is_right: bool, value: object, words: str) -> None:
    if not is_right:
        raise Mistakes([Mistake((), words, value)])


def _alternatives(values: Iterable[object]) -> str:
    *others, last = map(repr, values)
    return " or ".join(filter(None, (", ".join(others), last)))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is larger than all floats
        return False


_PLAIN: Final[dict[object, tuple[Callable[[object], bool], str]]] = {
    bool: (lambda value: isinstance(value, bool), "must be a boolean: true or false"),
    int: (
        lambda value: isinstance(value, int) and not isinstance(value, bool),
        "must be an integer",
    ),
    float: (
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "must be a number",
    ),
    str: (lambda value: isinstance(value, str), "must be a string, in quotes"),
    type(None): (lambda value: value is None, "must be left out"),
}
