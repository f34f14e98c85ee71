"""Explains mistakes in a configuration in one line: what is wrong, where, and what to do."""

import re
from collections.abc import Sequence

from crawler.commandline import guess
from crawler.config.checking import ABSENT, Mistakes
from crawler.config.sites import Site
from crawler.config.whole import Config

_PLAIN = re.compile(r"[\w.+-]{0,12}")
_SECRET = re.compile(r"fetch\.proxy.*|sites(\.\d+(\.headers.*)?)?")  # messages don't show values


def explain(error: Mistakes) -> str:
    """A line on the first mistake, with the number of further ones."""
    first, *others = error.mistakes
    name = ".".join(first.where)
    if first.words:
        is_hidden = first.value is ABSENT or _SECRET.fullmatch(name)
        value = "" if is_hidden else f" = {first.value!r}"
        message = f"{_shown(first.where)}{value}: {first.words}"
    else:
        message = _explain_unknown(first.where)
    return message + (f" (and {len(others)} more)" if others else "")


def _shown(location: Sequence[str]) -> str:
    """The name of a key for a message. Tables of `[[sites]]` are counted from 1."""
    if location[0] == "sites" and len(location) > 1:
        number, *keys = location[1:]
        return ": ".join([f"[[sites]] {int(number) + 1}", *filter(None, [".".join(keys)])])
    return ".".join(location)


def show(value: object) -> str:
    """A value for a message. Only short words are shown, because a longer value may be a secret."""
    return repr(value) if is_plain(str(value)) else "..."


def is_plain(text: str) -> bool:
    """Whether a text may be shown, because it is too short and plain to be a secret."""
    return bool(_PLAIN.fullmatch(text))


def _explain_unknown(location: Sequence[str]) -> str:
    """A line on an unknown table or key, with the name that was probably meant."""
    *tables, name = location
    known, kind, where = Config.all_keys, "table", "the tables are"
    if location == ("fetch", "headers"):
        return (
            "fetch.headers: headers stand in a table of their sites:"
            ' [[sites]] match = "a.example" headers = {Accept-Language = "de"}'
        )
    if tables:
        table = Site if tables[0] == "sites" else Config.all_keys[tables[0]].kind
        known, kind = table.all_keys, "key"
        where = f"the keys of {'[[sites]]' if table is Site else f'[{tables[0]}]'} are"
    meant = guess(name, known)
    return f"{_shown(location)}: unknown {kind}; {meant}{where}: {', '.join(known)}"
