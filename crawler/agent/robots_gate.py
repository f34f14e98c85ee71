"""robots.txt for the fetch stage: requested before the first page, cached, and redirects followed.

If a robots.txt redirects to another site, the file there is fetched by an errand: a visit to the
other site that has no row in the log. Meanwhile the first site waits.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from crawler import config, url
from crawler.agent.progress import Tally
from crawler.agent.room import with_room
from crawler.faults import Faults
from crawler.messages import RobotsFacts
from crawler.net import MAX_ROBOTS_REDIRECTS, ReadingStoppedError, SerialReader, ask_for_robots
from crawler.ports import Clock, Failure, Fetcher, MovedError, Response, Validators
from crawler.reading.robots import Rules
from crawler.reading.robots_cache import RobotsCache

_DECIDED = 10_000  # URLs for which the verdict of large rules is remembered


class RobotsGate:
    """Gives the rules of authorities. If several visits need a file, it is requested once."""

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
        max_bytes: int = 48 << 20,
        overrides: config.Overrides | None = None,
    ) -> None:
        """`keep(url, response)` stores a robots.txt on which reading code failed.

        `note(authority, seconds)` is called with each crawl-delay, for the request log.
        `run_errand(url)` must bring about a call of `fetch_errand`. `wake(site)` is called when a
        site needs to wait no longer. `stopping` says whether the crawl stops; then large files
        aren't read any more. `max_bytes`: how much memory rules may take that aren't large.
        `overrides` may say for some sites whether robots.txt is obeyed.
        """
        self._overrides = overrides or config.Overrides()
        self._note = note
        self._site_of = site_of
        self._run_errand = run_errand
        self._wake = wake
        # By authority: the URL on the same site to which its robots.txt redirects, and the number
        # of redirects so far.
        self._moved: dict[str, tuple[str, int]] = {}
        # By URL of a file on another site: the authorities that wait for the file, each with the
        # number of redirects so far.
        self._waiting: dict[str, dict[str, int]] = {}
        self._far: set[str] = set()  # all authorities in `_waiting`
        # By authority: the rules that an errand has fetched, and the time of the request.
        self._answers: dict[str, tuple[Rules, float]] = {}
        self._robots = robots
        self._fetcher = fetcher
        self._clock = clock
        self._tally = tally
        self._faults = faults or Faults()
        self._keep = keep
        # By authority, or by URL if an errand has fetched the file. Expired rules are kept: they
        # count until the file can be fetched again.
        self._cache = RobotsCache(max_bytes=max_bytes, keeps_expired=True)
        self._asking: dict[str, asyncio.Future[Rules]] = {}
        self._serial_reader = SerialReader(stopping)
        # By URL: the verdict of large rules on it. The cache may have dropped the rules when the
        # URL is due again. Without the verdict, robots.txt would be requested again and again.
        self._decided = RobotsCache(_DECIDED)

    def nbytes(self) -> int:
        """About how many bytes of memory the rules take that are kept."""
        return self._cache.bytes + self._decided.bytes

    def facts(self, site: str, address: str) -> list[RobotsFacts]:
        """Return what is known of the robots.txt files of a site, for the user.

        `address`: a URL of the site whose permission is told, or empty.
        """
        facts = []
        kept, wanted = self._cache.kept(), url.authority(address) if address else ""
        for name in sorted({wanted, *kept} - {""}):
            # A file that an errand has fetched is kept by its URL.
            if name != url.authority(f"{name}/") or self._site_of(f"{name}/") != site:
                continue
            rules = kept.get(name)
            if not self._obeys(name):
                facts.append(RobotsFacts(name, obeyed=False))
            elif rules is not None:
                allowed, line = rules.decide(address) if name == wanted else (None, None)
                why, delay_s = rules.unreachable or "", rules.crawl_delay or 0.0
                facts.append(RobotsFacts(name, why, delay_s, allowed, line or ""))
        return facts

    def known(self, authority: str) -> Rules | None:
        """Return the rules of an authority that `rules` would return at once, without a request.

        Returns None if no rules are kept.
        """
        if not self._obeys(authority):
            return _ALL_ALLOWED
        return self._cache.get(authority, self._clock.now())

    def must_ask(self, authority: str) -> bool:
        """Whether `rules` would make a request now."""
        if authority in self._asking or not self._obeys(authority):
            return False
        if authority in self._far or authority in self._answers:
            return False
        return self._cache.get(authority, self._clock.now()) is None

    def _obeys(self, authority: str) -> bool:
        obeys = self._overrides.of(url.site(authority)).robots
        return self._robots.obey if obeys is None else obeys

    def awaits(self, authority: str) -> bool:
        """Whether an authority waits for a file of another site."""
        return authority in self._far

    def decided(self, address: str) -> Rules | None:
        """Return the verdict of large rules on a URL, as rules; None if none is remembered."""
        return self._decided.get(address, self._clock.now())

    def decide(self, address: str, rules: Rules, *, allowed: bool) -> None:
        """Remember the verdict of large rules on a URL."""
        verdict = Rules(crawl_delay=rules.crawl_delay) if allowed else _ALL_DENIED
        self._decided.put(address, verdict, self._clock.now())

    async def rules(self, authority: str) -> tuple[Rules, bool]:
        """Return the rules of an authority, and whether this call made a request for them.

        Instead of rules, MOVED_ON or ELSEWHERE may be returned.
        """
        rules = self.known(authority)
        if rules is not None:
            return rules, False
        asked = self._asking.get(authority)
        if asked is not None:
            return await asyncio.shield(asked), False
        if authority in self._far:
            return ELSEWHERE, False
        # No task of its own makes the request: it must start now, as `Core.begin` was told.
        asked = self._asking[authority] = asyncio.get_running_loop().create_future()
        try:
            rules = await self._ask(authority)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                asked.cancel()
            else:
                asked.set_exception(error)
                asked.exception()  # marks the exception as retrieved; maybe nobody waits for it
            raise
        asked.set_result(rules)
        return rules, True

    def spoil(self, authority: str) -> Rules:
        """Allow nothing at an authority, because reading code failed on its robots.txt."""
        rules = Rules.deny_all(Failure.INTERNAL)
        self._cache.put(authority, rules, self._clock.now())
        return rules

    async def _fetch(self, authority: str) -> tuple[Rules, float]:
        """Make the next request for the rules of an authority, unless an errand has fetched them.

        Returns the rules, and the time of the request.
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
        """Make one request for a robots.txt. Returns rules, or the URL to which it redirects."""
        responses = _LatestResponse(self._fetcher)
        try:
            found = await ask_for_robots(
                responses, address, self._robots.agent, self._serial_reader
            )
        except MovedError:
            raise
        except ReadingStoppedError:
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
        """Note how a redirect of a robots.txt is followed, or the rules if the file is known.

        Following it takes another request. The next visit makes a request to the same site; an
        errand makes a request to another site.
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
        """Make the request of an errand, for a file that sites wait for. Returns the rules.

        If the rules are unreachable, the errand must be tried again. If the file redirects, the
        result allows everything: this errand is over, and other requests follow the redirect. The
        result is MOVED_ON if the crawl stops before the file is read.
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
            if rules.unreachable is Failure.INTERNAL:  # another request would give the same
                return self.spoil(authority)
            if not rules.unreachable:  # otherwise the next visit asks again
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
# The next visit to the site must make another request: its robots.txt redirects within the site, or
# the crawl stopped before the file was read.
MOVED_ON = Rules.deny_all(Failure.ROBOTS_UNREACHABLE)
# The robots.txt redirects to another site, and its own site waits for the file there.
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
