"""The fingerprint: a hash of all that snapshots depend on besides the logs.

A resume uses snapshots only if the fingerprint hasn't changed. If the fingerprint covered too
little, a crawl would go on with a wrong state. If it covers too much, a resume only reads the logs
without need. So it covers:

* the whole configuration, except for keys that are marked, and the content of all files that the
  configuration names (`config.dependence`);
* the URLs that the session starts with, and those that have given up their keys;
* every source file of the program.
"""

import ast
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import util
from pathlib import Path
from typing import Final

import publicsuffixlist
from xxhash import xxh3_128

from crawler import config, extensions
from crawler.session import info
from crawler.session.log import log_files
from crawler.session.shared_keys import given_up
from partition import partvector

_PIECE: Final = 1 << 20
_INSTALLED: Final = {
    Path(sysconfig.get_path(name)).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
}
_LIBRARIES: Final = ("ada-url", "publicsuffixlist")  # they parse URLs and find domains


def fingerprint(directory: Path, settings: config.Config, ranks: int) -> str:
    """Return the fingerprint of a session, for a crawl with these settings and ranks."""
    from importlib import metadata  # noqa: PLC0415  it takes a while, and only rank 0 needs it

    depends = config.dependence(settings)
    # What page handlers do changes nothing that a rank knows.
    plugins = [one for one in settings.named_plugins() if one.key != extensions.HANDLER.key]
    modules = [extensions.module_of(*plugin) for plugin in plugins]
    code = [*_program(), *_suffix_list(), *_modules(modules)]
    facts = [
        ranks,
        depends.values,
        info.seeds(directory),
        info.replicated(directory),
        given_up(directory),
        [metadata.version(library) for library in _LIBRARIES],
        [extensions.package_of(*plugin) for plugin in plugins],
        [_hash(path) for path in [*depends.files, *code]],
        [_state_of(session) for session in depends.sessions],
    ]
    return xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _program() -> Iterator[Path]:
    """Yield the files of the crawler, interpreted and compiled, and those of `partition`."""
    for pattern in ("**/*.py", "**/*.so"):
        yield from sorted(Path(__file__).parents[1].glob(pattern))
    yield from sorted(Path(partvector.__file__).parent.glob("*.py"))


def _suffix_list() -> Iterator[Path]:
    yield from sorted(Path(publicsuffixlist.__file__).parent.glob("*.dat"))


def _state_of(session: Path) -> list[object]:
    """Return the state of an earlier session: its logs, and session.toml, which runs change."""
    logs = [(str(path.relative_to(session)), path.stat().st_size) for path in log_files(session)]
    return [_hash(session / "session.toml"), logs]


def _modules(names: Iterable[str]) -> list[Path]:
    """Return the files of modules and of all that they import, except for installed packages."""
    files: dict[str, Path | None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name and name not in files:
            files[name] = file = _file_of(name)
            waiting.append(name.rpartition(".")[0])  # importing a module imports its package
            if file is not None:
                waiting += _imports(file, name)
    return sorted({file for file in files.values() if file is not None})


def _file_of(name: str) -> Path | None:
    """Return the file of a module, found without importing anything.

    Returns None if there is no such file, or if it belongs to Python or an installed package.
    """
    top, *inner = name.split(".")
    module = sys.modules.get(top)
    spec = util.find_spec(top) if module is None else module.__spec__
    if spec is None:
        return None
    candidates = [Path(spec.origin)] if spec.origin and spec.has_location else []
    if inner:
        folders = [Path(one).joinpath(*inner) for one in spec.submodule_search_locations or ()]
        candidates = [folder / "__init__.py" for folder in folders]
        candidates += [folder.with_name(f"{folder.name}.py") for folder in folders]
    for file in candidates:
        if file.is_file() and not _INSTALLED & set(file.resolve().parents):
            return file
    return None


def _imports(path: Path, name: str) -> Iterator[str]:
    """Yield the names that a module imports. Some of them may not be modules."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # not Python source: importing it will raise
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _hash(path: Path) -> str:
    """Return the hash of a file's content, or an empty text if the file is missing.

    The code that reads a missing file raises an error.
    """
    try:
        with path.open("rb") as file:
            content = xxh3_128()
            while piece := file.read(_PIECE):
                content.update(piece)
            return content.hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""
