"""How many bytes DRUM and VEUNIQ read and write, by the cost models of the VEUNIQ paper.

The paper is Henrique, Ziviani and others, *A New Approach for Verifying URL Uniqueness in Web
Crawlers*. Equations 1 and 2 are of its section 4 (DRUM; equation 15 of Lee and others, *IRLbot*),
equation 3 is of section 5 (VEUNIQ). All results are overheads: bytes read and written for each
byte of the n URLs that are checked. Seeks and CPU time are in none of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from math import log
from typing import Final, NamedTuple


@dataclass(frozen=True)
class Load:
    """The URLs that are checked. The names in brackets are those of the paper's table 1."""

    links: float  # [n] URLs to check
    known: float  # [U] distinct URLs in the store at the start
    url_bytes: float  # [b] mean length of a URL
    new_share: float  # [p] share of the links whose URL is new


@dataclass(frozen=True)
class Memory:
    """The memory of the two stores, in bytes. The names in brackets are those of table 1."""

    total: float  # [R] for the check of uniqueness
    file_buffer: float = 256_000  # [M] for each open file
    pointer: float = 4  # [P]
    hash: float = 8  # [H] one record of DRUM's repository


# --- DRUM -------------------------------------------------------------------------------------


def drum_overhead(load: Load, hash_bytes: float, bucket_bytes: float) -> float:
    """Return the overhead of DRUM if all buckets are merged whenever they hold `bucket_bytes`.

    This is equation 1, with `bucket_bytes` for its k r: the key/value records in all k buckets.
    """
    repository = 2 * load.known * hash_bytes + load.new_share * hash_bytes * load.links
    merges = repository * hash_bytes / (load.url_bytes * bucket_bytes)
    return merges + 2 + load.new_share + 2 * hash_bytes / load.url_bytes


def drum_overhead_in(load: Load, memory: Memory, disk_bytes: float) -> float:
    """Return the overhead of DRUM with so much memory, and `disk_bytes` [D] for its buckets.

    This is equation 2. If memory is scarce, it limits the size of the buckets, and otherwise the
    disk does.
    """
    hash_bytes, url_bytes = memory.hash, load.url_bytes
    entry, record = hash_bytes + memory.pointer, hash_bytes + url_bytes
    repository = 2 * load.known * hash_bytes + load.new_share * hash_bytes * load.links
    if memory.total**2 < 8 * memory.file_buffer * disk_bytes * entry / record:
        merges = 8 * memory.file_buffer * entry * repository / (url_bytes * memory.total**2)
    else:
        merges = record * repository / (url_bytes * disk_bytes)
    return merges + 2 + load.new_share + 2 * hash_bytes / url_bytes


def recommended_disk(memory: Memory, url_bytes: float) -> float:
    """Return the bytes of disk [D] beyond which DRUM gains nothing (end of section 4)."""
    entry = memory.hash + memory.pointer
    return memory.total**2 * (memory.hash + url_bytes) / (8 * memory.file_buffer * entry)


def recommended_buckets(memory: Memory) -> float:
    """Return the recommended number of buckets [k] of DRUM (end of section 4)."""
    return memory.total / (4 * memory.file_buffer)


# --- VEUNIQ -----------------------------------------------------------------------------------


def veuniq_overhead(load: Load, memory: Memory, repositories: float, cross_share: float) -> float:
    """Return the overhead of VEUNIQ with N `repositories`. This is equation 3.

    `cross_share` [beta]: the share of links that don't belong to the repository at hand. A
    repository needs n (b + P) / (N R) cycles, and the equation is a sum over whole cycles. It
    doesn't hold if there is less than one cycle for each repository.
    """
    url_bytes, pointer = load.url_bytes, memory.pointer
    entry = url_bytes + pointer
    merged = entry * load.links * load.new_share + 2 * url_bytes * load.known
    crossing = 2 * repositories * memory.total * cross_share
    return entry * (merged + crossing) / (url_bytes * repositories * memory.total)


# --- table 2 ----------------------------------------------------------------------------------

GIB: Final = 2**30
# The share of cross links isn't in the paper's text. With this share, all cells come out.
TABLE_2_CROSS_SHARE: Final = 0.3
_BILLIONS: Final = (0.3, 3, 30, 300, 3000)
_GIBS: Final = (2, 4, 8, 16)


class Cell(NamedTuple):
    """A pair of cells of table 2: the overheads of both stores, as printed."""

    links: float
    memory_gib: int
    repositories: int
    drum: str
    veuniq: str


def table_2() -> Iterator[Cell]:
    """Give the cells of the paper's table 2, row by row.

    The number of repositories starts with DRUM's number of buckets. From the third row on, it grows
    from row to row by 1 + ln of the growth of n since the second row.
    """
    growth = 1.0
    for row, billions in enumerate(_BILLIONS):
        growth *= 1 + log(10) * max(0, row - 1)
        load = Load(billions * 1e9, known=1e9, url_bytes=110, new_share=1 / 9)
        for gib in _GIBS:
            memory = Memory(gib * GIB)
            repositories = recommended_buckets(memory) * growth
            disk = recommended_disk(memory, load.url_bytes)
            yield Cell(
                load.links,
                gib,
                round(repositories),
                as_printed(drum_overhead_in(load, memory, disk)),
                as_printed(veuniq_overhead(load, memory, repositories, TABLE_2_CROSS_SHARE)),
            )


def as_printed(value: float) -> str:
    """Round as the paper's table did: to three decimals first, and then half up to two."""
    three = Decimal(value).quantize(Decimal("0.001"), ROUND_HALF_UP)
    return str(three.quantize(Decimal("0.01"), ROUND_HALF_UP))
