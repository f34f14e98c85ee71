"""Finds plug-ins among the installed packages, loads them, and guards their calls.

A plug-in that can't be used is a mistake of the user, which is told before the crawl begins
(`load`). An error of a plug-in during the crawl is counted and logged as its own, and costs only
the answer (`Plugin.ask`). docs/extend.md says what follows from each error.
"""

import inspect
import logging
import operator
import traceback
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from crawler.commandline import guess
from crawler.ports import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")

_LOG = logging.getLogger("crawler")
_SHOWN: Final = 10  # errors of a plug-in that the user sees while the crawl runs
_TRACED: Final = 100  # errors of a plug-in that are logged with their tracebacks
_SLOW_S: Final = 0.05  # all else of the rank waits for the answer
_SLOW_CALLS: Final = 3  # this many are worth a warning; a single one may be an accident


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """A kind of plug-ins. `check` returns an answer, or raises TypeError or ValueError."""

    key: str  # of the configuration
    group: str  # of entry points
    arguments: tuple[str, ...]
    check: Callable[..., T]  # gets the answer and the arguments
    built_in: frozenset[str] = frozenset()


def _truth(answer: object, url: str) -> bool:
    if isinstance(answer, bool):
        return answer
    raise TypeError(f"returned {answer!r}, not True or False")


def _score(answer: Any, found: object) -> float:
    score = float(answer)
    if score != score:  # noqa: PLR0124
        raise ValueError("returned nan, not a number")
    return score


def _part(answer: Any, site: str, parts: int) -> int:
    part = operator.index(answer)
    if not 0 <= part < parts:
        raise ValueError(f"returned {part}; there are parts 0 to {parts - 1}")
    return part


def _rows(answer: object, page: object) -> Iterable[Any]:
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping):
        return answer
    raise TypeError(f"returned {answer!r}, not rows; write a generator, or return a list")


FILTER: Final = Kind("scope.filters", "crawler.filters", ("url",), _truth)
ORDERING: Final = Kind(
    "frontier.order",
    "crawler.orderings",
    ("found",),
    _score,
    frozenset(("breadth-first", "depth-first", "backlinks", "pagerank", "opic", "random")),
)
SCHEME: Final = Kind(
    "assignment.scheme",
    "crawler.schemes",
    ("site", "parts"),
    _part,
    frozenset(("url-hash", "site-hash", "hierarchical", "part-vector", "dynamic")),
)
HANDLER: Final = Kind("extract.handlers", "crawler.handlers", ("page",), _rows)
KINDS: Final[Mapping[str, Kind[Any]]] = {
    kind.key: kind for kind in (FILTER, ORDERING, SCHEME, HANDLER)
}


class Errors:
    """The errors of a plug-in in this process, which are logged as its own."""

    def __init__(self, kind: Kind[Any], name: str) -> None:
        self.name = name
        self.count = 0
        self._key = kind.key

    def note(self, about: str, words: str, trace: str) -> None:
        """Count an error, and log it. `about`: the URL or the site. `words`: in one line."""
        self.count += 1
        details = {"plugin": self.name, "url": about}
        if self.count <= _TRACED and trace:
            details["traceback"] = trace
        _LOG.log(
            logging.ERROR if self.count <= _SHOWN else logging.INFO,
            "plug-in %s (%s) failed on %s: %s",
            self.name,
            self._key,
            about,
            words,
            extra={"about": details},
        )


class Plugin(Generic[T]):
    """A plug-in that is loaded. Ask it, and it counts its errors."""

    def __init__(self, kind: Kind[T], name: str, function: object) -> None:
        """`function`: what `make` has made. Raises UserError if it can't be called as its kind."""
        wanted = f"a function of ({', '.join(kind.arguments)}) is needed"
        if not callable(function):
            raise UserError(f"{kind.key} = {name!r}: can't be called; {wanted}")
        try:
            _signature(function).bind(*kind.arguments)
        except TypeError as error:
            raise UserError(f"{kind.key} = {name!r}: {error}; {wanted}") from None
        self.name = name
        self.errors = Errors(kind, name)
        self._check = kind.check
        self._function = function
        self._slow = 0

    def __repr__(self) -> str:
        return f"<plug-in {self.name}, {self.errors.count} errors>"

    def answer(self, *arguments: object) -> T:
        """Return the answer of the plug-in, or raise its error."""
        return self._check(self._function(*arguments), *arguments)

    def ask(self, about: str, *arguments: object) -> T | None:
        """Return the answer of the plug-in, or None if it fails. `about`: the URL or the site."""
        began = perf_counter()
        try:
            answer = self.answer(*arguments)
        except BaseException as error:
            if not _is_its_own(error):
                raise
            self.errors.note(about, words_of(error), "".join(traceback.format_exception(error)))
            return None
        took = perf_counter() - began
        if took > _SLOW_S:
            self._slow += 1
            if self._slow == _SLOW_CALLS:
                text = "plug-in %s is slow: %.2f s for %s, while all else of this rank waited"
                _LOG.warning(text, self.name, took, about)
        return answer


def count_errors(each: Iterable[Errors]) -> dict[str, int]:
    """Return the number of errors of each plug-in that has had any, by name."""
    return {errors.name: errors.count for errors in each if errors.count}


def load(kind: Kind[T], name: str, options: Mapping[str, object]) -> Plugin[T]:
    """Load a plug-in. Raises UserError if it isn't installed or can't be used."""
    return Plugin(kind, name, make(kind, name, options))


def make(kind: Kind[Any], name: str, options: Mapping[str, object]) -> object:
    """Return the function or object that a plug-in is. `name` may also be `module:name`.

    Raises UserError if there is no such plug-in, if it can't be loaded, or doesn't take these
    options.
    """
    where = f"{kind.key} = {name!r}"
    point = _of_module(kind, name) if ":" in name else _find(kind, name, where)
    try:
        made = point.load()
    except ModuleNotFoundError as error:
        hint = "; the module must be on PYTHONPATH" if ":" in name else ""
        raise UserError(f"{where}: {error}{hint}") from None
    except AttributeError:
        module, _, attribute = point.value.partition(":")
        raise UserError(f"{where}: {module} has no {attribute}") from None
    except BaseException as error:
        raise _unless_foreign(error, f"{where}: can't be imported") from error
    if isinstance(made, type):
        return _made_with(made, options, where, name)
    if options:
        raise UserError(
            f"plugins.{name}: {point.value} takes no options, because it is no class; leave them"
            " out"
        )
    return made


def _made_with(cls: type, options: Mapping[str, object], where: str, name: str) -> Any:
    try:
        _signature(cls).bind(**options)
    except TypeError as error:
        raise UserError(f"plugins.{name}: {error}; these options don't fit the plug-in") from None
    try:
        return cls(**options)
    except BaseException as error:
        raise _unless_foreign(error, f"{where}: can't be made with its options") from error


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # some compiled functions don't tell theirs
        return inspect.signature(lambda *_, **__: None)


def package_of(key: str, name: str) -> str:
    """Return the package that has a plug-in, with its version; empty if it isn't installed.

    `key`: of the configuration. Nothing is imported.
    """
    points = _installed(KINDS[key], name)
    return _package(points[0]) if points else ""


def module_of(key: str, name: str) -> str:
    """Return the module in which a plug-in is; empty if the plug-in isn't installed."""
    if ":" in name:
        return name.partition(":")[0]
    points = _installed(KINDS[key], name)
    return points[0].module if points else ""


def _installed(kind: Kind[Any], name: str) -> "list[EntryPoint]":
    """Return the entry points of a name. A package may be found twice, if its path is."""
    points = _points(kind).select(name=name)
    return list({(_package(point), point.value): point for point in points}.values())


def _points(kind: Kind[Any]) -> "EntryPoints":
    # Most crawls have no plug-ins, and importing this module takes a while.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=kind.group)


def _of_module(kind: Kind[Any], name: str) -> "EntryPoint":
    from importlib.metadata import EntryPoint  # noqa: PLC0415  as above

    return EntryPoint(name, name, kind.group)


def _find(kind: Kind[Any], name: str, where: str) -> "EntryPoint":
    points = _installed(kind, name)
    if len(points) > 1:
        packages = " and ".join(map(_package, points))
        raise UserError(f"{where}: {packages} both have it; uninstall one of them")
    if points:
        return points[0]
    known = sorted({*kind.built_in, *_points(kind).names})
    there = f"there are: {', '.join(known)}" if known else "there are none"
    raise UserError(f"{where}: no plug-in of this name is installed; {guess(name, known)}{there}")


def _package(point: "EntryPoint") -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else ""


def _is_its_own(error: BaseException) -> bool:
    """Whether a plug-in has caused an error. A signal and a cancelled task come from outside."""
    ends = isinstance(error, SystemExit)
    return ends or isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _unless_foreign(error: BaseException, where: str) -> BaseException:
    return UserError(f"{where}: {words_of(error)}") if _is_its_own(error) else error


def words_of(error: BaseException) -> str:
    """Return the class of an error and its message, in one line."""
    return traceback.format_exception_only(error)[-1].strip().splitlines()[0]
