"""What a rank knows of a URL or a site, for a user who asks. Looking it up changes nothing."""

from crawler import url
from crawler.core.dynamic.places import FREE
from crawler.core.dynamic.seedbench import SeedBench
from crawler.core.parts import Parts
from crawler.core.unfinished import Unfinished
from crawler.messages import Answer, Question, SiteFacts, UrlState
from crawler.ports import CrawlUrl, requisite


class Facts:
    """Answers questions from what the core of one rank has in memory."""

    def __init__(self, parts: Parts, unfinished: Unfinished) -> None:
        self._parts = parts
        self._unfinished = unfinished

    def answer(self, question: Question, now: float) -> Answer:
        """Return what this rank knows, without `Answer.robots`."""
        site = self._site(question.site, now)
        if not question.url:
            return Answer(question.number, site=site)
        names = question.url, requisite(question.url)
        page, needed = (CrawlUrl(url.own_key(name), name, question.site, 0) for name in names)
        state = self._state(page)
        if state in {UrlState.UNKNOWN, UrlState.UNTOLD}:  # it may wait as a requisite
            state = self._state(needed)
        return Answer(question.number, state, self._owner(page), site)

    def _owner(self, found: CrawlUrl) -> int | None:
        """The rank that owns a URL. Under dynamic assignment, only its server may know that."""
        ownership = self._parts.ownership
        part = ownership.part(found)  # `owner` could assign the site to a client
        return None if part is None else ownership.rank_of_part[part]

    def _state(self, found: CrawlUrl) -> UrlState:
        door, bench = self._parts.door, self._parts.bench
        if found.key in self._unfinished.visiting:
            return UrlState.UNDER_WAY
        if isinstance(bench, SeedBench) and bench.seeds.registry.is_out(found.key):
            return UrlState.HANDED_OUT
        if found.key in door.known:
            return UrlState.MET
        if self._parts.outboxes.holds(found.key):
            return UrlState.LEAVING
        if door.claims.awaits(found.site):
            return UrlState.CLAIMED
        return UrlState.UNKNOWN if door.late is None else UrlState.UNTOLD

    def _site(self, site: str, now: float) -> SiteFacts | None:
        bench = self._parts.bench
        if isinstance(bench, SeedBench):
            known = bench.seeds.registry.of_site(site)
            if known is None:
                return None
            waiting, out, pool = known
            tree = self._parts.ownership.tree
            assert tree is not None
            is_at_client = pool != FREE and pool < tree.ranks  # a higher pool: it is leaving
            return SiteFacts(waiting, out, client=pool if is_at_client else None)
        failing = bench.failures.of_site(site, self._parts.sites.of_authority)
        given_up = list(filter(bench.failures.has_given_up, failing))
        state = bench.states.by_site.get(site)
        if state is None:
            if not failing:
                return None
            return SiteFacts(0, 0, failures=failing, given_up=given_up)
        next_time = state.next_time
        if state.address is not None:
            next_time = max(next_time, state.address.next_time)
        errands = len(state.errands) if state.errands else 0
        return SiteFacts(
            state.queue.size + errands,
            state.active,
            state.phase.value,
            max(0.0, next_time - now),
            state.delay_s,
            state.connections,
            None if state.lease is None else state.lease.home,
            None,
            failing,
            given_up,
        )
