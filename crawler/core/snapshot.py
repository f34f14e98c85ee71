"""The knowledge of a rank's core at the end of a run, as plain values.

A resume can read it instead of the logs, which takes longer. What grows with the URLs of a crawl
comes in pieces, so that neither writing nor reading needs memory for all of them.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec


class About(msgspec.Struct, array_like=True):
    """The knowledge of one core, but for its pieces.

    Packed numbers are little-endian: keys and hashes are u64, counts i64, scores f64.
    """

    order: list[float]  # the state of the order of the frontier
    traps: list[tuple[bytes, bytes]]  # the tables of traps.TrapMonitor: hashes, counts
    given: dict[str, int]  # the ranks of the sites that this rank gave away as their registrar
    learned: dict[str, int]  # the parts of unlisted sites
    failures: dict[str, int]  # failures in a row, by authority
    pages: int = 0  # pages with a response, in the logs that this rank has read or written
    # The authorities whose robots.txt named a sitemap, by the key of the sitemap.
    declared_by: dict[int, str | tuple[str, ...]] = {}
    # The stores whose keys are in files, and not in pieces: what `agent.stores` needs.
    stores: dict[str, tuple[int, bytes]] = {}
    contents: tuple[list[str], bytes, bytes] = ([], b"", b"")  # ContentSeen


class KeysPiece(msgspec.Struct, array_like=True, tag="keys"):
    """Some keys of a store."""

    # seen: URLs that this rank has met and takes care of; sent: those that it has sent to their
    # owners, or leaves to other ranks.
    store: Literal["seen", "sent"]
    keys: bytes


class WaitingPiece(msgspec.Struct, array_like=True, tag="waiting"):
    """Some waiting URLs, in their order. `chains`: the redirects that led to a URL, by its index.

    `deferred`: whether the URLs are set aside (cross-over).
    """

    urls: list[str]
    hops: list[int]
    scores: bytes
    chains: dict[int, tuple[int, ...]]
    deferred: bool


Piece = KeysPiece | WaitingPiece


class CoreSnapshot(msgspec.Struct):
    """The knowledge of one core. All pieces of keys come first. They can be read only once."""

    about: About
    pieces: Iterable[Piece]
