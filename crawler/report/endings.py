"""What became of the seeds, and why a crawl has fetched nothing.

These functions get logged pages and return values and texts, without I/O. `report` stores and
shows them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from crawler import url
from crawler.ports import OUT_OF_SCOPE, REDIRECT, PageRow
from crawler.report.explanations import OUTSIDE, explained
from crawler.session import LoggedPage

FOLLOWED: Final = "its site joined the scope"
NOT_FETCHED: Final = "nothing fetched"  # the reason that a session without any page ends with
_LISTED: Final = 1000  # redirected seeds in metrics.json at most, and failed ones
_SHOWN: Final = 10  # redirected seeds in a summary at most, and failed ones
_MOST_HOPS: Final = 20  # more than a chain of redirects has


def is_success(row: PageRow) -> bool:
    """Whether a row is a success: status 2xx, or 304 for a page that hasn't changed."""
    return row.status is not None and (200 <= row.status < 300 or row.status == 304)


class SeedEnd(NamedTuple):
    """A seed that didn't end at a page of its scope."""

    seed: str
    url: str  # the seed itself, or the URL at which its redirects end
    what: str  # FOLLOWED, OUTSIDE, an error class, or "status 404"


class _Stop(NamedTuple):
    """One URL in the chain of redirects that begins at a seed."""

    url: str
    site: str
    what: str  # the failure, or empty for a page and for a redirect to `target`
    target: int | None = None  # key of the URL that this one redirects to
    outside: str = ""  # the target's URL, if it is out of scope


class SeedTrail:
    """Follows the seeds through the logs of a session: `add` each page, then ask for `ends`."""

    def __init__(self, seeds: Sequence[str], joined: Collection[str]) -> None:
        """`joined`: the sites that seeds' redirects have brought into the scope."""
        self._seeds = {url.own_key(seed): seed for seed in map(url.of_seed, seeds)}
        self._joined = joined
        self.stops: dict[int, _Stop] = {}  # by key of the URL; other processes have others

    def add(self, page: LoggedPage) -> None:
        """Take note of a page, if it is in the chain of redirects of a seed."""
        row = page.row
        root = page.chain[0] if page.chain else row.key
        if root not in self._seeds:
            return
        target, outside, what = None, "", ""
        if page.flags and page.flags[0] & REDIRECT and not page.is_loop:
            target = int(page.keys[0])
            if page.flags[0] & OUT_OF_SCOPE:
                outside = page.urls[0]
        elif not is_success(row):
            what = row.error or f"status {row.status}"
        if page.chain or target is not None or what:  # most seeds are plain pages: keep nothing
            self.stops[row.key] = _Stop(row.url, row.site, what, target, outside)

    def ends(self) -> list[SeedEnd]:
        """The seeds that didn't simply end at a page in scope, in the order of the seeds."""
        ends = (self._end(key, seed) for key, seed in self._seeds.items())
        return [end for end in ends if end is not None]

    def _end(self, key: int, seed: str) -> SeedEnd | None:
        stop = self.stops.get(key)
        for _ in range(_MOST_HOPS):
            if stop is None:
                return None
            if stop.outside:
                return SeedEnd(seed, stop.outside, OUTSIDE)
            if stop.target is None:
                break
            stop = self.stops.get(stop.target)
        assert stop is not None
        if stop.what:
            return SeedEnd(seed, stop.url, stop.what)
        return SeedEnd(seed, stop.url, FOLLOWED) if stop.site in self._joined else None


def seed_metrics(count: int, ends: Sequence[SeedEnd]) -> dict[str, object]:
    """The part of metrics.json about seeds."""
    elsewhere = [end for end in ends if end.what in {FOLLOWED, OUTSIDE}]
    failed = [end for end in ends if end.what not in {FOLLOWED, OUTSIDE}]
    return {
        "seeds": count,
        "seeds_redirected": len(elsewhere),
        "seeds_failed": len(failed),
        "redirected_seeds": [end._asdict() for end in elsewhere[:_LISTED]],
        "failed_seeds": [end._asdict() for end in failed[:_LISTED]],
    }


def seed_lines(metrics: Mapping[str, Any]) -> list[str]:
    """The seeds that didn't end at a page of their site, as lines for a person."""
    elsewhere, failed = metrics["redirected_seeds"], metrics["failed_seeds"]
    lines = []
    if elsewhere or failed:
        lines.append(
            f"{metrics['seeds']:,} seeds, of them {metrics['seeds_redirected']:,} redirected to"
            f" another site, {metrics['seeds_failed']:,} failed"
        )
    lines += [
        f"  {end['seed']} redirects to {end['url']}: {end['what']}" for end in elsewhere[:_SHOWN]
    ]
    for end in failed[:_SHOWN]:
        where = "" if end["url"] == end["seed"] else f" redirects to {end['url']}"
        lines.append(f"  {end['seed']}{where}: {end['what']}")
    return lines


# --- a crawl that has fetched nothing ---------------------------------------------------------


def causes(metrics: dict[str, object]) -> list[str]:
    """Why a session has fetched nothing: one line for each cause, which ends with what to do."""
    ends = [end for end in _listed(metrics, "redirected_seeds") if end["what"] == OUTSIDE]
    ends += _listed(metrics, "failed_seeds")
    grouped: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for end in ends:
        grouped[end["what"]].append(end)
    lines = []
    for what, group in grouped.items():
        first = group[0]
        way = "" if first["url"] == first["seed"] else f", which redirects to {first['url']}"
        more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
        lines.append(f"{what}: {first['seed']}{way}{more}: {explained(what)}")
    waiting = metrics["waiting"]
    if waiting:
        lines.append(
            f"max_pages: {waiting:,} URLs are still waiting: resume the session with a larger"
            " max_pages"
        )
    dropped = metrics.get("dropped_links")
    if dropped and not lines:
        lines.append(
            f"{dropped:,} links led to other ranks, and this session.mode drops such links: use"
            " session.mode = exchange"
        )
    return lines or ["the frontier was empty: check the seeds and [scope]"]


def _listed(metrics: dict[str, object], name: str) -> list[dict[str, str]]:
    ends = metrics[name]
    assert isinstance(ends, list)
    return ends
