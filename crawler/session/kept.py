"""Finds the sites that must stay in the parts where earlier versions of the program put them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from crawler.modes import mode_of
from crawler.session.info import SessionInfo
from crawler.session.log import LoggedPage, read_log


def kept_sites(info: SessionInfo, logs: Iterable[Path]) -> dict[str, int]:
    """Return the parts that sites must keep, according to the logs. Most sessions have none.

    Old versions gave sites other names, so the hash of the name gives another owner today. In the
    modes firewall and cross-over, ranks don't send links to each other, so a new owner wouldn't
    know the links that the old owner has found. A site that had several names stays in the part
    with most of its pages.
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
