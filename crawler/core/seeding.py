"""The seeds: which of them this rank starts with, and those that come during the crawl."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from crawler import url
from crawler.core.foreign import Origin
from crawler.core.mail import Mail
from crawler.core.parts import Parts
from crawler.messages import Batch
from crawler.modes import Mode
from crawler.ports import OUT_OF_SCOPE, Link


class Seeding:
    """Admits the seeds of one rank. Every rank gets all seeds, and takes those that it owns."""

    def __init__(
        self,
        parts: Parts,
        mode: Mode,
        ranks: int,
        mail: Mail,
        note_seed: Callable[[str], None],
    ) -> None:
        """`note_seed` is called with each seed that comes during the crawl, before it is admitted.

        In independent mode no rank owns a seed, and the ranks take them in turn.
        """
        self._divides = mode.divides
        self._ranks = ranks
        self._ownership = parts.ownership
        self._sites = parts.sites
        self._rules = parts.rules
        self._door = parts.door
        self._mail = mail
        self._note_seed = note_seed

    def start(self, seeds: Iterable[Link], replicated: Iterable[Link], now: float) -> None:
        """Admit the seeds at the start of a run. See `Core.start`."""
        popular: list[Link] = []
        if self._divides:
            popular = [link for link in replicated if not link.flags & OUT_OF_SCOPE]
        self._admit(seeds, popular, now)
        self._door.replicated = frozenset(link.key for link in popular)

    def add(self, seeds: Sequence[str], now: float) -> None:
        """At rank 0, during the crawl: admit further seeds on all ranks.

        `seeds`: normalised, and in scope, or their sites have just joined it.
        """
        for box in self._mail.open_all(now):
            box.seeds.extend(seeds)
        self._add(seeds, now)

    def received(self, batch: Batch, now: float) -> None:
        """Admit the seeds that rank 0 has added."""
        if batch.seeds:
            self._add(batch.seeds, now)

    def _add(self, seeds: Sequence[str], now: float) -> None:
        for seed in seeds:
            self._note_seed(seed)
        urls = map(url.of_seed, seeds)
        links = [Link(url.own_key(one), one, self._sites.of(one), 0) for one in urls]
        self._admit(links, (), now)

    def _admit(self, seeds: Iterable[Link], popular: Iterable[Link], now: float) -> None:
        if not self._divides:
            seeds = islice(seeds, self._ownership.rank, None, self._ranks)
        seeds = (*seeds, *popular)
        links = list(filter(self._ownership.starts, seeds))
        for link in seeds if self._ownership.tree else links:  # a client may get any of them
            self._rules.welcome(link.url)
        self._door.admit(links, Origin(None, 0), now)
