"""What may become of a URL and of a site, with all heaps kept in order.

A URL is visited, or handed out, or it waits: in the heap of its site, or in a list of URLs that
were put back and come before the heap. A site is in the heap of its pool if one of its URLs waits
and fewer than `per_site` are handed out.
"""

from crawler.compiled import compiled
from crawler.core.registry.heap import below, cut, meld, without
from crawler.core.registry.records import ABSENT, BACK, FINAL, NONE, OUT, SITE, Records


@compiled
def is_in_heap(node: Records) -> bool:  # pragma: no cover - compiled
    """Whether a URL is in the heap of its site, or a site in that of its pool."""
    return bool(node.previous < ABSENT or node.previous == NONE)  # type: ignore[attr-defined]


@compiled
def place(
    urls: Records, sites: Records, pools: Records, per_site: int, site: int
) -> None:  # pragma: no cover - compiled
    """Put a site where it belongs, after its first URL or the number of its URLs out changed."""
    first = sites[site].back
    if first == NONE:
        first = sites[site].root
    fits = first != NONE and sites[site].out < per_site
    pool = sites[site].pool
    if is_in_heap(sites[site]):
        if fits:
            score = urls[first].score
            if first == sites[site].row and score == sites[site].score:
                return
            if score > sites[site].score or (
                score == sites[site].score and first < sites[site].row
            ):
                sites[site].row = first
                sites[site].score = score
                if pools[pool].root != site:
                    cut(sites, site)
                    pools[pool].root = meld(sites, sites, pools[pool].root, site)
                return
        pools[pool].root = without(sites, sites, pools[pool].root, site)
        pools[pool].sites -= 1
        sites[site].previous = ABSENT
    if fits:
        sites[site].row = first
        sites[site].score = urls[first].score
        sites[site].child = NONE
        sites[site].sibling = NONE
        sites[site].previous = NONE
        pools[pool].root = meld(sites, sites, pools[pool].root, site)
        pools[pool].sites += 1


@compiled
def tell_waiting(
    sites: Records, pools: Records, site: int, change: int
) -> None:  # pragma: no cover - compiled
    """Count URLs of a site that wait now, or that no longer wait."""
    sites[site].waiting += change
    pools[sites[site].pool].waiting += change


@compiled
def wait(
    urls: Records, sites: Records, pools: Records, per_site: int, row: int
) -> None:  # pragma: no cover - compiled
    """Put a URL that is in no heap into the heap of its site."""
    site = urls[row].site & SITE
    urls[row].child = NONE
    urls[row].sibling = NONE
    urls[row].previous = NONE
    sites[site].root = meld(urls, None, sites[site].root, row)
    tell_waiting(sites, pools, site, 1)
    place(urls, sites, pools, per_site, site)


@compiled
def rise(
    urls: Records, sites: Records, pools: Records, per_site: int, row: int, amount: float
) -> None:  # pragma: no cover - compiled
    """Add to the score of a URL if it waits in a heap and its score isn't final.

    The amount may be negative (OPIC: a page with many links, and less cash than others).
    """
    if urls[row].site & FINAL or not is_in_heap(urls[row]):
        return
    site = urls[row].site
    if amount < 0:
        sites[site].root = without(urls, None, sites[site].root, row)
        urls[row].child = NONE
        urls[row].sibling = NONE
        urls[row].previous = NONE
        urls[row].score += amount
        sites[site].root = meld(urls, None, sites[site].root, row)
        place(urls, sites, pools, per_site, site)
        return
    urls[row].score += amount
    if row != sites[site].root:
        cut(urls, row)
        sites[site].root = meld(urls, None, sites[site].root, row)
    if row == sites[site].root:
        place(urls, sites, pools, per_site, site)


@compiled
def hand_out(
    urls: Records, sites: Records, pools: Records, per_site: int, pool: int
) -> int:  # pragma: no cover - compiled
    """Hand out the best URL of a pool. Returns its row, or -1 if none may be handed out."""
    site = pools[pool].root
    if site == NONE:
        return -1
    row = sites[site].row
    if urls[row].previous == BACK:
        sites[site].back = urls[row].sibling
    else:
        sites[site].root = below(urls, None, row)
    urls[row].previous = OUT
    tell_waiting(sites, pools, site, -1)
    sites[site].out += 1
    place(urls, sites, pools, per_site, site)
    return int(row)


@compiled
def end(
    urls: Records, sites: Records, pools: Records, per_site: int, row: int
) -> None:  # pragma: no cover - compiled
    """Let a URL that is handed out be visited."""
    site = urls[row].site & SITE
    urls[row].previous = ABSENT
    sites[site].out -= 1
    place(urls, sites, pools, per_site, site)


@compiled
def put_back(
    urls: Records, sites: Records, pools: Records, per_site: int, row: int
) -> None:  # pragma: no cover - compiled
    """Let a URL that is handed out wait before all others of its site."""
    site = urls[row].site & SITE
    urls[row].previous = BACK
    urls[row].sibling = sites[site].back
    sites[site].back = row
    sites[site].out -= 1
    tell_waiting(sites, pools, site, 1)
    place(urls, sites, pools, per_site, site)


@compiled
def withdraw(
    urls: Records, sites: Records, pools: Records, per_site: int, row: int
) -> None:  # pragma: no cover - compiled
    """Let a URL that waits be visited."""
    site = urls[row].site & SITE
    if urls[row].previous != BACK:
        sites[site].root = without(urls, None, sites[site].root, row)
    elif sites[site].back == row:
        sites[site].back = urls[row].sibling
    else:
        after = sites[site].back
        while urls[after].sibling != row:
            after = urls[after].sibling
        urls[after].sibling = urls[row].sibling
    urls[row].previous = ABSENT
    tell_waiting(sites, pools, site, -1)
    place(urls, sites, pools, per_site, site)


@compiled
def move(
    urls: Records, sites: Records, pools: Records, per_site: int, site: int, pool: int
) -> None:  # pragma: no cover - compiled
    """Move a site to another pool."""
    old = sites[site].pool
    if is_in_heap(sites[site]):
        pools[old].root = without(sites, sites, pools[old].root, site)
        pools[old].sites -= 1
        sites[site].previous = ABSENT
    pools[old].waiting -= sites[site].waiting
    pools[pool].waiting += sites[site].waiting
    sites[site].pool = pool
    place(urls, sites, pools, per_site, site)
