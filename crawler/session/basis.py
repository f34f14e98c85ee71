"""The basis of a snapshot: one hash of all that the snapshot depends on besides the logs.

A resume uses a snapshot only if its basis is still the same. If the basis holds too much, a resume
reads the logs without need. If it holds too little, a crawl goes on with wrong state. So all of the
configuration counts, with the content of the files that it names, unless a key is marked. So does
every source file of the program.
"""

import json
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Final

import publicsuffixlist
from xxhash import xxh3_128

import crawler
from crawler import config
from crawler.session import info
from partition import partvector

_PIECE: Final = 1 << 20
_LIBRARIES: Final = ("ada-url", "publicsuffixlist")  # decide what a URL is, and what a site is


def basis(directory: Path, settings: config.Config, ranks: int) -> str:
    """The hash for a session in its present state, crawled by so many ranks with these settings."""
    values, files, *_ = config.dependence(settings)
    code = [*_program(), *_suffix_list(), *_order(settings.frontier.order)]
    facts = [
        ranks,
        values,
        info.seeds(directory),
        info.replicated(directory),
        [metadata.version(library) for library in _LIBRARIES],
        [_hash(path) for path in [*files, *code]],
    ]
    return xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _program() -> Iterator[Path]:
    """The files of the crawler, interpreted or compiled, and those that it uses of `partition`."""
    for pattern in ("**/*.py", "**/*.so"):
        yield from sorted(Path(crawler.__file__).parent.glob(pattern))
    yield Path(partvector.__file__)


def _suffix_list() -> Iterator[Path]:
    yield from sorted(Path(publicsuffixlist.__file__).parent.glob("*.dat"))


def _order(name: str) -> Iterator[Path]:
    """The file of the user's module, if frontier.order names one."""
    module_name, colon, _ = name.partition(":")
    if colon:
        module = sys.modules.get(module_name)
        spec = util.find_spec(module_name) if module is None else module.__spec__
        if spec is not None and spec.origin is not None and spec.has_location:
            yield Path(spec.origin)


def _hash(path: Path) -> str:
    """The hash of a file's content; empty if there is no file (its readers complain)."""
    try:
        with path.open("rb") as file:
            content = xxh3_128()
            while piece := file.read(_PIECE):
                content.update(piece)
            return content.hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""
