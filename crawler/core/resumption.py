"""Resumes a session at one rank, from a snapshot of the last stop or from the logs."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, Literal

from crawler import url
from crawler.core.foreign import Origin, Waiting
from crawler.core.joining import Joining
from crawler.core.parts import Parts
from crawler.core.snapshot import About, CoreSnapshot, KeysPiece, WaitingPiece
from crawler.core.unfinished import Unfinished
from crawler.ports import COOKIES_LOST, REDIRECT, CrawlUrl, Link, begun_anew

_STEP: Final = 500  # URLs, a few milliseconds
_PIECE: Final = 1 << 13  # waiting URLs in a piece of a snapshot
_KEYS: Final = 1 << 17  # keys in a piece of a snapshot


def _pieces(store: Literal["seen", "sent"], keys: Iterable[int]) -> Iterator[KeysPiece]:
    rest = iter(keys)
    while some := array("Q", islice(rest, _KEYS)):
        yield KeysPiece(store, some.tobytes())


class Resumption:
    """Brings back into a core what earlier runs of the session knew.

    Call `begin` first and `end` last. Between them, exhaust `restore`, or call `note_fetched` and
    `admit_again` for all logs. Do both if there are logs that are later than the snapshot: take the
    first step of `restore`, call `note_fetched`, exhaust `restore`, and call `admit_again`.
    Meanwhile the rank isn't passive.
    """

    def __init__(
        self,
        parts: Parts,
        joining: Joining,
        unfinished: Unfinished,
        show_page: Callable[[CrawlUrl, Iterable[int], float], None],
    ) -> None:
        """`show_page` shows the order of the frontier the links of a page."""
        self._ownership = parts.ownership
        self._sites = parts.sites
        self._seen = parts.seen
        self._bench = parts.bench
        self._traps = parts.traps
        self._door = parts.door
        self._joining = joining
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
        self, keys: Iterable[int], traps: Iterable[tuple[bytes, bytes]], given_up: Iterable[str]
    ) -> None:
        """Note the URLs of this rank that were fetched, or failed, in earlier runs of the session.

        This may be called several times, before `Core.start`. `keys`: the keys of the URLs.
        `traps`: the tables of a TrapMonitor that has seen the pages. `given_up`: the authorities
        that were given up.
        """
        self._seen.update(keys)
        self._traps.restore(traps)
        self.give_up(given_up)

    def give_up(self, authorities: Iterable[str]) -> None:
        """Ask these authorities nothing more, because an earlier run has given them up."""
        for authority in authorities:
            self._bench.failures.give_up(authority)

    def hold_back(self, rests: Mapping[str, float], now: float) -> None:
        """Let sites and addresses rest for some seconds, because earlier runs have asked them."""
        self._bench.states.hold_back({name: now + seconds for name, seconds in rests.items()})

    def rest_from(self, time: float) -> None:
        """Let each site rest for its delay from `time` on, because it may have been asked then."""
        self._bench.states.rest_from(time)

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

    def require_again(self, requisites: Sequence[Link], hops: int, now: float) -> None:
        """Admit requisites of an earlier run that weren't fetched."""
        self._door.require(requisites, hops, now, replayed=True)

    # --- from a snapshot ----------------------------------------------------------------------

    def state(self, keep: Callable[[Iterable[int]], bool] = lambda _: False) -> CoreSnapshot | None:
        """A snapshot of what this rank knows, after a stop. Afterwards the core is useless.

        `keep` returns whether files hold the keys of a store, so that the snapshot needn't.

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
        about = About(
            order=order,
            traps=self._traps.tables(),
            given=door.claims.given,
            learned=self._ownership.learned,
            declared_by=self._declared.as_dict(),
            failures=self._bench.failures.in_a_row,
        )
        seen_pieces = () if keep(self._seen) else _pieces("seen", self._seen)
        sent_pieces = () if keep(sent) else _pieces("sent", sent)
        return CoreSnapshot(about, chain(seen_pieces, sent_pieces, self._waiting_pieces()))

    def _waiting_pieces(self) -> Iterator[WaitingPiece]:
        """Take out all URLs that wait, or are visited: first this rank's own, then the others.

        Those of others are few, as most of them are set aside: so many may be visited.
        """
        visited = (
            (visit.found, -visit.priority[0])
            for visit in self._unfinished.visiting.values()
            if not visit.found.is_errand
        )
        waiting, deferred = chain(visited, self._bench.backlog.drain()), []
        while some := list(islice(waiting, _PIECE)):
            own, others = self._door.foreign.split(some)
            deferred += others
            yield self._waiting_piece(own, deferred=False)
        aside = chain(deferred, ((found, 0.0) for found in self._door.foreign.deferred.drain()))
        while some := list(islice(aside, _PIECE)):
            yield self._waiting_piece(some, deferred=True)

    def _waiting_piece(self, some: list[Waiting], *, deferred: bool) -> WaitingPiece:
        return WaitingPiece(
            [found.url for found, _ in some],
            [found.hops for found, _ in some],
            array("d", [score for _, score in some]).tobytes(),
            {
                index: self._without_cookies(found)
                for index, (found, _) in enumerate(some)
                if found.chain
            },
            deferred,
        )

    def _without_cookies(self, found: CrawlUrl) -> tuple[int, ...]:
        """The chain that a URL has after a resume, which loses the cookies of the chain."""
        had_some = found.key in found.chain or self._jars.get(found.key).cookies
        return begun_anew(found.chain) if had_some else found.chain

    def restore(
        self, state: CoreSnapshot, is_fetched: Callable[[CrawlUrl], bool] = lambda _: False
    ) -> Iterator[None]:
        """Restore what a snapshot holds, in steps. After the first step, visits may begin.

        `is_fetched`: whether a URL that waited then was fetched later. It isn't called in the first
        step.
        """
        about = state.about
        self._traps.restore(about.traps)
        self._door.claims.restore(about.given)
        self._ownership.learned.update(about.learned)
        self._declared.update(about.declared_by)
        self._bench.failures.in_a_row.update(about.failures)
        self._bench.backlog.order.restore(about.order)
        begun = False
        for piece in state.pieces:
            if isinstance(piece, WaitingPiece):
                begun = True
                yield from self._restore_waiting(piece, is_fetched)
            elif piece.store == "seen":
                self._seen.update(array("Q", piece.keys))
            else:
                self._door.foreign.note_earlier_links(array("Q", piece.keys), ())
        if not begun:
            yield

    def _restore_waiting(
        self, piece: WaitingPiece, is_fetched: Callable[[CrawlUrl], bool]
    ) -> Iterator[None]:
        scores = array("d", piece.scores)
        for index, address in enumerate(piece.urls):
            if index % _STEP == 0:
                yield
            try:
                site = self._sites.of(address)
            except BaseException as error:
                self._faults.note(error, "the site", address)
                continue
            redirects = piece.chains.get(index, ())
            found = CrawlUrl(url.own_key(address), address, site, piece.hops[index], redirects)
            if is_fetched(found):
                continue
            if piece.deferred:
                self._door.foreign.deferred.append(found)
            else:
                self._bench.restore(found, scores[index])
