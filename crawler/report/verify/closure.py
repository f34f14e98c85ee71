"""Compares links with pages: each followed link has a row, and something leads to each row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from crawler import session, url
from crawler.core.ownership import Ownership, make_scheme, place_parts
from crawler.modes import FIREWALL, mode_of
from crawler.ports import OUT_OF_SCOPE, CrawlUrl, Link, PageRow, is_requisite, without_mark
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.reader import PageReader, unfollowed
from crawler.reading.traps import TrapMonitor
from crawler.report.correcting import scope_of
from crawler.report.verify.findings import Findings
from crawler.session import LoggedPage, SessionInfo


class Closure:
    """Checks the links of a session.

    `pending` counts URLs that have no row because the crawl isn't over. `kept_out` counts URLs that
    have no row because of a trap, a limit or the mode.
    """

    def __init__(
        self, directory: Path, info: SessionInfo, logs: Sequence[Path], findings: Findings
    ) -> None:
        """`logs`: all log files, ordered by rank.

        Raises UserError if the mode is firewall and the file of its part vector is missing.
        """
        settings = info.config
        self.pending = 0
        self.kept_out = 0
        self._settings = settings
        self._info = info
        self._logs = list(logs)
        self._findings = findings
        self._max_hops = settings.scope.most_hops
        self._max_depth = settings.traps.max_depth or inf
        # If the scope has changed, links that an earlier run left out may be in scope, or the
        # other way round.
        self._judges_again = len({run.scope for run in info.runs}) > 1
        self._scope = scope_of(directory, info)
        self._declared = DeclaredSitemaps()
        self._reader = PageReader(settings, self._scope, self._declared)
        self.correct = session.Correction(self._scope.joined, self._reader.brings_in)
        self._traps: TrapMonitor | None = None
        self._alone = not mode_of(settings).shares_logs
        self._starts = [self._scope.link(url.of_seed(seed)) for seed in session.seeds(directory)]
        replicated = [self._scope.link(address) for address in session.replicated(directory)]
        self._starts += replicated
        self._replicated = {link.key for link in replicated}  # their owners have them
        self._scheme = None
        if mode_of(settings).drops:
            kept = session.kept_sites(info, self._logs)
            self._scheme = make_scheme(settings, info.last.ranks, kept)

    def check(self) -> None:
        """Check the links of all pages; rank by rank, in modes where the ranks share no logs."""
        groups = [self._logs]
        if self._alone:
            groups = [list(files) for _, files in groupby(self._logs, session.rank_of)]
        pages = np.unique(np.concatenate([np.zeros(0, np.uint64), *map(self._check, groups)]))
        fetched = np.isin(np.array([link.key for link in self._starts], np.uint64), pages)
        for link, is_fetched in zip(self._starts, fetched, strict=True):
            if not is_fetched:
                self._missing(link, None, None)

    def _check(self, paths: Sequence[Path]) -> session.Keys:
        """Check the pages in these logs, which no link from other logs may explain.

        Returns the keys of the pages.
        """
        skipped = unfollowed(self._settings, judges_again=self._judges_again)
        share = session.LogShard(paths, self._follows, skipped=skipped, correct=self.correct)
        for _ in share.read():
            pass
        pages = np.unique(share.page_keys)
        missing = ~np.isin(share.link_keys, pages)
        if self._info.last.complete or self._judges_again:
            self._look_at(share, missing, pages, paths)
        else:
            self.pending += int(missing.sum())
        starts = [link.key for link in self._starts]
        starts += map(url.own_key, (*share.sitemaps, *share.requisites))
        led = np.union1d(share.link_keys, np.array(starts, np.uint64))
        share.close()
        unreached = pages[~np.isin(pages, led)]
        if len(unreached):
            self._report_unreached(unreached, paths)
        return pages

    def _follows(self, row: PageRow) -> bool:
        return row.hops < self._max_hops and row.hops < self._max_depth

    def _look_at(
        self,
        share: session.LogShard,
        missing: npt.NDArray[np.bool_],
        pages: session.Keys,
        paths: Sequence[Path],
    ) -> None:
        """Count each link that has no row as pending, kept out or a problem.

        `missing`: for each link of the share, whether it has no row. `pages`: the keys of
        all pages.
        """
        rank = session.rank_of(paths[0]) if self._alone else None
        for source, links, _ in share.links(missing):
            for key, address, flags in links:
                link = Link(key, address, self._scope.sites.of(address), flags)
                if self._judges_again:
                    link = self._reader.link_again(source, address, flags)
                self._missing(link, source, rank)
        self._declared.update(share.declared.as_dict())
        for address in share.sitemaps:
            authorities = share.declared.authorities(url.own_key(address))
            link = self._reader.sitemap(address, authorities)
            if link.key not in pages:
                self._missing(link, None, rank)
        for name in share.requisites:
            address = without_mark(name)
            needed = self._reader.requisite(address)
            if needed is not None and not np.isin([needed.key, url.own_key(address)], pages).any():
                self._missing(needed, None, rank)

    def _missing(self, link: Link, source: CrawlUrl | None, rank: int | None) -> None:
        """Count a URL that has no row as pending, kept out or a problem."""
        if link.flags & OUT_OF_SCOPE:
            return
        if not self._info.last.complete:
            self.pending += 1
        elif self._is_kept_out(link, source, rank):
            self.kept_out += 1
        else:
            came = f"{source.url} leads there" if source else "it is a seed or a sitemap"
            if is_requisite(link.url):
                came = "a page needs it"
            returns = source is not None and link.key in {*source.chain, source.key}
            asked = "asked again" if returns else "asked for"
            self._findings.add("link", without_mark(link.url), f"was never {asked}, though {came}")

    def _is_kept_out(self, link: Link, source: CrawlUrl | None, rank: int | None) -> bool:
        if rank is not None and (link.key in self._replicated or self._owner(link, rank) != rank):
            return True  # another rank has the URL, or the mode firewall kept it out
        if self._traps is None:
            settings = self._settings
            self._traps = TrapMonitor(settings.traps, settings.overrides())
            for page in _pages(self._logs):
                self._traps.replay(page.row)
        found = CrawlUrl(link.key, without_mark(link.url), link.site, 0)
        return self._traps.keeps_out(found, source)

    def _owner(self, link: Link, rank: int) -> int | None:
        if self._scheme is None:
            return rank
        place, unlisted = place_parts(self._scheme, self._info.last.ranks), "site-hash"
        return Ownership(rank, self._scheme, place, unlisted, FIREWALL).owner(link)

    def _report_unreached(self, unreached: session.Keys, paths: Sequence[Path]) -> None:
        """Report rows that no link, seed or sitemap leads to.

        An earlier run may have had other limits. So a link counts even if this run wouldn't
        follow it.
        """
        if len(self._info.runs) > 1:
            share = session.LogShard(paths, lambda row: True, skipped=0)
            for _ in share.read():
                pass
            unreached = unreached[~np.isin(unreached, share.link_keys)]
            share.close()
        wanted = set(unreached.tolist())
        for page in _pages(paths):
            if page.request_key in wanted:
                self._findings.add("link", page.row.url, "has a row, but nothing leads there")


def _pages(paths: Iterable[Path]) -> Iterator[LoggedPage]:
    for path in paths:
        for entry in session.read_log(path):
            if isinstance(entry, LoggedPage):
                yield entry
