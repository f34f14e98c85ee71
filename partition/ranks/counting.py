"""Counts the cost of an assignment of units to parts, from the links that the ranks hold.

The counts are those of `partition.evaluate`. Each rank counts what its own links give. Pairs that
links of several ranks may have are routed first, so that one rank has all links of a pair.
"""

import numpy as np

from crawler.ports import Peers
from partition import evaluate
from partition.arrays import Ids, Ints, distinct
from partition.evaluate import Evaluation
from partition.hypergraph import part_loads
from partition.ranks.exchange import Columns, by_owner, joined, routed
from partition.ranks.linking import Links
from partition.ranks.reading import Distinct, Held


async def count(
    held: Held, links: Links, weights: Ints, part: Ids, parts: int, peers: Peers
) -> Evaluation | None:
    """Return the counts at rank 0, and None elsewhere.

    `weights`: of the units. `part`: of each unit.
    """
    source, target, length = links.source, links.target, links.lengths
    site = held.site[source]
    sender, receiver = part[links.source_unit], part[links.target_unit]
    across = np.flatnonzero(sender != receiver)
    source, site, target, length = source[across], site[across], target[across], length[across]
    sender, receiver = sender[across], receiver[across]
    of_sites = await _distinct((site, receiver), 2, peers)
    sent = await _distinct((target, sender, length), 2, peers)
    counts = (
        len(distinct(source.astype(np.int64) * parts + receiver)),
        len(of_sites[0]),
        len(sent[0]),
        int(sent[2].sum(dtype=np.int64)),
        int(length.sum(dtype=np.int64)),
        len(across),
    )
    of_ranks = await peers.gather(counts)
    if not of_ranks:
        return None
    messages, site_messages, sent_urls, sent_bytes, volume, crossing = map(
        sum, zip(*of_ranks, strict=True)
    )
    loads = part_loads(weights, part, parts)
    imbalance_bytes, imbalance_requests = evaluate.imbalance(loads)
    return Evaluation(
        messages_page_part=messages,
        messages_site_part=site_messages,
        transmissions_target_part=sent_urls,
        transmission_bytes=sent_bytes,
        volume_bytes=volume,
        inter_part_links=crossing,
        imbalance_bytes=imbalance_bytes,
        imbalance_requests=imbalance_requests,
        loads=loads,
    )


async def _distinct(rows: Columns, key_columns: int, peers: Peers) -> Columns:
    """Return the distinct rows whose first column, a key, belongs to this rank."""
    kinds = [column.dtype for column in rows]
    own, held = Distinct(key_columns, *kinds), Distinct(key_columns, *kinds)
    own.add(*rows)
    async for received in routed(peers, by_owner(own.rows(), peers)):
        held.add(*joined(received))
    return held.rows()
