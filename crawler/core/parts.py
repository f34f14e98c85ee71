"""The parts of a core that several others of its parts work with."""

from typing import Final

from crawler import config
from crawler.core.budget import Budget
from crawler.core.clocks import SharedClocks
from crawler.core.door import Door
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.core.quota import Quota
from crawler.core.seen import LateSeen, MemorySeen, UrlSeen
from crawler.core.trap_rules import TrapRules
from crawler.core.workbench import Workbench
from crawler.faults import Faults
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Sites
from crawler.reading.traps import TrapMonitor

# Of the memory budget.
_WAITING_SHARE: Final = 3 / 8
_ASIDE_SHARE: Final = 1 / 8


class Parts:
    """Makes the parts, and holds them for `Core`, `Resumption` and the roles."""

    def __init__(
        self,
        settings: config.Config,
        ranks: int,
        ownership: Ownership,
        sites: Sites,
        seen: UrlSeen | LateSeen,
        sent: UrlSeen | None,
        bench: Workbench,
        declared: DeclaredSitemaps | None,
        jars: Jars | None,
        faults: Faults | None,
        traps: TrapMonitor | None,
        budget: Budget | None,
    ) -> None:
        """`sent`, `declared`, `jars`, `faults`, `traps` and `budget`: new objects if None."""
        self.ownership = ownership
        self.sites = sites
        self.seen = seen
        self.bench = bench
        self.declared = DeclaredSitemaps() if declared is None else declared
        self.jars = Jars() if jars is None else jars
        self.faults = faults or Faults()
        self.traps = traps or TrapMonitor(settings.traps, settings.overrides())
        self.rules = TrapRules(self.traps, self.faults)
        self.outboxes = Outboxes(ranks, settings.exchange)
        self.quota = Quota(settings.session.max_pages, ownership.rank, ranks, self.outboxes)
        self.clocks: SharedClocks | None = None
        if bench.sharing is not None:
            self.clocks = SharedClocks(ownership.rank, bench.sharing, self.outboxes)
        self.door = Door(
            settings,
            ranks,
            ownership,
            sites,
            seen,
            MemorySeen() if sent is None else sent,
            bench,
            self.traps,
            self.outboxes,
            self.clocks,
            self.declared,
            self.jars,
            self.rules,
        )
        self.budget = Budget() if budget is None else budget
        self._register()

    def _register(self) -> None:
        """Register what grows with the URLs and sites of a crawl. The stores are registered."""
        add, bench = self.budget.add, self.bench
        add("waiting", bench.backlog.nbytes, bench.backlog.give, _WAITING_SHARE)
        add("sites", bench.states.nbytes)
        add("failures", bench.failures.nbytes)
        add("traps", self.traps.nbytes)
        add("sitemaps", self.declared.nbytes)
        add("cookies", self.jars.nbytes)
        add("names", self.sites.nbytes)
        foreign = self.door.foreign
        add("pairs", foreign.nbytes)
        add("aside", foreign.deferred.nbytes, foreign.deferred.give, _ASIDE_SHARE)
        add("outboxes", self.outboxes.nbytes)
        add("owners", lambda: self.ownership.nbytes() + self.door.claims.nbytes())
        if self.clocks is not None:
            add("clocks", self.clocks.nbytes)
