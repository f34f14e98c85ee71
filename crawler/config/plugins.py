"""The table on plug-ins."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from crawler.config.table import Table


def _without_none(value: JsonValue) -> JsonValue:
    """Refuse None, which session.toml can't hold."""
    if value is None:
        raise ValueError("must not be None; leave the option out")
    for inner in value if isinstance(value, list) else ():
        _without_none(inner)
    for inner in value.values() if isinstance(value, dict) else ():
        _without_none(inner)
    return value


Options = dict[str, Annotated[JsonValue, AfterValidator(_without_none)]]


class Plugins(Table):
    """The options of plug-ins: for each plug-in that has options, a key with its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Options] = Field(init=False)

    def of(self, name: str) -> Mapping[str, JsonValue]:
        """Return the options of a plug-in."""
        return self.__pydantic_extra__.get(name, {})

    @property
    def names(self) -> list[str]:
        """The plug-ins that have options."""
        return list(self.__pydantic_extra__)


class NamedPlugin(NamedTuple):
    """A plug-in that a key of the configuration names."""

    key: str  # such as scope.filters
    name: str
