"""robots.txt for the fetch stage: asked for in time, cached, followed where it redirects."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from crawler import config, url
from crawler.agent.progress import Tally
from crawler.agent.room import with_room
from crawler.faults import Faults
from crawler.net import MAX_ROBOTS_REDIRECTS, Desk, DeskClosedError, ask_for_robots
from crawler.ports import Clock, Failure, Fetcher, MovedError, Response, Validators
from crawler.reading.robots import Rules
from crawler.reading.robots_cache import RobotsCache

_DECIDED = 10_000  # URLs of which it is remembered what large rules say of them


class RobotsGate:
    """The rules of an authority; fetched before its first page, once however many ask."""

    def __init__(
        self,
        robots: config.Robots,
        fetcher: Fetcher,
        clock: Clock,
        tally: Tally,
        faults: Faults | None = None,
        keep: Callable[[str, Response], None] | None = None,
        note: Callable[[str, float], None] = lambda _authority, _delay_s: None,
        site_of: Callable[[str], str] = url.site,
        run_errand: Callable[[str], None] = lambda _address: None,
        wake: Callable[[str], None] = lambda _site: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`keep` stores a robots.txt that reading code failed on.

        `note` hears of each crawl-delay, for the request log. `run_errand` has the file of another
        site fetched, by `fetch_errand`. `wake` hears of each site that has waited for one.
        `stopping`: whether the crawl stops, and large files aren't read any more.
        """
        self._note = note
        self._site_of = site_of
        self._run_errand = run_errand
        self._wake = wake
        # Where a robots.txt is on its site, as redirects say, by authority; and which redirect.
        self._moved: dict[str, tuple[str, int]] = {}
        # Authorities that wait for a file of another site, by its URL; and which redirect it was.
        self._waiting: dict[str, dict[str, int]] = {}
        self._far: set[str] = set()  # all of these authorities
        # Rules that have come from there, by authority; and when they were asked for.
        self._answers: dict[str, tuple[Rules, float]] = {}
        self._robots = robots
        self._fetcher = fetcher
        self._clock = clock
        self._tally = tally
        self._faults = faults or Faults()
        self._keep = keep
        # By authority, and by URL if it is a file for other sites. Expired rules are kept, to go on
        # with if they can't be had anew.
        self._cache = RobotsCache(keeps_expired=True)
        self._asking: dict[str, asyncio.Future[Rules]] = {}
        self._desk = Desk(stopping)
        # What large rules say of the URLs that they were asked for, by URL. The cache may have lost
        # them when a URL's turn comes again, and the site would be asked for ever.
        self._decided = RobotsCache(_DECIDED)

    def must_ask(self, authority: str) -> bool:
        """Whether `rules` would ask the site now."""
        if not self._robots.obey or authority in self._asking:
            return False
        if authority in self._far or authority in self._answers:
            return False
        return self._cache.get(authority, self._clock.now()) is None

    def awaits(self, authority: str) -> bool:
        """Whether the rules of an authority must come from another site first."""
        return authority in self._far

    def decided(self, address: str) -> Rules | None:
        """What large rules, asked for this URL, say of it; if there were any lately."""
        return self._decided.get(address, self._clock.now())

    def decide(self, address: str, rules: Rules, *, allowed: bool) -> None:
        """Remember what rules say of a URL."""
        verdict = Rules(crawl_delay=rules.crawl_delay) if allowed else _ALL_DENIED
        self._decided.put(address, verdict, self._clock.now())

    async def rules(self, authority: str) -> tuple[Rules, bool]:
        """The rules, and whether this call asked the site for them."""
        if not self._robots.obey:
            return _ALL_ALLOWED, False
        rules = self._cache.get(authority, self._clock.now())
        if rules is not None:
            return rules, False
        asked = self._asking.get(authority)
        if asked is not None:
            return await asyncio.shield(asked), False
        if authority in self._far:
            return ELSEWHERE, False
        # Not a task of its own: the request is to start now, as its clock has been told.
        asked = self._asking[authority] = asyncio.get_running_loop().create_future()
        try:
            rules = await self._ask(authority)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                asked.cancel()
            else:
                asked.set_exception(error)
                asked.exception()  # nobody else may wait for it
            raise
        asked.set_result(rules)
        return rules, True

    def spoil(self, authority: str) -> Rules:
        """Allow nothing at an authority, because reading code failed on its robots.txt."""
        rules = Rules.deny_all(Failure.INTERNAL)
        self._cache.put(authority, rules, self._clock.now())
        return rules

    async def _fetch(self, authority: str) -> tuple[Rules, float]:
        """Make the next request for the rules of an authority, unless their answer is here.

        Also returns when they were asked for.
        """
        if authority not in self._answers:
            address, redirects = self._moved.pop(authority, (f"{authority}/robots.txt", 0))
            found = await self._fetch_file(address)
            if isinstance(found, Rules):
                return found, self._clock.now()
            self._follow(authority, found, redirects + 1)
            if authority in self._moved:
                return MOVED_ON, self._clock.now()
            if authority in self._far:
                return ELSEWHERE, self._clock.now()
        return self._answers.pop(authority)

    async def _fetch_file(self, address: str) -> Rules | str:
        """Ask once for a robots.txt: the rules, or the URL to which it is redirected."""
        responses = _LatestResponse(self._fetcher)
        try:
            found = await ask_for_robots(responses, address, self._robots.agent, self._desk)
        except MovedError:
            raise
        except DeskClosedError:
            found = MOVED_ON  # a resume asks again
        except BaseException as error:
            self._faults.note(error, "the file", address)
            found = Rules.deny_all(Failure.INTERNAL)
        self._tally.requests += 1
        is_internal = isinstance(found, Rules) and found.unreachable is Failure.INTERNAL
        if is_internal and responses.latest and self._keep:
            await with_room(partial(self._keep, address, responses.latest))
        return found

    def _follow(self, authority: str, address: str, redirects: int) -> None:
        """Follow a redirect of a robots.txt: note the rules, or how it is to be followed.

        It is another request. On the same site the next visit makes it, on another one an errand.
        """
        now = self._clock.now()
        if redirects > MAX_ROBOTS_REDIRECTS:
            self._answers[authority] = _ALL_ALLOWED, now
            return
        try:
            stays = self._site_of(address) == self._site_of(f"{authority}/")
        except BaseException as error:
            self._faults.note(error, "the site", address)
            self._answers[authority] = Rules.deny_all(Failure.INTERNAL), now
            return
        if stays:
            self._moved[authority] = address, redirects
            return
        other = url.authority(address)
        for name in (address, other) if address == f"{other}/robots.txt" else (address,):
            known = self._cache.get(name, now)
            if known is not None and not known.unreachable:
                self._answers[authority] = known, self._cache.since(name)
                return
        is_new = address not in self._waiting
        self._waiting.setdefault(address, {})[authority] = redirects
        self._far.add(authority)
        if is_new:
            self._run_errand(address)

    async def fetch_errand(self, address: str) -> Rules:
        """Ask for a file that sites wait for: the rules, unreachable if it is to be tried again.

        If it is redirected, everything is allowed to this errand: others go on instead of it. The
        rules are MOVED_ON if the crawl stops before the file is read.
        """
        found = await self._fetch_file(address)
        if isinstance(found, Rules):
            if not found.unreachable:
                self._cache.put(address, found, self._clock.now())
                self.end_errand(address, found)
            return found
        for authority, redirects in self._take_waiting(address):
            self._follow(authority, found, redirects + 1)
            if authority not in self._far:
                self._wake(self._site_of(f"{authority}/"))
        return _ALL_ALLOWED

    def end_errand(self, address: str, rules: Rules) -> None:
        """Let the sites that wait for a file go on with these rules."""
        for authority, _ in self._take_waiting(address):
            self._answers[authority] = rules, self._clock.now()
            self._wake(self._site_of(f"{authority}/"))

    def _take_waiting(self, address: str) -> Iterable[tuple[str, int]]:
        waiting = self._waiting.pop(address, {})
        self._far.difference_update(waiting)
        return waiting.items()

    async def _ask(self, authority: str) -> Rules:
        try:
            rules, since = await self._fetch(authority)
            if rules is MOVED_ON or rules is ELSEWHERE:
                return rules
            if rules.unreachable and rules.retry_after_s is None:
                rules = self._cache.latest(authority) or rules
            if rules.unreachable is Failure.INTERNAL:  # it would be the same again
                return self.spoil(authority)
            if not rules.unreachable:  # else nothing is known, and the next visit asks again
                self._note_delay(authority, rules)
                self._cache.put(authority, rules, since)
            return rules
        finally:
            del self._asking[authority]

    def _note_delay(self, authority: str, rules: Rules) -> None:
        before = self._cache.latest(authority)
        if rules.crawl_delay or (before is not None and before.crawl_delay):
            self._note(authority, rules.crawl_delay or 0.0)


_ALL_ALLOWED = Rules.allow_all()
_ALL_DENIED = Rules.parse(b"User-agent: *\nDisallow: /", "")
# The site is to be asked again in its time: it has redirected its robots.txt within itself, or the
# file hasn't been read.
MOVED_ON = Rules.deny_all(Failure.ROBOTS_UNREACHABLE)
# It has redirected its robots.txt to another site, and waits for what comes from there.
ELSEWHERE = Rules.deny_all(Failure.ROBOTS_UNREACHABLE)


class _LatestResponse(Fetcher):
    """A fetcher that remembers its latest response."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.latest: Response | None = None

    async def locate(self, url: str) -> str:
        return await self.fetcher.locate(url)

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        self.latest = await self.fetcher.fetch(url, validators, max_bytes)  # of a robots.txt
        return self.latest
