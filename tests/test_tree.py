"""What travels along the tree of seed servers beside URLs: notes, and who declares a sitemap."""

import pytest
from cluster import Cluster, link, settings
from dynamics import KINDS

from crawler.core.schemes import make_scheme
from crawler.messages import Note, Relay

A, B, C = "http://a.example", "http://b.example", "http://c.example"
RANKS = 7  # rank 0 is above the servers 1 and 2; ranks 3 and 5 are below 1, ranks 4 and 6 below 2


def tree_of(kind: tuple[str, str], *more: str) -> Cluster:
    words = [f"dynamic.granularity={kind[0]}", f"dynamic.follow={kind[1]}"]
    chosen = settings("assignment.scheme=dynamic", "dynamic.servers=[0, 0, 0]", *words, *more)
    return Cluster(make_scheme(chosen, RANKS), RANKS, chosen)


def visit(cluster: Cluster, address: str) -> int:
    """Begin the visit to a URL; the client that makes it."""
    cluster.settle()
    for rank in range(3, RANKS):
        if cluster.acquire(rank) == address:
            return rank
    raise AssertionError(f"nobody visits {address}")


def test_a_note_reaches_rank_0_by_the_servers_between() -> None:
    cluster = tree_of(KINDS[0])
    note = Note(7, 0, 0, 0, ["a warning"])
    hop, message = cluster.cores[5].address(0, note)
    assert (hop, message) == (1, Relay(5, 0, note))
    assert cluster.cores[1].received(5, message, 0) is None
    [(hop, message)] = [one for one in cluster.cores[1].tick(0) if isinstance(one[1], Relay)]
    assert hop == 0
    assert cluster.cores[0].received(1, message, 0) == (5, note)
    assert cluster.cores[1].address(0, note) == (0, note)


@pytest.mark.parametrize("kind", KINDS)
def test_who_fetches_a_sitemap_hears_of_all_that_declare_it(kind: tuple[str, str]) -> None:
    """Also if it was a plain link when it was handed out."""
    cluster = tree_of(kind)
    cluster.start(f"{A}/")
    sitemap = link(f"{B}/sitemap.xml")
    first = visit(cluster, f"{A}/")
    cluster.end(first, [sitemap])
    cluster.settle()
    for rank, authority in ((first, A), (3, C), (4, C)):
        cluster.declared[rank].declare(sitemap.key, (authority,))
        cluster.cores[rank].door.introduce([sitemap], cluster.now)
        cluster.tick(rank)
    reader = visit(cluster, sitemap.url)
    assert cluster.declared[reader].authorities(sitemap.key) == (A, C)
    cluster.end(reader)
    cluster.settle()
    assert cluster.ended


@pytest.mark.parametrize("kind", KINDS)
def test_links_to_replicated_urls_are_not_sent(kind: tuple[str, str]) -> None:
    """Whoever takes care of such a URL has it from the start, as in other schemes."""
    popular = link(f"{B}/")
    cluster = tree_of(kind)
    for core in cluster.cores:
        core.start([link(f"{A}/")], cluster.now, [popular])
    for rank in range(RANKS):
        cluster.tick(rank)
    first = visit(cluster, f"{A}/")
    cluster.end(first, [popular])
    assert not any(batch.urls or batch.known for _, _, batch in cluster.batches())
    if not any(cluster.visits):
        visit(cluster, popular.url)
    cluster.end(next(rank for rank in range(RANKS) if cluster.visits[rank]))
    cluster.settle()
    assert cluster.ended
