"""What the core of a rank knows at the end of a run, as plain values: a shortcut past its logs."""

import msgspec


class CoreSnapshot(msgspec.Struct, array_like=True):
    """Numbers are packed, little-endian: keys and hashes as u64, counts as i64, scores as f64.

    The lists of URLs belong together: those that wait, each with its hops and its score, and by its
    index the redirects that led to it. The last `deferred` of them are set aside (cross-over).
    """

    seen: bytes  # keys of URLs that this rank has met and takes care of
    sent: bytes  # keys of URLs that it has sent to their owners, or leaves to other ranks
    urls: list[str]
    hops: list[int]
    scores: bytes
    order: list[float]  # of the frontier: its state
    deferred: int
    chains: dict[int, tuple[int, ...]]
    traps: list[tuple[bytes, bytes]]  # each a table of traps.TrapMonitor: hashes, counts
    given: dict[str, int]  # by this rank as registrar: sites and their ranks
    learned: dict[str, int]  # unlisted sites and their parts
    failures: dict[str, int]  # in a row, by authority
    pages: int = 0  # with a response, in the logs that this rank has read or written
    # By key of a sitemap: the authorities whose robots.txt named it.
    declared_by: dict[int, str | tuple[str, ...]] = {}
    contents: tuple[list[str], bytes, bytes] = ([], b"", b"")  # ContentSeen
