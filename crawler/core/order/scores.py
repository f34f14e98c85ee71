"""What a waiting URL is scored by. The greater score comes first, then the URL that came first.

An order only says numbers; who waits where, and who is asked when, is nothing to it.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from crawler.ports import Found, UserError


class BreadthFirst:
    """A site gives its URLs in the order in which they came, and the sites take turns. No scores.

    `counts`: further back-links of a URL are to be reported. `wants_links`: so are the links of
    each page that is fetched.
    """

    counts: ClassVar[bool] = False
    wants_links: ClassVar[bool] = False

    def state(self) -> list[float] | None:
        """What it needs besides the scores of waiting URLs to go on in another run; None: only the
        logs have that."""
        return []

    def restore(self, state: list[float]) -> None:
        """Go on where another run has given its state."""


class Scored(BreadthFirst):
    """An order by scores. Derive from it for an order of your own whose scores change.

    Only if `counts`, `more` is called; only if `wants_links`, `spread` is.
    """

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        """The score of a new URL with so many known back-links; whether it is final."""
        raise NotImplementedError

    def more(self, links: int) -> float:
        """What so many further back-links add to a score."""
        raise NotImplementedError

    def spread(self, key: int, score: float | None, targets: Sequence[int]) -> float:
        """What each of the links of a fetched page adds to the score of its target.

        Each link has been counted before, by `first` or `more`. `key` and `score` are the page's,
        the score as it was when its visit began, None if that isn't known.
        """
        raise NotImplementedError

    def is_stale(self) -> bool:
        """Whether the scores that aren't final should be computed anew, all at once."""
        return False

    def scores(self, keys: NDArray[np.uint64], links: NDArray[np.uint32]) -> NDArray[np.float64]:
        """The scores of these waiting URLs, with so many known back-links; none is final."""
        raise NotImplementedError

    def state(self) -> list[float] | None:
        return None


class DepthFirst(Scored):
    """The URL that came last."""

    def __init__(self) -> None:
        self._urls = 0

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        self._urls += 1
        return self._urls, True

    def state(self) -> list[float]:
        return [self._urls]

    def restore(self, state: list[float]) -> None:
        self._urls = int(state[0])


class Random(Scored):
    """Any: a hash of the key and the seed. The same at every run, whatever the timing."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        return xxh3_64_intdigest(found.key.to_bytes(8, "little"), self._seed) / 2**64, True

    def state(self) -> list[float]:
        return []


class Backlinks(Scored):
    """The URL with the most back-links known so far (Cho, Garcia-Molina, Page 1998, IB'(P))."""

    counts = True

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        return links, False

    def more(self, links: int) -> float:
        return links

    def state(self) -> list[float]:
        return []


class Opic(Scored):
    """The URL with the most cash (Abiteboul, Preda, Cobena 2003, on-line page importance).

    A fetched page splits its cash evenly among its links. Nothing is fetched twice, so cash that
    reaches a fetched page is out of the game (as in Baeza-Yates et al. 2005). A link whose page
    isn't this rank's brings what a link of this rank's pages has brought on average; and so does
    being a seed, at first 1.
    """

    counts = True
    wants_links = True

    def __init__(self) -> None:
        self.mean = 1.0  # cash that a link brings
        self._cash = 0.0  # split so far
        self._links = 0  # among so many

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        return links * self.mean, False

    def more(self, links: int) -> float:
        return links * self.mean

    def spread(self, key: int, score: float | None, targets: Sequence[int]) -> float:
        if score is None or not targets:
            return 0.0
        added = score / len(targets) - self.mean  # that was counted for want of this
        self._cash += score
        self._links += len(targets)
        self.mean = self._cash / self._links
        return added

    def state(self) -> list[float] | None:
        return [self.mean, self._cash, self._links]

    def restore(self, state: list[float]) -> None:
        self.mean, self._cash, links = state
        self._links = int(links)


class Custom(Scored):
    """What a function of the user's says of a URL when it is found."""

    def __init__(self, function: Callable[[Found], float]) -> None:
        self._function = function

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        score = float(self._function(found))
        if score != score:  # noqa: PLR0124
            raise ValueError(f"{self._function}: not a number, for {found.url}")
        return score, True

    def state(self) -> list[float]:
        return []


def load(name: str) -> Scored:
    """The order `module:function`: a function of a Found, or a class derived from Scored.

    Raises UserError: no such module, nothing of that name there, nothing that can be called.
    """
    where = f"frontier.order = {name!r}"
    module_name, _, attribute = name.partition(":")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise UserError(f"{where}: {error}; the module must be on PYTHONPATH") from None
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"{where}: the module can't be imported: {words}") from error
    function: Any = getattr(module, attribute, None)
    if isinstance(function, type) and issubclass(function, Scored):
        return function()
    if not callable(function):
        raise UserError(
            f"{where}: {module_name} has no function {attribute}; one that takes a"
            " crawler.ports.Found and returns a number is needed"
        )
    return Custom(function)
