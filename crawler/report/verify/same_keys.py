"""Checks for URLs that have the same key. A crawl takes them for one (docs/decisions/keys.md)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from crawler import session
from crawler.ports import Peers
from crawler.report.verify.asked import split
from crawler.report.verify.findings import Findings
from crawler.session import SessionInfo


async def check_keys(
    hashes: Iterable[session.SecondHashes],
    logs: Sequence[Path],
    info: SessionInfo,
    peers: Peers,
    findings: Findings,
) -> None:
    """Note the URLs that have the same key as another URL, on the first process.

    They are a problem if the session is complete and `seen.exact` is set. `hashes` and `logs`:
    those of this process.
    """
    pairs = session.different([one.pairs() for one in hashes])
    given = await peers.alltoall([pairs[:, its] for its in split(pairs[0], peers)])
    shared = session.shared_among(session.different(given))
    sharers = session.Sharers(chain(*await session.everywhere(peers, shared)))
    for path in logs if sharers.shared else ():
        for entry in session.read_log(path):
            sharers.add(entry)
    texts = defaultdict[int, list[str]](list)
    for key, text in sorted(set(chain(*await peers.gather(list(sharers.found))))):
        texts[key].append(text)
    for key, some in texts.items():
        who, what = " and ".join(some), f"have the key {key:016x}"
        if not info.config.seen.exact:
            findings.note(who, f"{what}, so at most one of them was fetched")
        elif info.last.complete:
            findings.add("key", who, f"{what}, although seen.exact is set")
        else:
            findings.note(who, f"{what}; the end of a resume gives them different keys")
