"""Sites that stay in the parts in which earlier versions of the program had them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from crawler.modes import mode_of
from crawler.session.info import SessionInfo
from crawler.session.log import LoggedPage, read_log


def kept_sites(info: SessionInfo, logs: Iterable[Path]) -> dict[str, int]:
    """The parts that sites must keep, by the rows of the logs; empty for most sessions.

    Sites of old sessions had other names, so their hashes give other owners today. In the modes
    firewall and cross-over nobody tells a new owner which links the old owner has found. A site
    that had several names stays in the part that has most of its pages.
    """
    mode = mode_of(info.config)
    if (
        not mode.divides
        or mode.sends
        or info.config.assignment.scheme not in {"site-hash", "hierarchical"}
        or all(run.site_names is not None for run in info.runs)
    ):
        return {}
    pages = Counter[tuple[str, int]]()
    for path in logs:
        for entry in read_log(path):
            if isinstance(entry, LoggedPage):
                pages[entry.row.site, entry.row.part] += 1
    return {site: part for (site, part), _ in reversed(pages.most_common())}
