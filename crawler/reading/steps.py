"""Work in steps: a generator yields None between two steps, and returns the result."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finish(steps: Generator[None, None, Result]) -> Result:
    """Do all steps, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
