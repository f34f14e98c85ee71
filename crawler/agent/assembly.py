"""Makes the parts of an agent, as the plan describes them."""

import resource
import time
from collections.abc import Callable

from crawler import config, session
from crawler.agent.planning import Plan
from crawler.agent.stores import Stores
from crawler.core.budget import Budget
from crawler.core.core import Core
from crawler.core.order import order_of
from crawler.core.ownership import Ownership
from crawler.core.schemes import make_scheme, place_parts
from crawler.faults import Faults
from crawler.modes import mode_of
from crawler.net import MAX_IDLE_CONNECTIONS
from crawler.ports import Response, Spill, Transport, UserError
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.reader import make_scope
from crawler.reading.scope import Scope
from crawler.reading.traps import TrapMonitor

_FILES = 64  # other open files of a rank: of Python, of the MPI, and of the crawler


def allow_files(settings: config.Config, logs: int) -> None:
    """Raise this process's limit of open files as far as the system allows.

    Each connection is a file, also one that is idle. `logs` is the number of log files of earlier
    runs; all are open during a replay. Raises UserError if the limit is too low for the crawl.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    needed = _FILES + logs + MAX_IDLE_CONNECTIONS + settings.fetch.concurrency
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"a process may have {hard} files open (ulimit -Hn); this crawl needs {needed} a rank:"
            f" raise the limit, or lower fetch.concurrency = {settings.fetch.concurrency}"
        )


def scope_of(plan: Plan) -> Scope:
    """Return the scope of the crawl, with the sites that joined it in earlier runs."""
    scope = make_scope(plan.settings, plan.seeds, time.gmtime().tm_year)
    scope.restore_joined(one.site for one in plan.joined)
    return scope


def make_core(
    plan: Plan,
    transport: Transport,
    scope: Scope,
    scores: session.EarlierScores | None,
    spill: Spill,
    declared: DeclaredSitemaps,
    jars: Jars,
    faults: Faults,
    traps: TrapMonitor,
    stores: Stores,
) -> Core:
    """Return the core of a rank. `scores`: of the previous session's pages, for the ordering."""
    settings = plan.settings
    scheme = make_scheme(settings, transport.size, plan.kept_sites)
    ownership = Ownership(
        transport.rank,
        scheme,
        place_parts(scheme, transport.size),
        settings.assignment.unlisted,
        mode_of(settings),
    )
    budget = Budget(settings.seen.memory)
    stores.register(budget)
    order = order_of(settings, scores.find) if scores else order_of(settings)
    core = Core(
        settings,
        transport.size,
        ownership,
        scope.sites,
        stores.seen,
        order,
        spill,
        declared,
        jars,
        faults,
        traps,
        sent=stores.sent,
        budget=budget,
        note_seed=scope.add_seed,
    )
    if plan.paused:
        core.halt.begin_paused()
    return core


def open_store(
    plan: Plan,
    rank: int,
    keeps: Callable[[Response], bool],
    faults: Faults,
    manners: session.Manners,
) -> session.RankStore:
    """Return the repository of a rank. `keeps` says whether a page is of a kind that is stored."""
    settings = plan.settings
    return session.RankStore(
        plan.directory,
        rank,
        settings.storage,
        user_agent=settings.fetch.user_agent_header,
        obeys_robots=settings.robots.obey
        and all(site.robots is not False for site in settings.sites),
        keeps=keeps,
        faults=faults,
        manners=manners,
    )
