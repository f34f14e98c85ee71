"""Gives URLs that have the same key different keys, at the end of a run (`seen.exact`).

During the run, a key stands for a URL everywhere. So of two URLs with the same key, one was perhaps
never fetched. But the logs have the texts of both. After all ranks have closed their logs, they
find such URLs together:

1. Each rank reads some of the logs, and makes pairs of a key and a second hash of the same URL.
2. The rank `key mod ranks` gets all pairs of a key. If they differ, several URLs have the key.
3. Each rank looks up the texts of these URLs in its logs. Rank 0 lets one URL keep the key, and
   writes the others to a file of the session.

In the next run these others have keys of their own (`url.tell_apart`). That run begins as any
resume does that reads the logs, so it fetches what is still to be fetched. docs/decisions/keys.md
has the reasons.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from crawler import session
from crawler.ports import Group

_STEP = 100  # entries read in one step, in a few milliseconds


async def tell_apart(directory: Path, starts: Sequence[str], group: Group) -> int:
    """Have URLs that share a key give it up, all but one of each key. Returns their number.

    All ranks call this together, when no rank writes a log. `starts`: the URLs that the session
    starts with; it is enough if one rank names them. Raises NoRoomError or OSError.
    """
    files = session.log_sizes(directory) if group.rank == 0 else []
    logs = session.shares(await group.bcast(files), group.size)[group.rank]
    shared = await _shared_keys(logs, starts, group)
    if not shared:
        return 0
    sharers = session.Sharers(shared)
    sharers.add_urls(starts)
    await _read(logs, sharers)
    found: session.Found = {}
    for some in await group.gather(sharers.found):
        for pair, what in some.items():
            found[pair] = max(what, found.get(pair, what))
    losers = session.those_that_give_up(found)
    if group.rank == 0:
        session.give_up(directory, losers)
    return len(await group.bcast(losers))


async def _read(logs: Sequence[Path], reader: session.SecondHashes | session.Sharers) -> None:
    """Give the entries of logs to a reader, in steps."""
    for path in logs:
        for number, entry in enumerate(session.read_log(path)):
            reader.add(entry)
            if number % _STEP == 0:
                await asyncio.sleep(0)


async def _shared_keys(logs: Sequence[Path], starts: Sequence[str], group: Group) -> list[int]:
    """Return the keys that several URLs have, whichever ranks read their logs."""
    hashes = session.SecondHashes()
    hashes.add_urls(starts)
    await _read(logs, hashes)
    pairs = hashes.pairs()
    answerer = (pairs[0] % np.uint64(group.size)).astype(np.intp)
    asked = [pairs[:, answerer == rank] for rank in range(group.size)]
    del hashes, pairs, answerer  # they may be large
    given = await group.alltoall(asked)
    mine = session.shared_among(session.different(given))
    return [key for some in await group.alltoall([mine] * group.size) for key in some]
