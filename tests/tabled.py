"""What processes do together with a session, for tests: several of them, or one alone."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from fakes import World

from crawler.ports import Peers
from crawler.session import Alone, alone, checked, tables
from crawler.session.tables import Correct, Totals, as_logged

T = TypeVar("T")


def together(processes: int, work: Callable[[Peers], Awaitable[T]]) -> list[T]:
    """What each of the processes returns."""

    async def all_of_them() -> list[T]:
        return list(await asyncio.gather(*map(work, World(processes).groups)))

    return asyncio.run(all_of_them())


def write_tables(session: Path, correct: Correct = as_logged) -> tuple[Totals, list[Totals]]:
    return alone(tables.write_tables(session, Alone(), correct))


def check_tables(session: Path, correct: Correct = as_logged) -> list[str]:
    return alone(checked.check_tables(session, Alone(), correct))
