"""URLs that have the same key, as their hash is weak here: `seen.exact` fetches all of them."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cluster import Cluster, few_examples, link, run, settings
from fakes import World as Ranks
from hypothesis import given
from hypothesis import strategies as st
from slow_seen import SlowSeen
from test_session import page_row, write_log
from worlds import World

from crawler import session, url
from crawler.agent.telling_apart import tell_apart
from crawler.core.schemes import Scheme, SiteHash, UrlHash
from crawler.core.seen import MemorySeen
from crawler.core.visits import Visit
from crawler.ports import REDIRECT, CrawlUrl, Failure, Link, PageRow, UserError
from crawler.reading.reader import redirect_failure
from crawler.session import LoggedPage
from crawler.session.log import LogWriter

hash_of = url.xxh3_64_intdigest


@pytest.fixture(autouse=True)
def keys_as_before() -> Iterator[None]:
    """What a crawl changes in its process."""
    yield
    url.tell_apart(())


@contextmanager
def weak_hash(bits: int) -> Iterator[None]:
    """Gives all URLs hashes of so many bits, anywhere in the 64."""
    spread = random.Random(bits).getrandbits(64) | 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            url, "xxh3_64_intdigest", lambda data: hash_of(data) % 2**bits * spread % 2**64
        )
        yield


# --- keys


def test_a_url_that_has_given_up_keys_has_one_of_its_own() -> None:
    texts = [f"http://a.example/{number}" for number in range(4)]
    before = [url.own_key(text) for text in texts]
    assert before == [url.key(text) for text in texts]
    url.tell_apart([(before[1], texts[1]), (before[2], texts[2]), (77, texts[2])])
    after = [url.own_key(text) for text in texts]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, False, True]
    assert len(set(after)) == 4
    assert {before[1], before[2], 77} == url.SHARED_KEYS
    url.tell_apart([(before[2], texts[2])])
    assert url.own_key(texts[1]) == before[1]
    assert url.own_key(texts[2]) not in {before[2], after[2]}  # another key for each time
    url.tell_apart(())
    assert [url.own_key(text) for text in texts] == before


def test_readers_of_logs_get_the_keys_that_urls_have_now(tmp_path: Path) -> None:
    """Two pages with the key 5, of which one links to both."""
    first, second = "http://a.example/first", "http://a.example/second"
    row = PageRow(second, 5, "a.example", 0, 0, 0, 1.8e9, 0.5)
    links = [Link(5, first, "", 0), Link(5, second, "", 1), Link(6, f"{first}/", "", 0)]
    path = write_log(tmp_path, (page_row(5), links), (row, []))

    def read() -> list[tuple[int, list[int]]]:
        entries = session.read_log(path)
        pages = [entry for entry in entries if isinstance(entry, LoggedPage)]
        return [(page.row.key, page.keys.tolist()) for page in pages]

    assert read() == [(5, [5, 5, 6]), (5, [])]
    url.tell_apart([(5, second)])
    own = url.own_key(second)
    assert own != 5
    assert read() == [(5, [5, own, 6]), (own, [])]


def test_the_file_of_shared_keys(tmp_path: Path) -> None:
    assert session.given_up(tmp_path) == []
    some = [(2**64 - 1, "http://a.example/?q=1"), (5, "http://b.example/")]
    session.give_up(tmp_path, some[:1])
    session.give_up(tmp_path, some[1:])
    assert session.given_up(tmp_path) == some
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for line in (b"0005", b"5 http://b.example/", b"%016x b.example" % 5, whole[:30] + b"\xff"):
        path.write_bytes(whole + line + b"\n")
        with pytest.raises(UserError, match=r"line 3: .*: must be a key of 16 .* restore the file"):
            session.given_up(tmp_path)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc")), max_size=60),
    st.sampled_from([1, 4, 1000]),
)
def test_shared_keys_are_found(pairs: list[tuple[int, str]], most: int) -> None:
    """Whatever the order of the pages, and however many are compared at a time."""
    hashes = session.SecondHashes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawler.session.shared_keys._MOST_NEW", most)
        for key, name in pairs:
            row = PageRow(name, key, "a.example", 0, 0, 0, 1.8e9, 0.5)
            links = [pair for pair in pairs if pair[0] == key + 1]
            packed = np.array([key for key, _ in links], np.uint64).tobytes()
            texts = "".join(f"{text}\n" for _, text in links).encode()
            hashes.add(LoggedPage(row, packed, bytes(len(links)), texts, compressed=False))
    texts_of = dict[int, set[str]]()
    for key, name in pairs:
        texts_of.setdefault(key, set()).add(name)
    expected = [key for key, texts in sorted(texts_of.items()) if len(texts) > 1]
    assert session.shared_among(hashes.pairs()) == expected


# --- crawls


class KilledError(Exception):
    """All ranks die."""


class Crawl:
    """A crawl of a random world by cores that write real logs. It may be killed and stopped."""

    def __init__(self, dice: random.Random, session_: Path, make: Callable[[], Cluster]) -> None:
        self.world = World(dice, redirects=True)
        self.seeds = dice.sample(self.world.urls, min(3, len(self.world.urls)))
        self._dice = dice
        self._session = session_
        self._make = make
        self._kills = dice.choice([0, 0, 1, 3])
        self._logs: list[LogWriter] = []

    def run(self) -> int:
        """Crawl to the end. Returns how many URLs have given up keys."""
        for _ in range(60):
            url.tell_apart(session.given_up(self._session))
            cluster = self._make()
            folders = [self._session / f"rank-{rank:05}" / "log" for rank in range(cluster.ranks)]
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            self._logs = [LogWriter(folder) for folder in folders]
            self._begin(cluster)
            stop = self._dice.choice([None, None, self._dice.randrange(300)])
            try:
                run(cluster, self._dice, self._answer, retries=0.2, stop_after=stop)
            except KilledError:
                continue
            finally:
                for log in self._logs:
                    log.close()
            if not self._tell_apart(cluster.ranks) and cluster.complete:
                return len(session.given_up(self._session))
        raise AssertionError("no end")

    def pages(self) -> list[LoggedPage]:
        entries = (e for path in session.log_files(self._session) for e in session.read_log(path))
        return [entry for entry in entries if isinstance(entry, LoggedPage)]

    def _answer(self, visit: Visit) -> tuple[Iterable[Link], bool]:
        """As the parse stage: the row is logged, then the links are admitted."""
        found, world, error = visit.found, self.world, None
        links = [link(target) for target in world.out(found.url)]
        if found.url in world.moved:
            links = [links[0]._replace(flags=REDIRECT)]
            error = redirect_failure(found, links[0].key)
            if error is not None and links[0].url == found.url:
                links = []
        failed = found.url in world.failing
        row = PageRow(found.url, found.key, found.site, 0, 0, found.hops, 1.8e9, 0.5)
        row = msgspec.structs.replace(
            row,
            status=None if failed else 200,
            error=Failure.REFUSED if failed else error,
        )
        if self._kills and self._dice.random() < 0.05:
            self._kills -= 1
            if self._dice.random() < 0.5:
                log = self._dice.choice(self._logs)
                log.write([log.frame(row, links, found.chain)])
            raise KilledError
        log = self._dice.choice(self._logs)
        log.write([log.frame(row, links, found.chain)])
        return [] if error else links, not failed

    def _begin(self, cluster: Cluster) -> None:
        """What `agent.resume` does, without messages between the ranks."""
        cores, shares = (
            cluster.cores,
            session.shares(session.log_sizes(self._session), cluster.ranks),
        )
        pages = self.pages()
        fetched = {page.request_key for page in pages}
        for core in cores:
            core.resumption.begin()
        for page in pages:
            row = page.row
            owner = cores[0].ownership.owner(Link(row.key, row.url, row.site, 0))
            assert owner is not None
            cores[owner].resumption.note_fetched([row.key], (), ())
        cluster.start(*self.seeds)
        for rank, core in enumerate(cores):
            for path in shares[rank]:
                for page in session.read_log(path):
                    assert isinstance(page, LoggedPage)
                    row = page.row
                    source = CrawlUrl(row.key, row.url, row.site, row.hops, page.chain)
                    triples = zip(page.keys.tolist(), page.urls, page.flags, strict=True)
                    links = [
                        Link(key, text, url.site(text), flags)
                        for key, text, flags in triples
                        if (page.return_key or key) not in fetched
                    ]
                    core.resumption.admit_again(source, links, cluster.now)
            core.resumption.end(wholly=True)
            cluster.tick(rank)

    def _tell_apart(self, ranks: int) -> int:
        async def together() -> list[int]:
            groups = Ranks(ranks).groups
            calls = [tell_apart(self._session, self.seeds, group) for group in groups]
            return await asyncio.gather(*calls)

        counts = asyncio.run(together())
        assert len(set(counts)) == 1
        return counts[0]


def assert_exact(crawl: Crawl) -> None:
    """Each URL has one row, and a key of its own everywhere. All loops are loops."""
    pages = crawl.pages()
    fetched = sorted(page.row.url for page in pages)
    assert fetched == sorted(crawl.world.reachable(crawl.seeds))
    for page in pages:
        assert not page.is_loop or not page.urls or page.keys[0] in {page.row.key, *page.chain}
    keys: dict[str, set[int]] = {}
    for page in pages:
        for key, text in zip(
            [page.row.key, *page.keys.tolist()], [page.row.url, *page.urls], strict=True
        ):
            keys.setdefault(text, set()).add(key)
    assert all(len(its) == 1 for its in keys.values())
    assert len(set.union(*keys.values())) == len(keys)


SCHEMES: list[Callable[[int], Scheme]] = [SiteHash, UrlHash]


@few_examples
@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(1, 4),
    bits=st.sampled_from([2, 4, 8, 16]),
    scheme=st.sampled_from(SCHEMES),
    late=st.booleans(),
)
def test_a_crawl_fetches_all_urls_whatever_their_keys(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    ranks: int,
    bits: int,
    scheme: Callable[[int], Scheme],
    late: bool,
) -> None:
    dice = random.Random(seed)
    make_seen = partial(SlowSeen, dice) if late else MemorySeen
    crawl = Crawl(
        dice,
        tmp_path_factory.mktemp("session"),
        lambda: Cluster(scheme(ranks), ranks, settings("seen.exact=true"), make_seen=make_seen),
    )
    with weak_hash(bits):
        crawl.run()
        assert_exact(crawl)
