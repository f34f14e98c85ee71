"""A store of URL-seen that answers late: after random delays, a random group at a time."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf

from crawler.core.seen import Candidate, LateSeen, MemorySeen, UrlSeen


class SlowSeen(LateSeen):
    """Each key belongs to one of some groups, as in VEUNIQ; a group is answered as a whole.

    A group's turn comes at a random time after the first submission to it, which may be never
    (`patient`) unless the store must hurry. Even then it takes a moment.
    """

    def __init__(self, dice: random.Random, longest_s: float = 3.0) -> None:
        self._dice = dice
        self._longest_s = longest_s
        self._patient = dice.random() < 0.3
        self._keys: set[int] = set()
        self._groups: list[list[Candidate]] = [[] for _ in range(dice.choice([1, 3, 8]))]
        self._turns = [inf] * len(self._groups)
        if dice.random() < 0.5:
            self.groups = self

    def at_hand(self) -> int:
        return self._dice.randrange(len(self._groups))

    def group_of(self, site: str) -> int:
        return len(site) % len(self._groups)

    @property
    def pending(self) -> int:
        return sum(map(len, self._groups))

    def submit(self, candidate: Candidate, now: float) -> None:
        number = candidate.found.key % len(self._groups)
        if not self._groups[number]:
            self._turns[number] = inf if self._patient else now + self._delay()
        self._groups[number].append(candidate)

    def take_answers(self, now: float, *, hurry: bool) -> Iterable[tuple[Candidate, bool]]:
        if hurry:
            for number, group in enumerate(self._groups):
                if group and self._turns[number] > now + self._longest_s:
                    self._turns[number] = now + self._delay()
        ready = [number for number, turn in enumerate(self._turns) if turn <= now]
        self._dice.shuffle(ready)
        answers = [answer for number in ready for answer in self._answer(number)]
        assert not {candidate.found.key for candidate, new in answers if new} & self._keys
        self._keys.update(candidate.found.key for candidate, _ in answers)
        return answers

    def next_time(self) -> float | None:
        turn = min(self._turns)
        return None if turn == inf else turn

    def update(self, keys: Iterable[int]) -> None:
        self._keys.update(keys)

    def __iter__(self) -> Iterator[int]:
        assert not self.pending
        return iter(self._keys)

    def _delay(self) -> float:
        return self._dice.choice([0.0, self._dice.random() * self._longest_s])

    def _answer(self, number: int) -> Iterator[tuple[Candidate, bool]]:
        """Answer about a group, in a random order of the keys."""
        by_key: dict[int, list[Candidate]] = {}
        for candidate in self._groups[number]:
            by_key.setdefault(candidate.found.key, []).append(candidate)
        self._groups[number], self._turns[number] = [], inf
        keys = list(by_key)
        self._dice.shuffle(keys)
        for key in keys:
            first, *others = by_key[key]
            yield first, key not in self._keys
            yield from ((candidate, False) for candidate in self._put_together(others))

    def _put_together(self, known: list[Candidate]) -> list[Candidate]:
        """Sometimes make one candidate of those of one key, as the interface allows."""
        alike = [one for one in known if one.found.key not in one.found.chain]
        if len(alike) < 2 or self._dice.random() < 0.5:
            return known
        links = sum(one.links for one in alike)
        return [alike[0]._replace(links=links), *(one for one in known if one not in alike)]


def stores(dice: random.Random, *, late: bool) -> Callable[[], UrlSeen | LateSeen]:
    """Makes stores that answer late, or those of every crawl."""
    return partial(SlowSeen, dice) if late else MemorySeen
