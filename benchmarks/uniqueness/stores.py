"""The stores that the benchmark of URL uniqueness compares, and how each is filled at once.

A store is filled as a long crawl would have left it, but in bulk: the files of DRUM and VEUNIQ are
written as they would stand before a cycle, and the other stores take all known keys.
"""

import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from crawler.stores import buckets
from crawler.stores.auto import AutoStore
from crawler.stores.batch_store import BatchStore
from crawler.stores.drum import Drum
from crawler.stores.entries import CRAWLED, UPDATE, Entries, Keys, Value
from crawler.stores.folder import Folder, NewFile
from crawler.stores.memory import MemoryStore
from crawler.stores.texts import merge_texts
from crawler.stores.veuniq import Veuniq

from .stream import LINKS_A_PAGE, Ints, Stream, make_entries

CYCLE: Final = 1_000_000  # URLs
NATIVE: Final = 8  # cycles that fill a bucket of DRUM
BUCKET_BITS: Final = 6
RECORD: Final = 16  # bytes of a key with its value
RUNS_MEMORY: Final = 256 << 20  # the budget of `runs`, enough for 100 million keys
PAGE: Final = 60  # links about which the stores that answer at once are asked at a time
_CHUNK: Final = 1 << 20
_FILL: Final = 1 << 16  # keys that a store that answers at once takes at a time
_LINKED: Final = Value(links=1)


class Subject(ABC):
    """A store under test."""

    def pages(self, stream: Stream) -> Ints:
        """The sites whose pages the next cycle has."""
        return np.arange(len(stream.hashes))

    @abstractmethod
    def fill(self, stream: Stream, cycles: int) -> None:
        """Let the empty store be as after a long crawl, for so many cycles to come."""

    def share_elsewhere(self, hashes: Keys) -> float:
        """The share of the URLs of a cycle that don't belong to the repository at hand."""
        return 0.0

    @abstractmethod
    def prepare(self, entries: Entries, hashes: Keys) -> None:
        """Take the URLs of a cycle, in the form that the store wants. This isn't measured."""

    @abstractmethod
    def check(self, now: float) -> Iterator[int]:
        """Find out which of these URLs are new, in steps. Each step gives a number of new URLs."""

    @abstractmethod
    def close(self) -> None:
        """Close the store. Its files stay."""


# --- stores that answer late ------------------------------------------------------------------


class Late(Subject):
    """DRUM or VEUNIQ. `prefers`: the pages of a cycle are of the repository at hand."""

    def __init__(self, path: Path, make: Callable[[Path], BatchStore], *, prefers: bool) -> None:
        self.store = make(path)
        self._reopen = partial(make, path)
        self._prefers = prefers
        self.input: list[tuple[Entries, Keys]] = []

    def pages(self, stream: Stream) -> Ints:
        if self._prefers and isinstance(self.store, Veuniq):
            parts = self.store.repository_of(stream.hashes)
            return np.flatnonzero(parts == self.store.turn)
        return super().pages(stream)

    def share_elsewhere(self, hashes: Keys) -> float:
        if not isinstance(self.store, Veuniq):
            return 0.0
        return float((self.store.repository_of(hashes) != self.store.turn).mean())

    def fill(self, stream: Stream, cycles: int, pages: int = CYCLE // (1 + LINKS_A_PAGE)) -> None:
        """Write the files of the store, with those repositories alone whose turn comes.

        `pages`: those of a cycle.
        """
        store = self.store
        if isinstance(store, Veuniq):
            parts = store.repository_of(stream.hashes)
            number = int(store.folder.manifest.kind.split()[1])
            for part in range(min(cycles, number)):
                sites = np.flatnonzero(parts == part)
                write_repository(store.folder, f"r{part}-0", stream, sites)
                put_aside(
                    store.folder,
                    f"t{part}-0",
                    stream.put_aside((number - 1 - part) * pages, sites, elsewhere=self._prefers),
                    number - 1 - part,
                )
        else:
            write_repository(store.folder, "r-0", stream, self.pages(stream))
        list(store.folder.commit([]))
        store.close()
        self.store = self._reopen()

    def prepare(self, entries: Entries, hashes: Keys) -> None:
        self.input.append((entries, hashes))

    def check(self, now: float) -> Iterator[int]:
        self.store.submit(*self.input.pop(), now)
        for answers in self.store.cycle(now):
            yield 0 if answers is None else int(answers.new.sum())

    def close(self) -> None:
        self.store.close()


def write_repository(folder: Folder, name: str, stream: Stream, sites: Ints) -> None:
    """Write a repository with all known URLs of these sites. The commit is left to the caller."""
    out = NewFile(folder, name)
    if folder.manifest.kind.endswith("texts"):
        parts = [make_entries(*urls, 0) for urls in stream.known_urls(sites)]
        entries = Entries.joined(parts)
        del parts
        values = np.full(len(entries.keys), _LINKED.packed(UPDATE), np.uint64)
        flags = np.zeros((2, len(values)), bool)
        list(merge_texts(folder, "", entries._replace(values=values), *flags, out))
    else:
        keys = stream.known_keys(sites)
        for first in range(0, len(keys), _CHUNK):
            pairs = np.full((len(keys[first : first + _CHUNK]), 2), _LINKED.packed(), np.uint64)
            pairs[:, 0] = keys[first : first + _CHUNK]
            out.write(pairs, len(pairs))
    list(out.finish())


def put_aside(folder: Folder, name: str, entries: Entries, blocks: int) -> None:
    """Write the entries that earlier cycles have put aside for a repository, a block from each."""
    ends = np.linspace(0, len(entries.keys), blocks + 1).astype(np.int64)
    for block in entries.divided(ends):
        if len(block.keys):
            buckets.append(folder, name, block, buckets.ALL)


def drum(path: Path, *, cycle: int = CYCLE, native: bool = False) -> Drum:
    full = NATIVE * cycle * RECORD >> BUCKET_BITS
    return Drum(path, BUCKET_BITS, bucket_bytes=int(full * 0.98) if native else 0)


# --- stores that answer at once ---------------------------------------------------------------


class AtOnce(Subject):
    """A store of the crawler that answers at once. It knows keys, and no values."""

    def __init__(self, path: Path, make: Callable[[Path], Any]) -> None:
        self.store: Any = make(path)
        self._lists: list[list[int]] = []

    def fill(self, stream: Stream, cycles: int) -> None:
        keys = stream.known_keys(self.pages(stream))
        np.random.default_rng(1).shuffle(keys)
        for first in range(0, len(keys), _FILL):
            self.store.update(array("Q", keys[first : first + _FILL].tobytes()))

    def prepare(self, entries: Entries, hashes: Keys) -> None:
        keys = iter(entries.keys.tolist())
        self._lists = list(iter(lambda: list(islice(keys, PAGE)), []))

    def check(self, now: float) -> Iterator[int]:
        lists, self._lists = self._lists, []
        for keys in lists:
            unmet, new = self.store.unmet(keys), 0
            for key in keys:
                if key in unmet:
                    unmet.discard(key)
                    new += 1
            yield new

    def close(self) -> None:
        self.store.close()


def memory(path: Path) -> MemoryStore:
    """Return the store as it is from a million URLs on, when its compact table is loaded."""
    store = MemoryStore(light_keys=0)
    while store.table is None:
        store.unmet(())
        time.sleep(0.01)
    return store


class Database(Subject):
    """A database of others, with 8 bytes for a key and 8 for its value. A batch is sorted."""

    def prepare(self, entries: Entries, hashes: Keys) -> None:
        crawled = entries.values & np.uint64(CRAWLED) != 0
        order = np.argsort(entries.keys, kind="stable")
        self._keys = in_bytes(entries.keys[order])
        self._crawled = in_bytes(np.sort(entries.keys[crawled]))

    def check(self, now: float) -> Iterator[int]:
        keys, crawled, self._keys, self._crawled = self._keys, self._crawled, [], []
        yield self.check_batch(keys, crawled)

    @abstractmethod
    def check_batch(self, keys: Sequence[bytes], crawled: Sequence[bytes]) -> int:
        """Note all keys, and which of them have been crawled. Returns how many are new."""


class Lmdb(Database):
    """LMDB: one B+ tree in a file that is mapped into memory."""

    def __init__(self, path: Path) -> None:
        import lmdb  # noqa: PLC0415 (only this store needs it)

        path.mkdir(parents=True)
        self._database = lmdb.open(str(path), map_size=1 << 37, sync=False, metasync=False)

    def fill(self, stream: Stream, cycles: int) -> None:
        keys = stream.known_keys(self.pages(stream))
        # A third of the keys comes later, so that the leaves are as full as after a long crawl.
        later = np.random.default_rng(1).random(len(keys)) < 0.3
        for some, append in ((keys[~later], True), (keys[later], False)):
            for first in range(0, len(some), _CHUNK):
                pairs = [(key, LINKED) for key in in_bytes(some[first : first + _CHUNK])]
                with self._database.begin(write=True) as transaction:
                    transaction.cursor().putmulti(pairs, append=append)
        self._database.sync(True)

    def check_batch(self, keys: Sequence[bytes], crawled: Sequence[bytes]) -> int:
        with self._database.begin(write=True) as transaction:
            cursor = transaction.cursor()
            _, added = cursor.putmulti([(key, LINKED) for key in keys], overwrite=False)
            cursor.putmulti([(key, SEEN) for key in crawled])
        self._database.sync(True)
        return int(added)

    def close(self) -> None:
        self._database.close()


class Rocks(Database):
    """RocksDB: a log-structured merge tree, with a filter of 10 bits a key and without a log."""

    def __init__(self, path: Path) -> None:
        import rocksdict  # noqa: PLC0415 (only this store needs it)

        self._rocks = rocksdict
        self._folder = path
        self._options = options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_bloom_filter(10, False)
        blocks.set_block_cache(rocksdict.Cache(256 << 20))
        options.set_block_based_table_factory(blocks)
        self._database = rocksdict.Rdict(str(path), options)
        self._no_log = rocksdict.WriteOptions()
        self._no_log.disable_wal = True

    def fill(self, stream: Stream, cycles: int) -> None:
        keys = stream.known_keys(self.pages(stream))
        for first in range(0, len(keys), 8 * _CHUNK):
            table = str(self._folder.with_suffix(".table"))
            writer = self._rocks.SstFileWriter(self._options)
            writer.open(table)
            for key in in_bytes(keys[first : first + 8 * _CHUNK]):
                writer[key] = LINKED
            writer.finish()
            moves = self._rocks.IngestExternalFileOptions()
            moves.set_move_files(True)
            self._database.ingest_external_file([table], moves)

    def check_batch(self, keys: Sequence[bytes], crawled: Sequence[bytes]) -> int:
        found = self._database[keys]
        batch, last, new = self._rocks.WriteBatch(raw_mode=True), b"", 0
        for key, value in zip(keys, found, strict=True):
            if value is None and key != last:
                batch.put(key, LINKED)
                last = key
                new += 1
        for key in crawled:
            batch.put(key, SEEN)
        self._database.write(batch, self._no_log)
        return new

    def close(self) -> None:
        self._database.close()


LINKED: Final = _LINKED.packed().to_bytes(8, "big")
SEEN: Final = Value(crawled=True, links=1).packed().to_bytes(8, "big")


def in_bytes(keys: Keys) -> list[bytes]:
    """Return keys as bytes whose order is that of the numbers."""
    data = keys.astype(">u8").tobytes()
    return [data[at : at + 8] for at in range(0, len(data), 8)]


# --- the table --------------------------------------------------------------------------------


def veuniq(repositories: int, suffix: str) -> Callable[[Path], Late]:
    records = "texts" if "texts" in suffix else "keys"
    make = partial(Veuniq, repositories=repositories, records=records, in_turn=True)
    return partial(Late, make=make, prefers="any" not in suffix)


STORES: Final[dict[str, Callable[[Path], Subject]]] = {
    "drum": partial(Late, make=drum, prefers=False),
    "drum-native": partial(Late, make=partial(drum, native=True), prefers=False),
    **{
        f"veuniq-{number}{suffix}": veuniq(number, suffix)
        for suffix in ("", "-any", "-texts", "-texts-any")
        for number in (16, 64, 256, 1024)
    },
    "memory": partial(AtOnce, make=memory),
    "runs": partial(AtOnce, make=partial(AutoStore, most_bytes=RUNS_MEMORY, at_once=True)),
    "rocksdb": Rocks,
    "lmdb": Lmdb,
}
