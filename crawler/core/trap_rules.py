"""The rules on traps, as the core asks them.

The rules read URLs that anybody may write. If a rule fails on a URL, that is a fault (`faults`),
and the rules have nothing against this URL.
"""

from crawler.faults import Faults
from crawler.ports import CrawlUrl, Failure, Link
from crawler.reading.traps import TrapMonitor

_WHAT = "the rules on traps"


class TrapRules:
    """Guards each question to a TrapMonitor.

    `on`: whether any rule is on. `poor`: while it is empty, `is_poor` is False for every URL.
    """

    def __init__(self, traps: TrapMonitor, faults: Faults) -> None:
        self.on = traps.rules
        self.poor = traps.poor
        self._traps = traps
        self._faults = faults

    def welcome(self, url: str) -> None:
        """Note a seed, so that no rule keeps its host out."""
        try:
            self._traps.welcome(url)
        except BaseException as error:
            self._faults.note(error, _WHAT, url)

    def admits(self, found: CrawlUrl, source: CrawlUrl | None) -> bool:
        """Whether a new URL may be fetched. `source`: the page with the link, if known."""
        try:
            return self._traps.admit(_bare(found), source)
        except BaseException as error:
            self._faults.note(error, _WHAT, found.url)
            return True

    def grows(self, found: Link, source: CrawlUrl) -> bool:
        """Whether a link must not be sent to the server of its URL. `source`: its page."""
        try:
            return self._traps.grows(found, source)
        except BaseException as error:
            self._faults.note(error, _WHAT, found.url)
            return False

    def is_poor(self, found: CrawlUrl) -> bool:
        """Whether a URL has a low priority."""
        try:
            return self._traps.is_poor(found)
        except BaseException as error:
            self._faults.note(error, _WHAT, found.url)
            return False

    def refusal(self, found: CrawlUrl) -> Failure | None:
        """Why a URL must not be requested after all, or None. An errand is not the site's page."""
        try:
            if self.on and not found.is_errand and self._traps.is_full(found.site):
                return Failure.SITE_FULL
            if self._traps.is_crowded(_bare(found)):
                return Failure.TOO_MANY_HOSTS
        except BaseException as error:
            self._faults.note(error, _WHAT, found.url)
        return None

    def refusal_at(self, found: CrawlUrl, address: str) -> Failure | None:
        """Why a URL must not be requested at the IP address of its host, or None."""
        try:
            if self._traps.is_crowded(_bare(found), address):
                return Failure.TOO_MANY_HOSTS
        except BaseException as error:
            self._faults.note(error, _WHAT, found.url)
        return None


def _bare(found: CrawlUrl) -> CrawlUrl:
    """The URL as the rules know it: that of a requisite without its mark."""
    return found._replace(url=found.address) if found.is_requisite else found
