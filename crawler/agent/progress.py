"""What a rank counts while a crawl runs."""

from collections import Counter, deque

from crawler.agent.site_tally import SiteTally
from crawler.messages import Trouble
from crawler.ports import MEANINGS, REQUISITE, Failure, PageRow
from crawler.report.outcomes import failure_of

_TROUBLES = 5  # the latest URLs that gave no page, of those that no note has told


class Tally:
    """Counts what this rank fetches."""

    def __init__(self) -> None:
        self.pages = 0  # responses
        self.requisites = 0  # responses for requisites; all counts below but two leave them out
        self.bytes = 0
        self.requests = 0  # for pages and for robots.txt files
        self.errors = 0
        self.good = 0  # responses of success, and redirects
        self.statuses: list[int] = [0] * 5  # responses by class, from 1xx
        self.by_failure: Counter[str] = Counter()  # rows that aren't good
        self.sites = SiteTally()
        self.troubles: deque[Trouble] = deque(maxlen=_TROUBLES)

    def add(self, row: PageRow, detail: str = "") -> None:
        """Count a row that has been stored. `detail`: more about its failure."""
        status = row.status
        if row.role == REQUISITE:
            self.requisites += status is not None
            self.requests += status is not None
            self.bytes += row.bytes
            return
        if status is not None:
            self.pages += 1
            self.requests += 1
            self.bytes += row.bytes
            self.sites.add(row.site, row.bytes, row.seconds)
            if 100 <= status < 600:
                self.statuses[status // 100 - 1] += 1
        if row.error is not None:
            self.errors += 1
        what = failure_of(status, row.error)
        if what is None:
            self.good += 1
            return
        why = detail or ("" if row.error is None else MEANINGS[Failure(row.error)])
        self.by_failure[what] += 1
        self.troubles.append(Trouble(row.time, row.url, what, why))

    def take_troubles(self) -> list[Trouble]:
        """Return the latest URLs that gave no page, since the last call."""
        troubles = list(self.troubles)
        self.troubles.clear()
        return troubles
