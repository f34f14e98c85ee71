"""Reads the seeds that a user names in the configuration and in a text file."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from publicsuffixlist import PublicSuffixList

from crawler import config, textfile
from crawler.ports import UserError
from crawler.url import BadUrlError, host, normalise, of_seed, without_login

_REMARK: Final = re.compile(r"(?:^|\s)#.*")
_INVISIBLE: Final = "\ufeff\u200b\u2060"  # characters that copying a URL may leave beside it
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ODD: Final = re.compile("(\\s)|[\udc80-\udcff]")
_NO_URL: Final = "not an http or https URL"
_NO_SCHEME: Final = "neither a URL with http:// or https:// nor a host name like www.example.org"
_BARE: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(:[0-9]{1,5})?([/?#].*)?")
# Last labels of host names that are reserved for private use, tests and documentation.
_RESERVED: Final = frozenset(("example", "internal", "invalid", "local", "localhost", "test"))
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

    A seed without a scheme has the form that `url.of_seed` reads. Raises UserError for seeds that
    are neither URLs nor host names. It names all wrong lines of a file.
    """
    seeds = [_seed(text) for text in settings.session.seeds if text and not text.startswith("#")]
    if settings.session.seeds_file:
        seeds += _read_file(settings.session.seeds_file)
    if fold := settings.normalise.folding():
        seeds = [_like(seed, fold(of_seed(seed))) for seed in seeds]
    return list(dict.fromkeys(seeds))


def parse_seed(text: str) -> str:
    """Normalise a URL, or a host name with or without a port and a path (see `url.of_seed`).

    Also reads what it has returned. Raises BadUrlError if the text is neither.
    """
    text = text.removeprefix("//")
    bare = _BARE.fullmatch(text)
    if bare is None:
        return normalise(text)
    if bare[2] == ":80":  # nobody speaks TLS there
        return normalise(f"http://{text}")
    address = normalise(f"https://{text}")
    if not _is_host(bare[1], host(address)):
        raise BadUrlError(text)
    return _like("//", address)


def _like(seed: str, address: str) -> str:
    """Return a URL without its scheme, if the seed has none."""
    return address.removeprefix("https:") if seed.startswith("//") else address


def _is_host(written: str, name: str) -> bool:
    """Whether a text is certainly meant as a host, whose normalised name is given.

    For example, index.html and seeds are not. An address must be written as it is normalised.
    """
    if name.replace(".", "").isdigit() or ":" in name:
        return written.strip("[]") == name
    labels = name.rstrip(".").split(".")
    if not all(labels) or (len(labels) == 1 and name != "localhost"):
        return False
    return labels[-1] in _RESERVED or _suffixes().publicsuffix(labels[-1]) is not None


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False)


def _seed(text: str) -> str:
    try:
        return parse_seed(text)
    except BadUrlError:
        raise UserError(f"seed {without_login(text)!r}: {_why(text)}") from None


def _why(text: str) -> str:
    return _NO_URL if _SCHEME.match(text) else _NO_SCHEME


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
                seeds.append(parse_seed(line))
            except BadUrlError:
                why = _why(line)
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
