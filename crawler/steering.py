"""Steers a crawl from outside, by orders in its session directory (`session.orders`).

Each function gives one order, and returns a line that tells the user what will happen. It raises
UserError if the order makes no sense. A running crawl obeys within a second or so.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from crawler import session, url
from crawler.ports import UserError
from crawler.reading.reader import make_scope


def stop(directory: Path) -> str:
    """Have the crawl stop in good order."""
    info = session.load(directory)
    if info.last.ended is not None:
        return _has_ended(directory, info)
    session.ask_to_stop(directory)
    grace_s = info.config.session.stop_grace
    return f"{directory} is stopping: fetches under way get {grace_s:g} s to end"


def pause(directory: Path) -> str:
    """Have no rank begin a fetch, until `go_on`. This holds for a resume, too."""
    info = session.load(directory)
    if info.last.ended is not None:
        return _has_ended(directory, info)
    session.pause(directory)
    return (
        f"{directory} pauses: fetches under way end, and no other begins; go on with it:"
        f" python -m crawler continue {directory}"
    )


def go_on(directory: Path) -> str:
    """End a pause."""
    info = session.load(directory)
    if not session.go_on(directory):
        return f"{directory} isn't paused"
    if info.last.ended is not None:
        return f"{directory} isn't paused any more; {_resume(directory)}"
    return f"{directory} goes on"


def add_seeds(directory: Path, seeds: Sequence[str], file: Path | None) -> str:
    """Give the crawl further seeds: URLs, or those in a file with one seed a line."""
    info = session.load(directory)
    settings = info.config
    more = {"seeds": tuple(seeds), "seeds_file": "" if file is None else str(file)}
    named = settings.session.replace(**more)
    new = session.read_seeds(settings.replace(session=named))
    if not new:
        raise UserError("no seeds: name URLs, or a file of URLs by --file")
    before, year = session.seeds(directory), time.gmtime().tm_year
    scope = make_scope(settings, [*before, *new], year)
    # While a crawl runs, only whole sites can join its scope.
    fixed = info.last.ended is None and settings.scope.of_seeds != "site"
    present = make_scope(settings, before, year)
    for seed in new:
        if fixed and not present.judge(url.of_seed(seed)).allowed:
            raise UserError(
                f"seed {seed}: scope.of_seeds = {settings.scope.of_seeds!r} can't grow while the"
                " session is being crawled; stop it, add the seed, and resume it"
            )
        verdict = scope.judge(url.of_seed(seed))
        if not verdict.allowed:
            raise UserError(
                f"seed {seed}: out of scope ({verdict.rule}); the [scope] of a session that is"
                " being crawled can't change"
            )
    session.add_seeds(directory, new)
    count = f"{len(new):,} seed" + ("s" if len(new) > 1 else "")
    if info.last.ended is not None:
        return f"{directory}: {count} added; {_resume(directory)}"
    return f"{directory}: {count} added; if the crawl ends before it takes them, resume it"


def add_client(directory: Path) -> str:
    """Have a spare rank come to a crawl with dynamic assignment."""
    info = _led(directory)
    if info.last.ended is not None:
        return _has_ended(directory, info)
    spares = info.config.dynamic.spares
    if not spares:
        raise UserError(f"{directory}: has no spares; start the crawl with --spares N")
    session.order_client(directory)
    return f"{directory}: the next of {spares} spares comes; if all have come, none does"


def retire_client(directory: Path, rank: int) -> str:
    """Have a client leave a crawl with dynamic assignment."""
    info = _led(directory)
    if info.last.ended is not None:
        return _has_ended(directory, info)
    dynamic, ranks = info.config.dynamic, info.last.ranks
    if not len(dynamic.servers) <= rank < ranks:
        raise UserError(
            f"{directory}: rank {rank} is no client; clients are the ranks"
            f" {len(dynamic.servers)} to {ranks - 1}"
        )
    session.order_client(directory, rank)
    return f"{directory}: rank {rank} leaves, unless it is the last client of its server"


def _led(directory: Path) -> session.SessionInfo:
    """Return the description of a session that seed servers lead. Raises UserError for others."""
    info = session.load(directory)
    scheme = info.config.assignment.scheme
    if scheme != "dynamic":
        raise UserError(f"{directory}: assignment.scheme = {scheme!r}: only 'dynamic' has clients")
    return info


def _has_ended(directory: Path, info: session.SessionInfo) -> str:
    return f"{directory} has ended: {info.last.reason}"


def _resume(directory: Path) -> str:
    return f"resume the session: python -m crawler resume {directory}"
