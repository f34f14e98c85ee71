"""Admits links of earlier runs whose targets weren't fetched, as links of their pages.

In a resume, each rank does this for its share of the logs (`resume`). If a client of a seed server
is lost that follows links itself, its server does it again for the share of this client (`losses`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from crawler import config, session, url
from crawler.core.core import Core
from crawler.faults import Faults, is_fault
from crawler.ports import Clock, CrawlUrl, Link, without_mark
from crawler.reading.judge import Judge, unfollowed
from crawler.reading.scope import Scope

Keys = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Correct = Callable[[session.LoggedPage], session.LoggedPage]
_STEP = 500  # links handled in one step, which takes a few milliseconds


class EarlierLinks:
    """The links in a share of the logs of earlier runs."""

    def __init__(
        self, core: Core, share: session.LogShard, faults: Faults, *, judges_again: bool
    ) -> None:
        """`core` admits the links. `judges_again`: see `resume.Replay`."""
        self._core = core
        self._share = share
        self._faults = faults
        self._judges_again = judges_again

    def admit(
        self, pending: Flags, fetched: Keys | None, judge: Judge, clock: Clock
    ) -> Iterator[None]:
        """Admit links, in steps of a few milliseconds.

        `pending`: which of the `link_keys` of the share. `fetched`: the keys of fetched targets,
        sorted; None if targets may have been fetched in other logs.
        """
        core, sites = self._core, judge.scope.sites
        sitemaps = [(url.own_key(text), text, 0) for text in self._share.sitemaps]
        declared = self._share.declared
        found = self._make_links(
            lambda key, text, _: judge.sitemap(text, declared.authorities(key)), sitemaps
        )
        core.resumption.admit_again(None, found, clock.now())
        links = 0
        every = core.counts_links

        for page, wanted, targets in self._share.links(pending, every=every):
            is_lost = wanted and _is_lost(page, wanted[0][0], fetched)
            source = page._replace(chain=()) if is_lost else page

            def make(key: int, text: str, flags: int, source: CrawlUrl = source) -> Link:
                if self._judges_again:
                    return judge.link_again(source, text, flags)
                return Link(key, text, sites.of(text), flags)

            found = self._make_links(make, wanted)
            core.resumption.admit_again(source, found, clock.now(), targets)
            links += len(found)
            if links >= _STEP:
                links = 0
                yield
        # The links come first, because a requisite that is known as a page isn't fetched again.
        yield from self._require(judge.scope, clock)

    def _require(self, scope: Scope, clock: Clock) -> Iterator[None]:
        """Admit the requisites that no row of the share has, in steps."""
        names = list(self._share.requisites)
        keys = np.fromiter(map(url.own_key, names), np.uint64, len(names))
        fetched = session.among(keys, np.sort(self._share.page_keys))
        by_hops = defaultdict[int, list[Link]](list)
        for name, is_fetched in zip(names, fetched.tolist(), strict=True):
            link = None if is_fetched else scope.requisite(without_mark(name))
            if link is not None:
                by_hops[self._share.requisites[name]].append(link)
        for hops, links in by_hops.items():
            for at in range(0, len(links), _STEP):
                self._core.resumption.require_again(links[at : at + _STEP], hops, clock.now())
                yield

    def _make_links(
        self, make: Callable[[int, str, int], Link], wanted: Sequence[tuple[int, str, int]]
    ) -> list[Link]:
        """Return links made from keys, texts and flags, without those on which `make` fails."""
        try:
            return [make(*each) for each in wanted]
        except BaseException as error:
            if not is_fault(error):
                raise
        links = []
        for each in wanted:
            try:
                links.append(make(*each))
            except BaseException as error:
                self._faults.note(error, "the link", each[1])
        return links


def _is_lost(source: CrawlUrl, target: int, fetched: Keys | None) -> bool:
    """Whether a redirect leads back to a URL of its chain whose own row is lost by damage."""
    if target not in source.chain or fetched is None:
        return False
    return not session.among(np.array([target], np.uint64), fetched)[0]


def admit_for_lost(
    core: Core,
    paths: Sequence[Path],
    links: Keys,
    settings: config.Config,
    judge: Judge,
    faults: Faults,
    clock: Clock,
    *,
    judges_again: bool,
    correct: Correct | None = None,
) -> Iterator[None]:
    """At a server, admit the links that a lost client was to admit in a resume, in steps.

    `paths`: the client's share of the logs. `links`: the keys of these links' targets. See
    `resume.Replay` for the other arguments.
    """
    share = session.LogShard(
        paths,
        lambda row: core.door.follows(row.hops),
        skipped=unfollowed(settings, judges_again=judges_again),
        correct=correct,
    )
    yield from share.read()
    keys = share.link_keys
    pending = session.among(keys, np.sort(links))
    earlier = EarlierLinks(core, share, faults, judges_again=judges_again)
    yield from earlier.admit(pending, keys[~pending], judge, clock)
    share.close()
