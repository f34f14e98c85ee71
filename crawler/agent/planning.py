"""The plan of a crawl, which rank 0 makes for all ranks.

Rank 0 checks the configuration, the files that it names, and whether the session may be crawled. So
mistakes of the user are found before the crawl begins.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from crawler import config, extensions, session, url
from crawler.agent.handlers import check_handlers
from crawler.core.order import order_of
from crawler.core.schemes import make_scheme, replicated_urls
from crawler.modes import mode_of
from crawler.names import NamePatterns
from crawler.ports import Group, UserError
from crawler.reading.reader import make_scope
from crawler.reading.scope import Sites
from crawler.report.correcting import correction_of
from crawler.report.counters import check_counters


class Plan(msgspec.Struct, frozen=True):
    """What all ranks know before a crawl."""

    settings: config.Config
    directory: Path
    seeds: Sequence[str]  # normalised
    snapshots: session.Snapshots  # for the ranks of this run
    run: int = 0  # the number of the run in the session
    logs: Sequence[Sequence[Path]] = ()  # files of earlier runs, by the rank that reads them
    judges_again: bool = False  # whether any earlier run had another scope
    # The logs whose pages are in the snapshots; None if the ranks can't begin with their snapshots.
    covered: frozenset[Path] | None = None
    retried: Sequence[str] = ()  # failures whose URLs are fetched again
    killed: bool = False  # whether the last run was killed; its last requests may not be logged
    replicated: Sequence[str] = ()  # URLs that all ranks know from the start
    joined: Sequence[session.Joined] = ()  # sites that joined the scope in earlier runs
    paused: bool = False  # whether the crawl begins no fetch until `crawler continue`
    kept_sites: Mapping[str, int] = {}  # the parts that sites must keep
    given_up: Sequence[tuple[int, str]] = ()  # URLs that have keys of their own (url.tell_apart)


def prepare(settings: config.Config, ranks: int) -> Plan:
    """Check the settings, and make and lock the session directory. Returns the plan.

    Raises UserError, for example if there are no seeds, if a seed is no URL or isn't in the scope,
    if a file is missing, if the part vector is for fewer ranks, if there is no contact, or if the
    directory holds a session.
    """
    seeds = session.read_seeds(settings)
    if not seeds:
        raise UserError(
            "no seeds: name URLs, or a file of URLs with -i FILE, or set session.seeds or"
            " session.seeds_file"
        )
    parts = _check(settings, seeds, ranks)
    directory = Path(settings.session.directory or time.strftime("session-%Y%m%d-%H%M%S"))
    replicated = _replicated(settings, ranks)
    session.make_directory(directory)
    with _locked(directory):
        session.create(directory, settings, ranks, parts, seeds)
        session.write_replicated(directory, replicated)
        snapshots = _snapshots(settings, ranks, directory)
    return Plan(settings, directory, seeds, snapshots, replicated=replicated)


async def plan_together(prepare: Callable[[int], Plan], group: Group) -> Plan | UserError:
    """Let rank 0 make the plan by `prepare(ranks)`. Returns it, or a mistake, on all ranks.

    All ranks learn of a mistake, so that all can leave without an abort.
    """
    plan: Plan | UserError | None = None
    if group.rank == 0:
        try:
            with session.mistakes_told():
                plan = prepare(group.size)
        except UserError as error:
            plan = error
    plan = await group.bcast(plan)
    assert plan is not None
    if isinstance(plan, UserError):
        return plan
    if plan.settings.named_plugins():
        told = await group.alltoall([_load_plugins(plan.settings, group)] * group.size)
        mistake = _plugin_mistake(told)
        if mistake is not None:
            if group.rank == 0:
                session.unlock_session(plan.directory)
            return UserError(f"{mistake}; mend it, then resume {plan.directory}")
    return await _with_popular(plan, group)


_Loaded = tuple[str, list[str], str]  # where; the packages of the plug-ins; a mistake, or nothing


def _load_plugins(settings: config.Config, group: Group) -> _Loaded:
    """Try whether this rank can use the plug-ins. Each rank loads them from its own machine."""
    where = f"rank {group.rank} on {socket.gethostname()}"
    packages = [
        f"{name} of {extensions.package_of(key, name)}" for key, name in settings.named_plugins()
    ]
    try:
        make_scope(settings, (), time.gmtime().tm_year)
        make_scheme(settings, group.size)
        order_of(settings)
        check_handlers(settings)
    except UserError as error:
        return where, packages, str(error)
    return where, packages, ""


def _plugin_mistake(told: Sequence[_Loaded]) -> str | None:
    """Return what keeps the ranks from using the same plug-ins, given what each has loaded."""
    _, expected, _ = told[0]
    for where, packages, mistake in told:
        if mistake:
            return f"{where}: {mistake}"
        for here, there in zip(packages, expected, strict=True):
            if here != there:
                return f"{where}: plug-in {here}; rank 0 has {there}: install the same on all hosts"
    return None


def prepare_again(
    directory: Path,
    settings: config.Config,
    ranks: int,
    patience_s: float = session.PATIENCE_S,
    retried: Sequence[str] = (),
) -> Plan:
    """Do the same as `prepare` for a further run of a session, which gets these settings.

    `retried`: failures whose URLs are fetched again (`session.failures_named`). Waits up to
    `patience_s` until all ranks of the last run have ended. Raises UserError also if a setting
    can't change within a session, or if the session is being crawled.
    """
    session.load(directory)  # raises before a lock file is made, if there is no session
    with _locked(directory, patience_s):
        return _plan_again(directory, settings, ranks, patience_s, retried)


@contextmanager
def _locked(directory: Path, patience_s: float = session.PATIENCE_S) -> Iterator[None]:
    """Take the session's lock for the crawl that follows. Give the lock back after an error."""
    session.lock_session(directory, session.CRAWLED, patience_s)
    try:
        session.check_layout(directory)
        yield
    except BaseException:
        session.unlock_session(directory)
        raise


def _plan_again(
    directory: Path,
    settings: config.Config,
    ranks: int,
    patience_s: float,
    retried: Sequence[str],
) -> Plan:
    info = session.load(directory)
    _check_plugins_again(directory, info, settings)
    _check_changes(directory, info, settings, ranks)
    _await_writers(directory, patience_s)
    check_counters(directory)
    added, _ = session.added_seeds(directory)
    seeds = [*session.seeds(directory), *added, *session.read_seeds(settings)]
    seeds = list(dict.fromkeys(seeds))
    parts = _check(settings, seeds, ranks)
    logs = session.log_sizes(directory)
    replicated = [*session.replicated(directory), *_replicated(settings, ranks)]
    replicated = list(dict.fromkeys(replicated))
    session.write_replicated(directory, replicated)
    resumed = session.resume(directory, settings, ranks, parts, seeds, retried)
    runs = resumed.runs
    snapshots = _snapshots(settings, ranks, directory)
    covered = None if retried else snapshots.covered(logs)
    if covered is None:  # this run begins without them, so later ones can't begin with them either
        snapshots.remove()
    return Plan(
        settings,
        directory,
        seeds,
        snapshots,
        len(runs) - 1,
        session.shares(logs, ranks),
        judges_again=len({run.scope for run in runs}) > 1,
        replicated=replicated,
        killed=info.last.ended is None,
        covered=covered,
        retried=retried,
        joined=session.joined(directory),
        paused=session.is_paused(directory),
        kept_sites=session.kept_sites(resumed, [log.path for log in logs]),
        given_up=session.given_up(directory),
    )


def _check_changes(
    directory: Path, info: session.SessionInfo, settings: config.Config, ranks: int
) -> None:
    """Raise UserError if a setting has changed that can't change, or the number of ranks has."""
    before, now = info.config, settings
    fixed: list[tuple[str, object, object]] = [
        ("[normalise]", before.normalise, now.normalise),
        ("assignment.site", before.assignment.site, now.assignment.site),
        ("session.mode", before.session.mode, now.session.mode),
    ]
    if mode_of(now).drops:  # a new owner would never learn of links that were found before
        fixed.append(("[assignment]", before.assignment, now.assignment))
    for name, old, new in fixed:
        if old != new:
            raise UserError(f"{directory}: {name} can't change within a session; start a new one")
    if not mode_of(now).may_change_ranks and info.last.ranks != ranks:
        raise UserError(
            f"{directory}: {ranks} ranks: session.mode = {now.session.mode!r} needs"
            f" {info.last.ranks}, as before"
        )


def _check_plugins_again(
    directory: Path, info: session.SessionInfo, settings: config.Config
) -> None:
    """Raise UserError if a plug-in with which the session was crawled isn't installed any more."""
    before = info.last.plugins or {}
    for key, name in settings.named_plugins():
        package = before.get(f"{key} {name}")
        if package and not extensions.package_of(key, name):
            raise UserError(
                f"{directory}: {key} = {name!r}: this plug-in isn't installed; the session was"
                f" crawled with it, of {package}: install it, or set another value by --set {key}"
            )


def _snapshots(settings: config.Config, ranks: int, directory: Path) -> session.Snapshots:
    """Return the snapshots of the session, with its present fingerprint."""
    fingerprint = session.fingerprint(directory, settings, ranks)
    return session.Snapshots(directory, ranks, fingerprint)


def _await_writers(directory: Path, patience_s: float) -> None:
    """Wait until no rank writes a log. After a kill, ranks may live longer than their mpirun."""
    deadline = time.monotonic() + patience_s
    while alive := [path for path in session.log_files(directory) if session.is_open(path)]:
        if time.monotonic() > deadline:
            raise UserError(
                f"{directory}: is being crawled: {alive[0]} is open; stop that crawl first"
                f" (python -m crawler stop {directory})"
            )
        time.sleep(0.1)


def _check(settings: config.Config, seeds: Sequence[str], ranks: int) -> int:
    """Check the settings and the files that they name. Returns the number of parts."""
    scope = make_scope(settings, seeds, time.gmtime().tm_year)
    _check_sites(settings, scope.sites)
    for seed in seeds:
        verdict = scope.judge(url.of_seed(seed))
        if not verdict.allowed:
            raise UserError(f"seed {seed}: out of scope ({verdict.rule}); [scope] must allow it")
    if settings.assignment.scheme == "dynamic" and settings.seen.store in {"drum", "veuniq"}:
        raise UserError(
            f"seen.store = {settings.seen.store!r}: with assignment.scheme = 'dynamic' the seed"
            " servers answer at once whether a URL is new; set seen.store = 'auto'"
        )
    scheme = make_scheme(settings, ranks)
    order = order_of(settings)
    if settings.session.checkpoint:
        _check_checkpoints(settings, order.state() is not None)
    check_handlers(settings)
    for file in settings.fetch.ca_files:
        if not Path(file).is_file():
            raise UserError(f"fetch.ca_files: {file}: no such file; PEM files are needed")
    if not (settings.fetch.contact or settings.fetch.allow_private_addresses):
        raise UserError(
            "fetch.contact = '': operators of sites must be able to reach you; give an e-mail"
            " address, or the address of a page about the crawl:"
            " --set fetch.contact=you@example.org"
        )
    if settings.session.previous:
        _check_previous(Path(settings.session.previous))
    elif settings.exchange.replicated:
        raise UserError(
            f"exchange.replicated = {settings.exchange.replicated} needs session.previous: the"
            " popular URLs are taken from that session"
        )
    return scheme.parts


def _check_checkpoints(settings: config.Config, order_is_kept: bool) -> None:
    """Raise UserError if a resume after a kill couldn't begin with snapshots."""
    reasons = {
        "assignment.scheme = 'dynamic'": settings.assignment.scheme == "dynamic",
        f"seen.store = {settings.seen.store!r}": settings.seen.store in {"drum", "veuniq"},
        f"frontier.order = {settings.frontier.order!r}": not order_is_kept,
        "exchange.remember = 'cache'": mode_of(settings).sends
        and settings.exchange.remember == "cache",
    }
    for reason, holds in reasons.items():
        if holds:
            raise UserError(
                f"session.checkpoint: with {reason}, a resume after a kill reads all logs, so"
                " checkpoints are of no use; set session.checkpoint = 0"
            )


def _check_sites(settings: config.Config, sites: Sites) -> None:
    """Raise UserError if a name in `[[sites]]` can't match a site, because sites are domains."""
    for number, table in enumerate(settings.sites, 1):
        for name in table.names if sites.are_domains else ():
            found = sites.of(f"http://{name.replace('*', 'any')}/")
            if not NamePatterns([[name]]).matching(found):
                raise UserError(
                    f"[[sites]] {number}: match = {name!r}: with assignment.site = 'domain' its"
                    f" site is {found!r}; give that name"
                )


def _replicated(settings: config.Config, ranks: int) -> list[str]:
    """Return the URLs that the part vector wants all ranks to know from the start."""
    if not mode_of(settings).divides:
        return []
    return _folded(replicated_urls(make_scheme(settings, ranks)), settings)


def _folded(urls: Sequence[str], settings: config.Config) -> list[str]:
    fold = settings.normalise.folding()
    return list(dict.fromkeys(map(fold, urls) if fold else urls))


async def _with_popular(plan: Plan, group: Group) -> Plan:
    """Add the most linked-to pages of the previous session to the URLs that all ranks know.

    The ranks find them together. A mistake ends the program.
    """
    settings = plan.settings
    if not (settings.exchange.replicated and mode_of(settings).divides):
        return plan
    try:
        with session.mistakes_told():
            previous, count = Path(settings.session.previous), settings.exchange.replicated
            correct = correction_of(previous, session.load(previous))
            urls = _folded(await session.most_linked(previous, count, group, correct), settings)
            if group.rank == 0 and not set(urls) <= set(plan.replicated):
                plan = _replicating(plan, urls, group.size)
    except BaseException:
        if group.rank == 0:
            session.unlock_session(plan.directory)
        raise
    return await group.bcast(plan)


def _replicating(plan: Plan, urls: Sequence[str], ranks: int) -> Plan:
    """Return the plan with more URLs that all ranks know, which the snapshots can't have known."""
    replicated = list(dict.fromkeys([*plan.replicated, *urls]))
    session.write_replicated(plan.directory, replicated)
    snapshots = _snapshots(plan.settings, ranks, plan.directory)
    snapshots.remove()
    return replace(plan, replicated=replicated, snapshots=snapshots, covered=None)


def _check_previous(directory: Path) -> None:
    try:
        session.load(directory)
        session.check_layout(directory)
        for path in session.log_files(directory):
            next(session.read_log(path), None)  # raises for a log of another version
    except UserError as error:
        raise UserError(f"session.previous: {error}") from None
