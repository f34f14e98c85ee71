"""A cache with a bound on its memory, which forgets what hasn't been used for a while."""

from collections.abc import Callable
from typing import Generic, TypeVar

_V = TypeVar("_V")


class Recent(Generic[_V]):
    """The values that were used last, by text, in two generations.

    A value is kept in the young generation. When this is full, it becomes the old one, and the old
    one is forgotten. A value of the old generation that is used is young again. So this costs less
    than an exact order of use, and the cache is never empty.
    """

    def __init__(self, most_bytes: int, nbytes_of: Callable[[str], int]) -> None:
        """`most_bytes`: of both generations. `nbytes_of` tells what a text and its value take."""
        # To look here before `find` is called saves a call for most values.
        self.young: dict[str, _V] = {}
        self._old: dict[str, _V] = {}
        self._most_bytes = most_bytes // 2  # of a generation
        self._nbytes_of = nbytes_of
        self._young_bytes = self._old_bytes = 0

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def nbytes(self) -> int:
        """About how many bytes of memory the values take."""
        return self._young_bytes + self._old_bytes

    def find(self, text: str) -> _V | None:
        """Return the value of a text, or None if there is none."""
        value = self.young.get(text)
        if value is None and (value := self._old.pop(text, None)) is not None:
            self._old_bytes -= self._nbytes_of(text)
            self.keep(text, value)
        return value

    def keep(self, text: str, value: _V) -> None:
        """Keep the value of a text that has none, if it isn't too large."""
        nbytes = self._nbytes_of(text)
        if nbytes > self._most_bytes:
            return
        if self._young_bytes + nbytes > self._most_bytes:
            self._old, self._old_bytes = self.young, self._young_bytes
            self.young, self._young_bytes = {}, 0
        self.young[text] = value
        self._young_bytes += nbytes

    def clear(self) -> None:
        """Forget all values."""
        self.young, self._old = {}, {}
        self._young_bytes = self._old_bytes = 0
