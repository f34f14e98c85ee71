"""Says what a session knows of a URL or of a site: the command `ask`, and a box of the dashboard.

What was fetched stands in the logs. While a crawl runs, its ranks also say what they have in memory
(`session.questions`): whether the URL waits, and when its site may be asked next.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from crawler import session, url
from crawler.commandline import printable
from crawler.messages import Answer, Question, RobotsFacts, SiteFacts, UrlState
from crawler.pages.words import duration, short_url, size
from crawler.ports import MEANINGS, Failure, PageRow, UserError
from crawler.reading.scope import Sites
from crawler.session import Answers, State

_PATIENCE_S: Final = 10.0  # rank 0 looks for questions each second, and waits 3 s for the others
_ANSWERING: Final = frozenset((State.CRAWLING, State.PAUSED, State.STOPPING))
_SHOWN: Final = 5  # hosts that are named
# What each phase of a site means (`core.visits.Phase`), if more than its clock decides.
_PHASES: Final[Mapping[str, str]] = {
    "parked": "after other sites at its IP address",
    "busy": "once the request that is under way has ended",
    "away": "once another rank has lent its clock",
    "held": "once a robots.txt at another site is known",
}


@dataclass(frozen=True)
class Found:
    """What a session knows. `url` is empty if the question was about a site."""

    session: str
    site: str
    url: str
    rows: list[PageRow]  # of the URL, or of the site; the oldest first
    reason: str  # why the crawl has ended; empty while it runs
    skipped: str  # why a known URL wasn't fetched, if the report says so
    state: State | None  # of the crawl, unless it has ended; None if that is unknown
    answers: Answers | None  # of the ranks; None: they weren't asked, or gave no answer

    @property
    def by_rank(self) -> dict[int, Answer]:
        """The answers of the ranks, by rank."""
        return {} if self.answers is None else dict(sorted(self.answers.by_rank.items()))

    @property
    def is_known(self) -> bool:
        """Whether the session knows anything of it."""
        states = {one.state for one in self.by_rank.values()} - {UrlState.UNKNOWN, UrlState.UNTOLD}
        knows_site = not self.url and any(one.site for one in self.by_rank.values())
        return bool(self.rows or self.skipped or states or knows_site)


def ask(directory: Path, text: str) -> Found:
    """Return what a session knows of a URL, or of a site such as `www.example.org`.

    Raises UserError if there is no such session, or if the text is neither.
    """
    info = session.load(directory)
    sites = Sites(info.config.assignment.site)
    site, address = _parse(text, sites)
    fold = info.config.normalise.folding()
    if address and fold:
        address = fold(address)
    state = _state_of(directory) if info.last.ended is None else None
    answers = None
    if state in _ANSWERING:
        answers = session.ask_ranks(directory, Question(0, site, address), _PATIENCE_S)
    # The logs come last: what has just been fetched is there, whatever its rank said before.
    with session.mistakes_told(str(directory)):
        rows = (
            session.rows_of_url(directory, address)
            if address
            else session.rows_of_site(directory, site)
        )
        skipped = "" if rows or not address else _skipped(directory, address)
    return Found(
        str(directory),
        site,
        address,
        rows,
        info.last.reason or "" if info.last.ended else "",
        skipped,
        state,
        answers,
    )


def _parse(text: str, sites: Sites) -> tuple[str, str]:
    """Return the site, and the URL or an empty text. Raises UserError."""
    try:
        if "://" in text:
            address = url.normalise(text)
            return sites.of(address), address
        if not set(text) & set("/?# "):
            return sites.of(url.normalise(f"http://{text}/")), ""
    except url.BadUrlError:
        pass
    raise UserError(
        f"{url.without_login(text)!r} is neither a URL with http:// or https:// nor a site like"
        " www.example.org"
    )


def _state_of(directory: Path) -> State | None:
    try:
        return session.read_status(directory).state
    except UserError:  # an old session has no status
        return None


def _skipped(directory: Path, address: str) -> str:
    """Return why a known URL wasn't fetched, by the report of a crawl that has ended."""
    path = directory / "report" / "skipped.jsonl"
    if not path.exists():
        return ""
    wanted = msgspec.json.encode(address)
    with path.open("rb") as file:
        for line in file:
            if wanted in line:
                row: dict[str, str] = msgspec.json.decode(line)
                if row["url"] == address:
                    return row["reason"]
    return ""


# --- in words ---------------------------------------------------------------------------------


def as_json(found: Found) -> dict[str, Any]:
    """Return what was found as an object for programs. Ranks are named by the text of a number."""
    return {
        "session": found.session,
        "url": found.url or None,
        "site": found.site,
        "known": found.is_known,
        "ended": found.reason or None,
        "skipped": found.skipped or None,
        "rows": [msgspec.structs.asdict(row) for row in found.rows] if found.url else None,
        "fetched": _sums(found.rows),
        "ranks": None if found.answers is None else found.answers.ranks,
        "answers": {str(rank): _plain(one) for rank, one in found.by_rank.items()},
        "says": says(found),
    }


def _sums(rows: Iterable[PageRow]) -> dict[str, int]:
    rows = list(rows)
    return {
        "urls": len(rows),
        "errors": sum(row.error is not None for row in rows),
        "bytes": sum(row.bytes for row in rows),
    }


def _plain(answer: Answer) -> dict[str, Any]:
    site = answer.site
    return {
        "state": answer.state.value,
        "owner": answer.owner,
        "site": None if site is None else msgspec.structs.asdict(site),
        "robots": [msgspec.structs.asdict(one) for one in answer.robots],
    }


def says(found: Found) -> list[tuple[str, str]]:
    """Return what was found for people, as pairs of a word and what it says."""
    lines = [*(_of_url(found) if found.url else _of_site(found))]
    if found.answers is not None:
        silent = sorted(set(range(found.answers.ranks)) - found.answers.by_rank.keys())
        if silent:
            named = ", ".join(map(str, silent[:_SHOWN])) + (", ..." if silent[_SHOWN:] else "")
            lines.append(("no answer", f"from rank {named}; ask again"))
    elif not found.reason:
        doing = "unknown" if found.state is None else found.state.value
        lines.append(("no answer", f"from the ranks; state of the crawl: {doing}"))
    else:
        lines.append(("crawl", f"ended: {found.reason}"))
    return [(word, printable(said)) for word, said in lines]


def _of_url(found: Found) -> Iterator[tuple[str, str]]:
    yield "URL", found.url
    yield "state", _state(found)
    if found.rows:
        yield "rank", str(found.rows[-1].rank)
        yield from _of_row(found, found.rows[-1])
    elif owners := _owners(found.by_rank):
        yield "owner", "each rank that finds it" if len(owners) > 1 else f"rank {owners.pop()}"
    for facts in _robots(found):
        if facts.allowed is not None and not facts.unreachable:
            line = f": {facts.line}" if facts.line else ""
            yield "allowed", ("yes, by robots.txt" if facts.allowed else "not by robots.txt") + line
    yield "site", found.site
    yield from _of_queue(found)


def _owners(by_rank: Mapping[int, Answer]) -> set[int]:
    """The ranks that own the URL. Only independent ranks own the same URL.

    The owner knows best: under dynamic assignment, the others may still name the server.
    """
    named = {rank: one.owner for rank, one in by_rank.items() if one.owner is not None}
    return {rank for rank, owner in named.items() if owner == rank} or set(named.values())


def _state(found: Found) -> str:
    ranks: dict[UrlState, list[int]] = {}
    for rank, one in found.by_rank.items():
        ranks.setdefault(one.state, []).append(rank)
    at = {state: _ranks(some) for state, some in ranks.items()}
    if UrlState.UNDER_WAY in at:
        return f"being fetched by {at[UrlState.UNDER_WAY]}"
    if found.rows:
        row = found.rows[-1]
        what = f"status {row.status}" if row.status is not None else "no response"
        error = "" if row.error is None else f", {row.error}: {_meaning(row.error)}"
        return f"{'fetched' if row.status is not None else 'dealt with'}: {what}{error}"
    if UrlState.HANDED_OUT in at:
        return f"handed to a client by the seed server at {at[UrlState.HANDED_OUT]}"
    if UrlState.MET in at:
        return f"waits at {at[UrlState.MET]}"
    if UrlState.LEAVING in at:
        return f"about to be sent to its owner by {at[UrlState.LEAVING]}"
    if UrlState.CLAIMED in at:
        return f"held by {at[UrlState.CLAIMED]}, until the owner of its site is known"
    if found.skipped:
        return f"known, and not fetched: {found.skipped}"
    if UrlState.UNTOLD in at:
        return "not fetched; whether it waits isn't known: seen.store answers late"
    if found.answers is None and not found.reason:
        return "not fetched so far"
    return "unknown: nothing has led to it"


def _meaning(error: str) -> str:
    return MEANINGS[Failure(error)] if error in MEANINGS else "an error of a later version"


def _of_row(found: Found, row: PageRow) -> Iterator[tuple[str, str]]:
    tries = f", {row.retries} tries before" if row.retries else ""
    yield "when", f"{_time(row.time)}, for {row.seconds:.2f} s{tries}"
    if row.status is not None:
        same = ", known content" if row.duplicate else ""
        yield (
            "content",
            f"{size(row.bytes)}, {row.media_type or row.content_type or 'no type'}{same}",
        )
    if row.digest:
        yield "digest", row.digest
    yield "hops", f"{row.hops} from a seed"
    where = f"{found.session}/rank-{row.rank:05}/{row.warc_file}"
    yield "stored", "no" if row.warc_file is None else f"{where} at byte {row.warc_offset:,}"
    if len(found.rows) > 1:
        yield "earlier", f"{len(found.rows) - 1} times, first {_time(found.rows[0].time)}"


def _of_site(found: Found) -> Iterator[tuple[str, str]]:
    yield "site", found.site
    if not found.is_known:
        yield "state", "unknown: no URL of it has been met"
    yield from _of_queue(found)
    if found.rows:
        sums = _sums(found.rows)
        ranks = sorted({row.rank for row in found.rows})
        seconds = sum(row.seconds for row in found.rows) / len(found.rows)
        yield (
            "fetched",
            f"{sums['urls']:,} URLs by {_ranks(ranks)}, {sums['errors']:,} with an error,"
            f" {size(sums['bytes'])}, {seconds:.2f} s each",
        )
        latest = found.rows[-1]
        yield "latest", f"{_time(latest.time)}: {short_url(latest.url, 100)}"


def _of_queue(found: Found) -> Iterator[tuple[str, str]]:
    """Say what the ranks have in memory of the site."""
    here = {rank: one.site for rank, one in found.by_rank.items() if one.site is not None}
    for rank, facts in here.items():
        many = f"{facts.waiting:,} URLs wait at rank {rank}, {facts.under_way} under way"
        if not facts.phase and not facts.failures:  # a seed server
            place = "at no client" if facts.client is None else f"at client {facts.client}"
            yield "queue", f"{facts.waiting:,} URLs wait at server {rank}; the site is {place}"
        elif facts.phase:
            yield "queue", many
            yield "next", _next(facts)
    delays = [facts for facts in here.values() if facts.phase]
    if delays:
        delay_s, most = max(one.delay_s for one in delays), max(one.connections for one in delays)
        yield "delay", f"{delay_s:g} s between requests, {most} at a time"
        homes = {one.clock_home for one in delays} - {None}
        if homes and (found.answers is None or found.answers.ranks > 1):
            yield "clock", f"shared by ranks, lent by rank {homes.pop()}"
    yield from _failing(here.values())
    yield from _rules(found)


def _next(facts: SiteFacts) -> str:
    if not facts.waiting:
        return "no URL waits"
    if facts.phase in _PHASES:
        return _PHASES[facts.phase]
    return "now" if facts.wait_s <= 0 else f"in {duration(facts.wait_s)}"


def _failing(here: Iterable[SiteFacts]) -> Iterator[tuple[str, str]]:
    failures: dict[str, int] = {}
    given_up: set[str] = set()
    for facts in here:
        given_up.update(facts.given_up)
        for name, count in facts.failures.items():
            failures[name] = max(count, failures.get(name, 0))
    for name, count in sorted(failures.items())[:_SHOWN]:
        what = "given up: it is asked no more" if name in given_up else "it rests longer each time"
        yield "back-off", f"{name} has failed {count} times in a row; {what}"


def _robots(found: Found) -> list[RobotsFacts]:
    """What the ranks know of robots.txt files, once for each authority. A read file counts."""
    by_name: dict[str, RobotsFacts] = {}
    for one in found.by_rank.values():
        for facts in one.robots:
            before = by_name.get(facts.authority)
            if before is None or (before.unreachable and not facts.unreachable):
                by_name[facts.authority] = facts
    return sorted(by_name.values(), key=lambda facts: facts.authority)


def _rules(found: Found) -> Iterator[tuple[str, str]]:
    known = _robots(found)
    for facts in known[:_SHOWN]:
        if not facts.obeyed:
            said = "isn't obeyed"
        elif facts.unreachable:
            said = f"can't be had: {_meaning(facts.unreachable)}"
        elif facts.crawl_delay_s:
            said = f"known, with Crawl-delay {facts.crawl_delay_s:g}"
        else:
            said = "known"
        yield "robots.txt", f"of {facts.authority}: {said}"
    if not known and found.answers is not None:
        yield "robots.txt", "not known now"


def _ranks(some: list[int]) -> str:
    named = ", ".join(map(str, some[:_SHOWN])) + (", ..." if some[_SHOWN:] else "")
    return f"rank {named}" if len(some) == 1 else f"ranks {named}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
