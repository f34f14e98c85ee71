"""Explains mistakes in a configuration in one line: what is wrong, where, and what to do."""

import re

from pydantic import ValidationError as PydanticValidationError

from crawler.commandline import guess
from crawler.config.sites import Site
from crawler.config.table import Table
from crawler.config.whole import Config

_PLAIN = re.compile(r"[\w.+-]{0,12}")
_SECRET = re.compile(r"fetch\.proxy.*|sites(\.\d+(\.headers.*)?)?")  # messages don't show values
_WANTED = {  # by pydantic's type of mistake, where our words are easier to understand
    "bool_parsing": "must be a boolean: true or false",
    "bool_type": "must be a boolean: true or false",
    "byte_size": "must be a size, like 64KiB or 1GB",
    "byte_size_unit": "must be a size, like 64KiB or 1GB",
    "dict_type": "must be a table, like { a = 1 }",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_type": "must be an integer",
    "string_type": "must be a string, in quotes",
    "missing": "is missing",
    "model_type": "must be a table",
    "tuple_type": 'must be a list, like ["a", "b"]',
}


def explain(error: PydanticValidationError) -> str:
    """A line on the first mistake, with the number of further ones."""
    mistakes = error.errors()
    first = mistakes[0]
    location = [str(part) for part in first["loc"]]
    name = ".".join(location)
    if first["type"] == "extra_forbidden":
        message = _explain_unknown(location)
    else:
        wanted = _WANTED.get(first["type"]) or _reword(first["msg"])
        hidden = first["type"] == "missing" or _SECRET.fullmatch(name)
        value = "" if hidden else f" = {first['input']!r}"
        message = f"{_shown(location)}{value}: {wanted}"
    return message + (f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else "")


def _shown(location: list[str]) -> str:
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


def _explain_unknown(location: list[str]) -> str:
    """A line on an unknown table or key, with the name that was probably meant."""
    *tables, name = location
    known, kind, where = list(Config.model_fields), "table", "the tables are"
    if location == ["fetch", "headers"]:
        return (
            "fetch.headers: headers stand in a table of their sites:"
            ' [[sites]] match = "a.example" headers = {Accept-Language = "de"}'
        )
    if tables:
        table = Config.model_fields[tables[0]].annotation
        written = f"[{tables[0]}]"
        if tables[0] == "sites":
            table, written = Site, "[[sites]]"
        assert isinstance(table, type)
        assert issubclass(table, Table)
        known, kind, where = list(table.model_fields), "key", f"the keys of {written} are"
    meant = guess(name, known)
    return f"{_shown(location)}: unknown {kind}; {meant}{where}: {', '.join(known)}"


def _reword(message: str) -> str:
    """Pydantic's message as the end of our sentence, such as "must be less than or equal to 3"."""
    message = message.removeprefix("Value error, ")
    message = re.sub(r"^(Input|String|Value) should ", "must ", message)
    return message[0].lower() + message[1:]
