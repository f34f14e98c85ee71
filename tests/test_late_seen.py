"""What a rank does while its store of URL-seen has not answered."""

import random

from cluster import Cluster, Listed, link, settings
from slow_seen import SlowSeen

from crawler.core.foreign import Origin
from crawler.core.schemes import SiteHash

A, B, C = (f"http://{name}.example/" for name in "abc")


def patient() -> SlowSeen:
    """A store that answers only in a hurry, and then within a second."""
    store = SlowSeen(random.Random(0), longest_s=1.0)
    store._patient = True
    return store


def wait(cluster: Cluster) -> None:
    """Let the stores answer that are in a hurry."""
    for _ in range(2):
        for rank in range(cluster.ranks):
            cluster.tick(rank)
        cluster.now += 1
    for rank in range(cluster.ranks):
        cluster.tick(rank)


def test_a_rank_is_not_done_while_its_store_has_not_answered() -> None:
    cluster = Cluster(SiteHash(1), 1, make_seen=patient)
    core = cluster.cores[0]
    cluster.start(A)
    assert not core.ended
    assert not core.complete
    assert core.waiting == 1
    assert core.resumption.state() is None
    assert core.next_time() is not None  # the rank is idle, so the store hurries
    wait(cluster)
    cluster.fetch(0, A, link(A), link(A))
    assert core.waiting == 2
    assert not core.ended
    wait(cluster)
    assert core.ended
    assert core.complete


def test_a_store_need_not_hurry_while_there_is_something_to_fetch() -> None:
    cluster = Cluster(SiteHash(1), 1, make_seen=patient)
    core = cluster.cores[0]
    cluster.start(A, B)
    wait(cluster)
    assert cluster.acquire(0) in {A, B}
    cluster.end(0, [link(C)])
    assert core.next_time() is None
    wait(cluster)
    assert core.waiting == 2
    assert core.door.pending == 1
    assert cluster.acquire(0) in {A, B}
    cluster.end(0)
    wait(cluster)
    cluster.fetch(0, C)
    assert core.complete


def test_a_store_hurries_if_all_sites_with_waiting_urls_must_rest() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("politeness.delay_s=60"), make_seen=patient)
    core = cluster.cores[0]
    cluster.start(A, A + "1")
    wait(cluster)
    assert cluster.acquire(0) in {A, A + "1"}
    cluster.end(0, [link(B)])
    assert core.waiting == 2  # one of them may be asked only after a minute
    wait(cluster)
    assert cluster.now < 60
    assert cluster.acquire(0) == B
    # A visit under way is no reason to wait: the rank could make many at a time.
    core.door.admit([link(C)], Origin(None, 0), cluster.now)
    wait(cluster)
    assert cluster.acquire(0) == C


def test_a_store_need_not_hurry_if_no_connection_is_free() -> None:
    limits = settings("politeness.delay_s=60", "fetch.concurrency=1")
    cluster = Cluster(SiteHash(1), 1, limits, make_seen=patient)
    core = cluster.cores[0]
    cluster.start(A)
    wait(cluster)
    assert cluster.acquire(0) == A
    core.door.admit([link(B)], Origin(None, 0), cluster.now)
    wait(cluster)
    assert core.door.pending == 1
    cluster.end(0)
    wait(cluster)
    cluster.fetch(0, B)
    assert core.complete


def test_page_quota_is_kept_for_what_the_store_may_find_new() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("session.max_pages=3"), make_seen=patient)
    core = cluster.cores[0]
    cluster.start(A)
    wait(cluster)
    assert cluster.acquire(0) == A
    held = core._quota.left
    cluster.end(0, [link(B)])
    assert core._quota.left == held
    wait(cluster)
    cluster.fetch(0, B)
    assert core.complete


def test_every_link_counts_that_came_before_the_answer() -> None:
    """Of two pages of A, one has a link of A's. The other has a link of A's, and two of B's."""
    scheme = Listed(2, {"a.example": 0, "b.example": 1})
    cluster = Cluster(scheme, 2, settings("frontier.order=backlinks"), make_seen=patient)
    core = cluster.cores[0]
    cluster.start(A, B)
    wait(cluster)
    cluster.fetch(0, A, link(f"{A}1"), link(f"{A}2"))
    cluster.fetch(1, B, link(f"{A}2"), link(f"{A}2"))
    cluster.settle()
    assert core.door.pending == 3  # one of them with two links
    wait(cluster)
    assert core.waiting == 2
    cluster.fetch(0, f"{A}2")
    cluster.fetch(0, f"{A}1")
    wait(cluster)
    cluster.settle()
    assert cluster.complete
    assert cluster.ended
