"""Puts a store that handles many entries at a time behind the core's `LateSeen`.

Candidates wait in memory until there are enough for a cycle, or until the oldest has waited too
long, or until the rank has nothing else to do. A cycle and its answers are spread over the calls of
`take_answers`, so that none of them takes long.
"""

import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, islice
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import numpy as np

from crawler import config
from crawler.core.seen import Candidate, LateSeen
from crawler.messages import CookieTerms
from crawler.ports import CrawlUrl, NoRoomError
from crawler.reading.cookies import NO_COOKIES, Jar
from crawler.stores.batch_store import BatchStore
from crawler.stores.drum import Drum
from crawler.stores.entries import CHECK, UPDATE, Answers, Entries, Keys, Value
from crawler.stores.files import Generation, generation_of
from crawler.stores.veuniq import Veuniq
from crawler.url import key

_PACKED: Final = 1 << 12  # candidates that are made arrays at a time, in a few milliseconds
_CYCLE: Final = 1 << 15  # candidates: so many are sorted and put into files in a few milliseconds
_CYCLE_SHARE: Final = 1 << 15  # bytes of the budget for each; so a cycle takes about a 20th of it
_BUCKET_BYTES: Final = 1 << 20  # of a bucket of DRUM, when all are merged
_BUCKET_SHARE: Final = 1 << 10  # so small a part of the budget at most: the texts come on top
_CANDIDATE_BYTES: Final = 200  # of a candidate in memory, without its text and aux
_ANSWERS: Final = 500  # in one call
_PAUSE_S: Final = 0.001  # between two steps, for all else that the rank does
_NO_ROOM_S: Final = 1.0  # between two attempts to write on a full disk
_ASKED: Final = Value(links=1).packed(CHECK | UPDATE)


class _Aux(msgspec.Struct, array_like=True):
    """A candidate, but for the key and the text of its URL."""

    site: str
    hops: int
    chain: tuple[int, ...]
    source: CrawlUrl | None
    cookies: tuple[CookieTerms, ...]
    links: int
    is_foreign: bool


_AUX: Final = msgspec.msgpack.Decoder(_Aux)


class LateStore(LateSeen):
    """The seen test of a rank by a store on disk."""

    def __init__(
        self,
        store: BatchStore,
        max_delay_s: float,
        most_bytes: int = 1 << 30,
        *,
        prefers: bool = False,
    ) -> None:
        """`max_delay_s`: how long a candidate may wait for its answer.

        `most_bytes`: the budget of the rank, which says how many candidates make a cycle.

        A store of keys must be given: the keys of an earlier run come without texts. `prefers`: the
        frontier prefers sites of the repository at hand. Then the store must be a Veuniq.
        """
        _compile()
        self.groups = self if prefers else None
        self.store = store
        self._max_delay_s = max_delay_s
        self._most = min(_CYCLE, most_bytes // _CYCLE_SHARE)  # candidates of a cycle
        self._pending = 0
        self._now = 0.0  # of the last call of `take_answers`
        self._hurries = False  # whether that call was in a hurry
        self._gave = False  # whether it returned answers
        self._tries_at = -inf  # when a write that found no room is tried again
        self._keys: list[int] = []  # of the candidates in memory
        self._texts: list[bytes] = []
        self._sites: list[int] = []
        self._aux: list[bytes] = []
        self._bytes = 0  # of these lists, about
        self._oldest = 0.0  # when the first of them was submitted
        self._unnoted: list[Keys] = []  # what `update` took in since the last cycle
        self._cycle: Iterator[Answers | None] | None = None  # under way
        self._ready: Iterator[tuple[Candidate, bool]] | None = None  # answers not taken yet
        self._ready_bytes = 0

    @property
    def pending(self) -> int:
        """See LateSeen.pending."""
        return self._pending

    def at_hand(self) -> int:
        """See SiteGroups.at_hand."""
        assert isinstance(self.store, Veuniq)
        return self.store.at_hand

    def group_of(self, site: str) -> int:
        """See SiteGroups.group_of."""
        assert isinstance(self.store, Veuniq)
        return self.store.group_of(site)

    @property
    def is_stuck(self) -> bool:
        """See LateSeen.is_stuck."""
        return not self.store.folder.has_room

    def submit(self, candidate: Candidate, now: float) -> None:
        """See LateSeen.submit."""
        found = candidate.found
        if not self._keys:
            self._oldest = now
        self._keys.append(found.key)
        self._texts.append(found.url.encode())
        self._sites.append(key(found.site))
        self._aux.append(_packed(candidate))
        self._bytes += _CANDIDATE_BYTES + len(self._texts[-1]) + len(self._aux[-1])
        self._pending += 1
        if len(self._keys) >= _PACKED:
            self._pack()

    def take_answers(self, now: float, *, hurry: bool) -> Iterable[tuple[Candidate, bool]]:
        """See LateSeen.take_answers. Raises OSError or DamagedStoreError."""
        self._now, self._hurries, self._gave = now, hurry, False
        if not self._is_busy:
            is_due = now >= self._due()
            is_full = self.store.in_memory + len(self._keys) >= self._most
            if not self._pending or not (hurry or is_due or is_full):
                return ()
            self._begin(now, answer=hurry or is_due)
        if self._ready is None:
            if now >= self._tries_at:
                self._step()
                self._tries_at = now + (0 if self.store.folder.has_room else _NO_ROOM_S)
            return ()
        answers = list(islice(self._ready, _ANSWERS))
        if len(answers) < _ANSWERS:
            self._ready, self._ready_bytes = None, 0
        self._pending -= len(answers)
        self._gave = bool(answers)
        return answers

    def next_time(self) -> float | None:
        """See LateSeen.next_time. After answers that is soon, so that the rank uses them."""
        soon = max(self._now + _PAUSE_S, self._tries_at)
        if self._is_busy or self._gave or (self._pending and self._hurries):
            return soon
        return max(soon, self._due()) if self._pending else None

    def update(self, keys: Iterable[int]) -> None:
        """See LateSeen.update."""
        self._unnoted.append(np.fromiter(keys, np.uint64))

    def __iter__(self) -> Iterator[int]:
        """See LateSeen.__iter__."""
        self._settle()
        yield from self.store

    def _settle(self) -> None:
        """Bring to disk what is known. Nothing may be pending. Raises NoRoomError."""
        assert not self._pending
        # The last answers of a cycle may come before its last step.
        for _ in chain(self._cycle or (), self._note()):
            if self.is_stuck:
                raise NoRoomError(f"{self.store.folder.path}: no room")
        self._cycle = None

    def nbytes(self) -> int:
        """About how many bytes of memory the candidates take, and the keys that `update` gave."""
        noted = sum(keys.nbytes for keys in self._unnoted)
        return self._bytes + noted + self.store.nbytes + self._ready_bytes

    @property
    def kind(self) -> str:
        """The kind of the files. See `files.Generation`."""
        return self.store.folder.manifest.kind

    def keep(self) -> Generation:
        """Bring to disk what is known, and return the files. Nothing may be pending.

        Raises NoRoomError or OSError.
        """
        self._settle()
        return generation_of(self.kind, self.store.folder.path)

    def go_on_with(self, store: BatchStore) -> None:
        """Go on with the store of an earlier run, instead of this one, which must be empty."""
        assert not self._pending
        self.store.close()
        shutil.rmtree(self.store.folder.path)
        self.store = store

    def end(self) -> None:
        """End the thread. The files stay."""
        self.store.close()

    def close(self) -> None:
        """See LateSeen.close."""
        self.end()
        shutil.rmtree(self.store.folder.path)

    # --- cycles -------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        """Whether a cycle is under way, or has answers that aren't taken."""
        return self._cycle is not None or self._ready is not None

    def _due(self) -> float:
        """When the next cycle begins at the latest."""
        oldest = self.store.oldest
        if self._keys:
            oldest = min(oldest, self._oldest)
        return oldest + self._max_delay_s

    def _begin(self, now: float, *, answer: bool) -> None:
        """Begin a cycle with all candidates in memory."""
        self._pack()
        self._cycle = chain(self._note(), self.store.cycle(now, answer=answer))

    def _pack(self) -> None:
        """Pass the candidates on to the store, as arrays."""
        entries = Entries.of(self._keys, [_ASKED] * len(self._keys), self._texts, self._aux)
        self.store.submit(entries, np.array(self._sites, np.uint64), self._oldest)
        for column in (self._keys, self._texts, self._sites, self._aux):
            column.clear()
        self._bytes = 0

    def _note(self) -> Iterator[None]:
        """Give the store the keys that came by `update`. No cycle may be under way."""
        if self._unnoted:
            keys = np.concatenate(self._unnoted)
            self._unnoted.clear()
            yield from self.store.note(keys)

    def _step(self) -> None:
        """Go one step further in the cycle under way."""
        assert self._cycle is not None
        try:
            answers = next(self._cycle)
        except StopIteration:
            self._cycle = None
            return
        if answers is not None:
            self._ready, self._ready_bytes = _unpacked(answers), answers.entries.nbytes


def open_store(settings: config.Seen, directory: Path) -> LateStore:
    """Return an empty store, `drum` or `veuniq`. Files of an earlier run are removed."""
    if directory.exists():
        shutil.rmtree(directory)
    bits = (settings.repositories - 1).bit_length()
    kind = f"drum {bits}" if settings.store == "drum" else f"veuniq {settings.repositories} keys"
    prefers = settings.prefer and settings.store == "veuniq"
    store = open_batch_store(kind, directory, settings)
    return LateStore(store, settings.max_delay_s, settings.memory, prefers=prefers)


def open_batch_store(kind: str, directory: Path, settings: config.Seen) -> BatchStore:
    """Return the store in a directory, which must be empty or hold a store of this kind.

    Raises DamagedStoreError or another OSError.
    """
    name, number, *_ = kind.split()
    if name == "drum":
        bucket_bytes = min(_BUCKET_BYTES, settings.memory // _BUCKET_SHARE)
        return Drum(directory, int(number), bucket_bytes=bucket_bytes)
    return Veuniq(directory, int(number), max_delay_s=settings.max_delay_s)


def _packed(candidate: Candidate) -> bytes:
    found, source, jar, links, is_foreign = candidate
    terms = jar.terms() if jar.cookies else ()
    aux = _Aux(found.site, found.hops, found.chain, source, terms, links, is_foreign)
    return msgspec.msgpack.encode(aux)


def _unpacked(answers: Answers) -> Iterator[tuple[Candidate, bool]]:
    """Give the candidates, each with whether its key is new. Unpacks some at a time."""
    entries, new = answers
    starts = np.append(np.arange(0, len(new), _ANSWERS), len(new))
    for first, part in zip(starts.tolist(), entries.divided(starts), strict=False):
        some_new = new[first : first + _ANSWERS].tolist()
        for number, is_new, (text, packed) in zip(
            part.keys.tolist(), some_new, part.pieces(), strict=True
        ):
            aux = _AUX.decode(packed)
            found = CrawlUrl(number, text.decode(), aux.site, aux.hops, aux.chain)
            jar = Jar.of(aux.cookies) if aux.cookies else NO_COOKIES
            yield Candidate(found, aux.source, jar, aux.links, aux.is_foreign), is_new


@cache
def _compile() -> None:
    """Compile all functions that a store of keys needs, as the first cycle would wait for it.

    Raises NoRoomError if the disk of temporary files is full.
    """
    with TemporaryDirectory() as directory:
        drum = Drum(Path(directory), 1)
        for _ in range(2):
            drum.submit(Entries.of([1], [_ASKED], [b"-"], [b""]), np.zeros(1, np.uint64), 0)
            for _ in drum.cycle(0):
                if not drum.folder.has_room:
                    raise NoRoomError(f"{directory}: no room for temporary files")
        drum.close()
