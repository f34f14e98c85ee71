"""What a table of the configuration is: its keys, with their types, defaults and descriptions."""

from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Self, dataclass_transform

from crawler.config.checking import check_together, checked
from crawler.config.values import REQUIRED, Key


def key(*, about: str, default: Any = REQUIRED, aside: bool = False) -> Any:
    """Describe a key in the body of a table.

    `aside`: the value can't change what a rank knows. A snapshot stays valid when the value of such
    a key changes, and when the content of a file that such a key names changes.
    """
    return Key(None, default, about, aside)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key,))
class Table:
    """A table of the configuration. It is frozen, and refuses keys that it doesn't know.

    The values are checked when a table is made. Rank 0 does so, and sends the others its tables.
    """

    all_keys: ClassVar[Mapping[str, Key]]

    def __init_subclass__(cls) -> None:
        keys = {}
        for name, kind in cls.__annotations__.items():
            given = vars(cls)[name]
            if not isinstance(given, Key):
                given = Key(None, given, "", aside=False)
            keys[name] = given._replace(kind=kind)
            delattr(cls, name)
        cls.all_keys = keys

    def __init__(self, **values: object) -> None:
        """Raises Mistakes if a value is wrong, or if a key is unknown or missing."""
        if values or any(one.is_required for one in self.all_keys.values()):
            right = checked(self.all_keys, values)
            check_together(self.of(**right).check, values)
            values = right
        self.__dict__.update(self.of(**values).__dict__)

    @classmethod
    def of(cls, **values: object) -> Self:
        """Return a table of values that are known to be right."""
        table = cls.__new__(cls)
        table.__dict__.update({name: one.default for name, one in cls.all_keys.items()} | values)
        return table

    def check(self) -> None:
        """Raise ValueError if the values don't fit each other. Tables may override this."""

    def replace(self, **values: object) -> Self:
        """Return a copy with other values for some keys. They must be right."""
        return self.of(**(self.__dict__ | values))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.__dict__.items())

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"{type(self).__name__} is frozen: {name} can't be set")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # tables hold mappings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"
