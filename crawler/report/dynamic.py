"""What the report says about dynamic assignment: who was what, and what the servers handed out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crawler import config

_COUNTS: Final = ("handed", "returned", "urls_up", "urls_down")


def idle_servers(settings: config.Config, pages: Sequence[int]) -> list[int]:
    """The ranks that were servers in the latest run, and have fetched nothing in any run.

    They don't count in the imbalance. `pages`: how many each rank has fetched.
    """
    if settings.assignment.scheme != "dynamic":
        return []
    servers = len(settings.dynamic.servers)
    return [rank for rank, count in enumerate(pages[:servers]) if not count]


def dynamic_metrics(
    settings: config.Config, ranks: int, counted: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The field `dynamic` of the metrics, or None in another scheme.

    `ranks`: their number in the latest run. `counted`: the counts of each rank in each run.
    """
    if settings.assignment.scheme != "dynamic":
        return None
    dynamic = settings.dynamic
    counts = [one["dynamic"] for one in counted if one.get("dynamic") is not None]
    known = counts and len(counts) == len(counted)  # a lost rank has left no counts
    return {
        "granularity": dynamic.granularity,
        "follow": dynamic.follow,
        "servers": list(range(len(dynamic.servers))),
        "clients": list(range(len(dynamic.servers), ranks)),
        **{name: sum(one[name] for one in counts) if known else None for name in _COUNTS},
        "series": [
            {"rank": int(client), "points": list(_points(samples))}
            for one in counts
            for client, samples in one["clients"].items()
        ],
    }


def _points(samples: Sequence[Sequence[float]]) -> Iterator[dict[str, float]]:
    """The samples of a client, with its rate since the sample before."""
    before, pages_before = None, 0.0
    for time, connections, pages, seeds in samples:
        if before is not None and time > before:
            rate = (pages - pages_before) / (time - before)
            yield {
                "time": time,
                "connections": connections,
                "pages_per_second": rate,
                "seeds": seeds,
            }
        before, pages_before = time, pages


def sent_to(counted: Sequence[Mapping[str, Any]], name: str) -> dict[str, int] | None:
    """How much a rank has sent to each other rank: `mpi_messages_to`, or `urls_to`.

    None if that isn't known. `counted`: its counts in each run.
    """
    if not counted or any(name not in one for one in counted):
        return None
    return dict(sum((Counter(one[name]) for one in counted), Counter[str]()))


def dynamic_lines(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a person reads about the servers, as names and texts."""
    facts = metrics.get("dynamic")
    if facts is None:
        return []
    ranks = metrics["ranks"]
    pairs = sum(len(one["mpi_messages_to"] or ()) for one in ranks)
    all_pairs = len(ranks) * (len(ranks) - 1)
    if facts["handed"] is None:
        moved = "what they handed out is unknown"
    else:
        moved = (
            f"{facts['handed']:,} URLs handed out, {facts['returned']:,} given back;"
            f" {facts['urls_up']:,} URLs up, {facts['urls_down']:,} down"
        )
    servers = ", ".join(map(str, facts["servers"]))
    return [
        (
            "dynamic",
            f"granularity {facts['granularity']}, follow {facts['follow']}; servers: rank"
            f" {servers}; clients: {len(facts['clients'])}",
        ),
        ("served", f"{moved}; MPI messages between {pairs} of {all_pairs} pairs of ranks"),
    ]
