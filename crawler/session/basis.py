"""What a snapshot depends on besides the logs, as one hash: the basis.

A snapshot counts only on the basis on which it was made. Too much in the basis costs a resume some
time, because the logs are read again. Too little would make a crawl go on with what isn't true any
more. So all of the configuration counts unless a key is marked otherwise, with the content of the
files that it names, and so does every source file of the program.
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
    values, files = config.derived(settings)
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
    """All of the crawler, interpreted or compiled, and what it takes from the partitioner."""
    for pattern in ("**/*.py", "**/*.so"):
        yield from sorted(Path(crawler.__file__).parent.glob(pattern))
    yield Path(partvector.__file__)


def _suffix_list() -> Iterator[Path]:
    yield from sorted(Path(publicsuffixlist.__file__).parent.glob("*.dat"))


def _order(name: str) -> Iterator[Path]:
    """The file of the module that a frontier.order of the user's names."""
    module_name, colon, _ = name.partition(":")
    if colon:
        module = sys.modules.get(module_name)
        spec = util.find_spec(module_name) if module is None else module.__spec__
        if spec is not None and spec.origin is not None and spec.has_location:
            yield Path(spec.origin)


def _hash(path: Path) -> str:
    """Of a file's content; empty if there is none (who needs the file says so)."""
    try:
        with path.open("rb") as file:
            content = xxh3_128()
            while piece := file.read(_PIECE):
                content.update(piece)
            return content.hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""
