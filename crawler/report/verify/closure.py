"""Compares links with pages: each followed link has a row, and something leads to each row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from pathlib import Path

import numpy as np

from crawler import session, url
from crawler.arrays import distinct
from crawler.core.ownership import Ownership
from crawler.core.schemes import make_scheme, place_parts
from crawler.modes import FIREWALL, mode_of
from crawler.ports import (
    OUT_OF_SCOPE,
    CrawlUrl,
    Link,
    PageRow,
    Peers,
    is_requisite,
    without_mark,
)
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import Judge, unfollowed
from crawler.reading.traps import TrapMonitor
from crawler.report.correcting import scope_of
from crawler.report.verify.asked import Flags, ask, first_askers, gather_keys
from crawler.report.verify.findings import Findings
from crawler.session import LoggedPage, SessionInfo


class Closure:
    """Checks the links of a session.

    `pending` counts URLs that have no row because the crawl isn't over. `kept_out` counts URLs that
    have no row because of a trap, a limit or the mode. Each process counts some of them.
    """

    def __init__(
        self,
        directory: Path,
        info: SessionInfo,
        logs: Sequence[Path],
        peers: Peers,
        findings: Findings,
    ) -> None:
        """`logs`: the log files that this process reads, ordered by rank. `findings`: of the first.

        Raises UserError if the mode is firewall and the file of its part vector is missing.
        """
        settings = info.config
        self.pending = 0
        self.kept_out = 0
        self._settings = settings
        self._info = info
        self._directory = directory
        self._logs = list(logs)
        self._peers = peers
        self._findings = findings
        self._found = Findings()  # what the first process isn't told yet
        self._max_hops = settings.scope.most_hops
        self._max_depth = settings.traps.max_depth or inf
        # If the scope has changed, links that an earlier run left out may be in scope, or the
        # other way round.
        self._judges_again = len({run.scope for run in info.runs}) > 1
        self._scope = scope_of(directory, info)
        self._declared = DeclaredSitemaps()
        self._judge = Judge(settings, self._scope, self._declared)
        self.correct = session.Correction(self._scope.joined, self._judge.brings_in)
        self._traps: TrapMonitor | None = None
        self._alone = not mode_of(settings).shares_logs
        self._starts = [self._scope.link(url.of_seed(seed)) for seed in session.seeds(directory)]
        replicated = [self._scope.link(address) for address in session.replicated(directory)]
        self._starts += replicated
        self._replicated = {link.key for link in replicated}  # their owners have them
        self._scheme = None
        if mode_of(settings).drops:
            kept = session.kept_sites(info, session.log_files(directory))
            self._scheme = make_scheme(settings, info.last.ranks, kept)

    async def check(self) -> None:
        """Check the links of all pages; rank by rank, in modes where the ranks share no logs."""
        keys = np.array([link.key for link in self._starts], np.uint64)
        fetched = np.zeros(len(keys), np.bool_)
        if self._alone:
            for _, files in groupby(self._logs, session.rank_of):
                fetched |= np.isin(keys, await self._check(list(files), session.Alone()))
            await self._tell()
        else:
            fetched |= np.isin(keys, await self._check(self._logs, self._peers))
        everybody = await session.everywhere(self._peers, fetched)
        if self._peers.rank == 0:
            for link, *by in zip(self._starts, *everybody, strict=True):
                if not any(by):
                    self._missing(link, None, None)
        await self._tell()

    async def _tell(self) -> None:
        """Tell the first process what was found since the last call."""
        found, self._found = self._found, Findings()
        await self._findings.add_all(self._peers, found)

    async def _check(self, paths: Sequence[Path], peers: Peers) -> session.Keys:
        """Check the pages in the logs of these processes, which no link from others may explain.

        `paths`: the logs that this process reads. Returns the keys of pages that it answers for.
        """
        skipped = unfollowed(self._settings, judges_again=self._judges_again)
        share = session.LogShard(paths, self._follows, skipped=skipped, correct=self.correct)
        for _ in share.read():
            pass
        pages = await gather_keys(peers, distinct(share.page_keys))
        missing = await ask(
            peers, share.link_keys, lambda asked: first_askers(asked, lambda k: ~np.isin(k, pages))
        )
        if self._info.last.complete or self._judges_again:
            await self._look_at(share, missing, pages, paths, peers)
        else:
            self.pending += int(missing.sum())
        others = [*map(url.own_key, (*share.sitemaps, *share.requisites))]
        leads = distinct(np.append(share.link_keys, np.array(others, np.uint64)))
        led = await gather_keys(peers, leads)
        share.close()
        starts = np.array([link.key for link in self._starts], np.uint64)
        unreached = pages[~np.isin(pages, distinct(np.append(led, starts)))]
        if any(await session.everywhere(peers, len(unreached))):
            await self._report_unreached(unreached, paths, peers)
        if not self._alone:
            await self._tell()
        return pages

    def _follows(self, row: PageRow) -> bool:
        return row.hops < self._max_hops and row.hops < self._max_depth

    async def _look_at(
        self,
        share: session.LogShard,
        missing: Flags,
        pages: session.Keys,
        paths: Sequence[Path],
        peers: Peers,
    ) -> None:
        """Count each link that has no row as pending, kept out or a problem.

        `missing`: for each link of the share, whether it has no row, and this process counts that.
        `pages`: the keys of pages that this process answers for.
        """
        rank = session.rank_of(paths[0]) if self._alone else None
        for source, links, _ in share.links(missing):
            for key, address, flags in links:
                link = Link(key, address, self._scope.sites.of(address), flags)
                if self._judges_again:
                    link = self._judge.link_again(source, address, flags)
                self._missing(link, source, rank)
        if not self._alone:
            await self._tell()
        for authorities in await session.everywhere(peers, share.declared.as_dict()):
            self._declared.update(authorities)
        sitemaps = [
            (self._judge.sitemap(one, self._declared.authorities(url.own_key(one))), one)
            for one in dict.fromkeys(share.sitemaps)
        ]
        await self._look_at_others(sitemaps, pages, rank, peers)
        names = map(without_mark, share.requisites)
        needed = ((self._scope.requisite(name), name) for name in names)
        requisites = [(link, name) for link, name in needed if link is not None]
        await self._look_at_others(requisites, pages, rank, peers)

    async def _look_at_others(
        self,
        links: Sequence[tuple[Link, str]],
        pages: session.Keys,
        rank: int | None,
        peers: Peers,
    ) -> None:
        """Do the same for sitemaps and requisites, which are links of no page.

        `links`: each with its URL in the log.
        """

        def unfetched(keys: session.Keys) -> Flags:
            return ~np.isin(keys, pages)

        by_key = {link.key: (link, name) for link, name in reversed(links)}  # the first of each
        some = list(by_key.values())
        keys = np.array([link.key for link, _ in some], np.uint64)
        own = np.array([url.own_key(name) for _, name in some], np.uint64)
        missing = await ask(peers, keys, lambda asked: first_askers(asked, unfetched))
        missing &= await ask(peers, own, lambda asked: [unfetched(keys) for keys in asked])
        for number in np.flatnonzero(missing).tolist():
            self._missing(some[number][0], None, rank)
        if not self._alone:
            await self._tell()

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
            self._found.add("link", without_mark(link.url), f"was never {asked}, though {came}")

    def _is_kept_out(self, link: Link, source: CrawlUrl | None, rank: int | None) -> bool:
        if rank is not None and (link.key in self._replicated or self._owner(link, rank) != rank):
            return True  # another rank has the URL, or the mode firewall kept it out
        if self._traps is None:
            settings = self._settings
            self._traps = TrapMonitor(settings.traps, settings.overrides())
            for page in _pages(session.log_files(self._directory)):
                self._traps.replay(page.row)
        found = CrawlUrl(link.key, without_mark(link.url), link.site, 0)
        return self._traps.keeps_out(found, source)

    def _owner(self, link: Link, rank: int) -> int | None:
        if self._scheme is None:
            return rank
        place, unlisted = place_parts(self._scheme, self._info.last.ranks), "site-hash"
        return Ownership(rank, self._scheme, place, unlisted, FIREWALL).owner(link)

    async def _report_unreached(
        self, unreached: session.Keys, paths: Sequence[Path], peers: Peers
    ) -> None:
        """Report rows that no link, seed or sitemap leads to.

        An earlier run may have had other limits. So a link counts even if this run wouldn't
        follow it. `unreached`: of the keys that this process answers for.
        """
        if len(self._info.runs) > 1:
            share = session.LogShard(paths, lambda row: True, skipped=0)
            for _ in share.read():
                pass
            unreached = unreached[~np.isin(unreached, await gather_keys(peers, share.link_keys))]
            share.close()
        wanted = set(np.concatenate(await session.everywhere(peers, unreached)).tolist())
        for page in _pages(paths):
            if page.request_key in wanted:
                self._found.add("link", page.row.url, "has a row, but nothing leads there")


def _pages(paths: Iterable[Path]) -> Iterator[LoggedPage]:
    for path in paths:
        for entry in session.read_log(path):
            if isinstance(entry, LoggedPage):
                yield entry
