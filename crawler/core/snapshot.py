"""The knowledge of a rank's core at the end of a run, as plain values.

A resume can read it instead of the logs, which takes longer.
"""

import msgspec


class CoreSnapshot(msgspec.Struct, array_like=True):
    """The knowledge of one core.

    Packed numbers are little-endian: keys and hashes are u64, counts i64, scores f64. `urls`,
    `hops` and `scores` describe the waiting URLs, in the same order. `chains` holds the redirects
    that led to a URL, by the URL's index. The last `deferred` URLs are set aside (cross-over).
    """

    seen: bytes  # keys of URLs that this rank has met and takes care of
    sent: bytes  # keys of URLs that this rank has sent to their owners, or leaves to other ranks
    urls: list[str]
    hops: list[int]
    scores: bytes
    order: list[float]  # the state of the order of the frontier
    deferred: int
    chains: dict[int, tuple[int, ...]]
    traps: list[tuple[bytes, bytes]]  # the tables of traps.TrapMonitor: hashes, counts
    given: dict[str, int]  # the ranks of the sites that this rank gave away as their registrar
    learned: dict[str, int]  # the parts of unlisted sites
    failures: dict[str, int]  # failures in a row, by authority
    pages: int = 0  # pages with a response, in the logs that this rank has read or written
    # The authorities whose robots.txt named a sitemap, by the key of the sitemap.
    declared_by: dict[int, str | tuple[str, ...]] = {}
    # The stores whose keys are in files, and not in `seen` or `sent`: what `agent.stores` needs.
    stores: dict[str, tuple[int, bytes]] = {}
    contents: tuple[list[str], bytes, bytes] = ([], b"", b"")  # ContentSeen
