"""Reads the seeds that a user names in the configuration and in a text file."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from crawler import config, textfile
from crawler.ports import UserError
from crawler.url import BadUrlError, normalise, without_login

_REMARK: Final = re.compile(r"(?:^|\s)#.*")
_INVISIBLE: Final = "\ufeff\u200b\u2060"  # characters that copying a URL may leave beside it
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ODD: Final = re.compile("(\\s)|[\udc80-\udcff]")
_NO_URL: Final = "not an http or https URL"
_NO_SCHEME: Final = "a URL must begin with http:// or https://"
_NAMED: Final = 20  # wrong lines whose text a message shows
_SHOWN: Final = 60  # characters shown of each wrong line


class _Wrong(NamedTuple):
    """A line that names no seed."""

    number: int
    text: str
    why: str

    def __str__(self) -> str:
        # The message must not show a login. Bytes that aren't UTF-8 are shown as escapes.
        shown = without_login(self.text)
        shown = ascii(shown[:_SHOWN] + ("..." if len(shown) > _SHOWN else ""))
        return f"line {self.number}: {shown}: {self.why}"


def read_seeds(settings: config.Config) -> list[str]:
    """Return the seeds that a configuration names, normalised and folded.

    Raises UserError for seeds that aren't URLs. It names all wrong lines of a file.
    """
    seeds = [_seed(text) for text in settings.session.seeds if text and not text.startswith("#")]
    if settings.session.seeds_file:
        seeds += _read_file(settings.session.seeds_file)
    fold = settings.normalise.folding()
    return list(dict.fromkeys(map(fold, seeds) if fold else seeds))


def _seed(text: str) -> str:
    try:
        return normalise(text)
    except BadUrlError:
        raise UserError(f"seed {without_login(text)!r}: {_NO_URL}") from None


def _read_file(name: str) -> list[str]:
    where = f"session.seeds_file = {name!r}"
    try:
        text = textfile.decode(Path(name).read_bytes())
    except (OSError, ValueError) as error:  # a UnicodeDecodeError is a ValueError
        raise UserError(f"{where}: {error}; name a text file with one URL a line") from None
    seeds: list[str] = []
    wrong: list[_Wrong] = []
    for number, line in _lines(text):
        why = _oddity(line)
        if why is None:
            try:
                seeds.append(normalise(line))
            except BadUrlError:
                why = _NO_URL if _SCHEME.match(line) else _NO_SCHEME
        if why is not None:
            wrong.append(_Wrong(number, line, why))
    if wrong:
        raise UserError(f"{where}: {_all_wrong(wrong)}")
    return seeds


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that aren't empty, without comments and outer blanks, numbered from 1."""
    for number, line in textfile.lines(text):
        content = _REMARK.sub("", line).strip().strip(_INVISIBLE).strip()
        if content:
            yield number, content


def _oddity(line: str) -> str | None:
    """Return the mistake in a line that a URL parser would accept, or None."""
    odd = _ODD.search(line)
    if odd is None:
        return None
    return "a blank in a URL; write %20, or # before a comment" if odd[1] else "not UTF-8"


def _all_wrong(wrong: Sequence[_Wrong]) -> str:
    """Return one message for all wrong lines: the text of the first ones, numbers of the others."""
    text = "; ".join(map(str, wrong[:_NAMED]))
    if more := [line.number for line in wrong[_NAMED:]]:
        text += f"; and {len(more):,} more lines: {_ranges(more)}"
    return text


def _ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers in the form `3-5, 8`, cut off after 100 ranges."""
    ranges = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(ranges[:100]) + (", ..." if len(ranges) > 100 else "")
