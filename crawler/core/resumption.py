"""Resumes a session at one rank, from a snapshot of the last stop or from the logs."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from crawler import url
from crawler.core.foreign import Origin
from crawler.core.joining import Joining
from crawler.core.parts import Parts
from crawler.core.snapshot import CoreSnapshot
from crawler.core.unfinished import Unfinished
from crawler.core.visits import Visit
from crawler.ports import COOKIES_LOST, REDIRECT, CrawlUrl, Link, begun_anew
from crawler.reading.traps import TrapMonitor

_STEP: Final = 500  # URLs, a few milliseconds


def packed(keys: Iterable[int]) -> bytes:
    """Return keys as a snapshot holds them."""
    return array("Q", keys).tobytes()


class Resumption:
    """Brings back into a core what earlier runs of the session knew.

    Call `begin` first and `end` last. Between them, either exhaust `restore`, or call
    `note_fetched` and `admit_again`. Meanwhile the rank isn't passive.
    """

    def __init__(
        self,
        parts: Parts,
        joining: Joining,
        visiting: Mapping[int, Visit],
        unfinished: Unfinished,
        show_page: Callable[[CrawlUrl, Iterable[int], float], None],
    ) -> None:
        """`visiting`: the open visits, by the keys of their URLs.

        `show_page` shows the order of the frontier the links of a page.
        """
        self._ownership = parts.ownership
        self._sites = parts.sites
        self._seen = parts.seen
        self._bench = parts.bench
        self._traps = parts.traps
        self._door = parts.door
        self._joining = joining
        self._visiting = visiting
        self._quota = parts.quota
        self._unfinished = unfinished
        self._declared = parts.declared
        self._jars = parts.jars
        self._faults = parts.faults
        self._show_page = show_page

    def begin(self) -> None:
        """Note that the session is resumed, so that the rank isn't passive until `end`."""
        self._unfinished.replay = True

    def count_pages(self, pages: int) -> None:
        """Count the pages that all ranks have fetched in earlier runs of the session."""
        self._quota.spend(pages)

    def note_links(self, fetched: Iterable[int], left: Iterable[int]) -> None:
        """Note the links that this rank found in earlier runs, by the keys of their targets.

        `fetched`: the targets that were fetched. `left`: the targets that other ranks take care of.
        """
        self._door.foreign.note_earlier_links(fetched, left)

    def end(self, *, wholly: bool) -> None:
        """Note that all links of earlier runs are admitted.

        `wholly`: false if a stop broke this off. If a stop has dropped the replay (`Core.abandon`),
        this call does nothing.
        """
        if self._unfinished.replay:
            self._unfinished.replay = False
            if not wholly:
                self._unfinished.break_off()

    # --- from the logs ------------------------------------------------------------------------

    def note_fetched(
        self, keys: Iterable[int], traps: TrapMonitor, given_up: Iterable[str]
    ) -> None:
        """Note the URLs of this rank that were fetched, or failed, in earlier runs of the session.

        This may be called several times, before `Core.start`. `keys`: the keys of the URLs.
        `traps`: has seen the pages. `given_up`: the authorities that were given up.
        """
        self._seen.update(keys)
        self._traps.absorb(traps)
        self.give_up(given_up)

    def give_up(self, authorities: Iterable[str]) -> None:
        """Ask these authorities nothing more, because an earlier run has given them up."""
        for authority in authorities:
            self._bench.failures.give_up(authority)

    def hold_back(self, rests: Mapping[str, float], now: float) -> None:
        """Let sites and addresses rest for some seconds, because earlier runs have asked them."""
        self._bench.states.hold_back({name: now + seconds for name, seconds in rests.items()})

    def admit_again(
        self,
        source: CrawlUrl | None,
        links: Sequence[Link],
        now: float,
        targets: Iterable[int] = (),
    ) -> None:
        """Admit links of an earlier run whose targets weren't fetched.

        `source`: the page with the links, or None if they are sitemaps. `targets`: the keys of all
        links of the page that are followed, if the order wants them.
        """
        if source is None:
            origin = Origin(None, 0, replayed=True)
        elif links and links[0].flags & REDIRECT:
            chain = (*source.chain, source.key)
            if links[0].flags & COOKIES_LOST:
                chain = begun_anew(chain)
            origin = Origin(source, source.hops, chain, replayed=True)
        elif self._door.follows(source.hops):
            origin = Origin(source, source.hops + 1, replayed=True)
        else:
            return
        self._door.admit(links, origin, now)
        if source is not None:
            self._show_page(source, targets, now)

    # --- from a snapshot ----------------------------------------------------------------------

    def state(self, pack: Callable[[Iterable[int]], bytes] = packed) -> CoreSnapshot | None:
        """A snapshot of what this rank knows, after a stop. Afterwards the core is useless.

        `pack` returns what the snapshot holds of a store of keys.

        Returns None if only the logs hold everything. That is so in these cases: the stop broke off
        a replay or a page; URLs are held for a claim, or pending at the store of URL-seen; sites
        are still joining the scope; the order has no state that a snapshot can hold; the memory of
        sent URLs is a cache; or the assignment is dynamic.
        """
        door, foreign = self._door, self._door.foreign
        sent, order = foreign.keys_to_keep(), self._bench.backlog.order.state()
        if sent is None or order is None or self._unfinished.only_logged:
            return None
        if self._ownership.tree is not None:  # a registry is made from the logs
            return None
        if door.claims.holds or door.pending or self._joining.sites:
            return None
        left = [
            (visit.found, -visit.priority[0])
            for visit in self._visiting.values()
            if not visit.found.is_errand
        ]
        left += self._bench.backlog.drain()
        own, deferred = foreign.split(left)
        left = own + deferred
        return CoreSnapshot(
            seen=pack(self._seen),
            sent=pack(sent),
            urls=[found.url for found, _ in left],
            hops=[found.hops for found, _ in left],
            scores=array("d", [score for _, score in left]).tobytes(),
            order=order,
            deferred=len(deferred),
            chains={
                index: self._without_cookies(found)
                for index, (found, _) in enumerate(left)
                if found.chain
            },
            traps=self._traps.tables(),
            given=door.claims.given,
            learned=self._ownership.learned,
            declared_by=self._declared.as_dict(),
            failures=self._bench.failures.in_a_row,
        )

    def _without_cookies(self, found: CrawlUrl) -> tuple[int, ...]:
        """The chain that a URL has after a resume, which loses the cookies of the chain."""
        had_some = found.key in found.chain or self._jars.get(found.key).cookies
        return begun_anew(found.chain) if had_some else found.chain

    def restore(self, state: CoreSnapshot) -> Iterator[None]:
        """Restore what a snapshot holds, in steps. After the first step, visits may begin."""
        self._seen.update(array("Q", state.seen))
        self._door.foreign.note_earlier_links(array("Q", state.sent), ())
        self._traps.restore(state.traps)
        self._door.claims.restore(state.given)
        self._ownership.learned.update(state.learned)
        self._declared.update(state.declared_by)
        self._bench.failures.in_a_row.update(state.failures)
        self._bench.backlog.order.restore(state.order)
        scores = array("d", state.scores)
        inside = len(state.urls) - state.deferred
        for index, address in enumerate(state.urls):
            if index % _STEP == 0:
                yield
            try:
                site = self._sites.of(address)
            except BaseException as error:
                self._faults.note(error, "the site", address)
                continue
            chain = state.chains.get(index, ())
            found = CrawlUrl(url.key(address), address, site, state.hops[index], chain)
            if index < inside:
                self._bench.restore(found, scores[index])
            else:
                self._door.foreign.deferred.append(found)
        yield
