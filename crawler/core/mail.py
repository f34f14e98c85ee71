"""The messages of a rank: how they leave, and what becomes of those that arrive.

Batches are numbered and counted, because the end of the crawl depends on their arrival. Under
dynamic assignment, messages travel along the tree of servers.
"""

from collections.abc import Iterable, Sequence

from crawler.core.dynamic.relay import Addressed, Relays
from crawler.core.dynamic.retained import Retained
from crawler.core.foreign import Traffic
from crawler.core.outboxes import Arrivals, OrderedArrivals, Outbox, Outboxes
from crawler.core.termination import Termination
from crawler.core.tree import Tree
from crawler.messages import Answer, Batch, ForPeople, Message, Note, Question, Report, Sums


class Mail:
    """Sends what waits in the outboxes of one rank, and the messages about the end of the crawl."""

    def __init__(
        self,
        rank: int,
        ranks: int,
        tree: Tree | None,
        outboxes: Outboxes,
        traffic: Traffic,
        retained: Retained | None,
    ) -> None:
        """`retained` gets all batches that leave for clients of this rank, if they are kept."""
        self.lost: set[int] = set()  # ranks that are gone: nothing comes from them or goes to them
        self._rank = rank
        self._ranks = ranks
        self._tree = tree
        self._outboxes = outboxes
        self._traffic = traffic
        self._retained = retained
        make_arrivals = Arrivals if tree is None else OrderedArrivals
        self._arrivals = [make_arrivals() for _ in range(ranks)]  # by sender
        self._to_lost = self._from_lost = 0  # batches, which don't count for the end of the crawl
        self._relays = None if tree is None else Relays(rank, tree)
        self._termination = Termination(rank, ranks, None if tree is None else tree.below(rank))

    @property
    def ended(self) -> bool:
        """Whether the crawl is over on all ranks."""
        return self._termination.ended

    def lose(self, rank: int) -> None:
        """Note that a rank is lost, with the messages from it and to it that are under way."""
        self.lost.add(rank)
        self._to_lost += self._outboxes.sent(rank)
        self._from_lost += self._arrivals[rank].opened
        self._termination.lose(rank)

    def receive(self, sender: int, message: Message) -> Sequence[tuple[int, Batch | ForPeople]]:
        """Return the batches to open now, or a message for people, each with its first sender.

        A batch that has come before isn't returned again. This call handles all other messages.
        """
        if self._relays is not None:
            arrived = self._relays.receive(sender, message)
            if arrived is None:
                return ()
            sender, message = arrived
        if sender in self.lost:
            return ()
        if isinstance(message, Note | Question | Answer):
            return ((sender, message),)
        if not isinstance(message, Batch):
            assert isinstance(message, Report | Sums), message
            self._termination.received(sender, message)
            return ()
        batches = self._arrivals[sender].take(message)
        self._traffic.batches_received += len(batches)
        return [(sender, batch) for batch in batches]

    def open_all(self, now: float) -> list[Outbox]:
        """At rank 0: return the outboxes of all other ranks, for an order from outside."""
        self._termination.withdraw()
        others = [rank for rank in range(self._ranks) if rank != self._rank]
        return [self._outboxes.open(rank, now, urgent=True) for rank in others]

    def address(self, receiver: int, said: ForPeople) -> Addressed:
        """Return the rank to which a message for `receiver` must be sent, and what to send."""
        return (receiver, said) if self._relays is None else self._relays.address(receiver, said)

    def send(
        self, now: float, load: int, *, everything: bool, nothing: bool, passive: bool
    ) -> list[Addressed]:
        """Return the messages that must leave now, each with the rank to send it to.

        `load`: see `Batch`. `everything`: batches leave even if they could wait. `nothing`: no
        batch leaves. `passive`: this rank has nothing to do unless a message comes (`Termination`).
        """
        termination, relays, lost = self._termination, self._relays, self.lost
        due = [] if nothing else self._outboxes.due(now, everything=everything)
        if not (due or passive or termination.messages or (relays and relays.passing)):
            return []  # this is so after most events
        if lost:
            due = [(rank, outbox) for rank, outbox in due if rank not in lost]
        with_keys = self._tree is not None and self._tree.hands_out
        batches = [(rank, outbox.batch(load, with_keys=with_keys)) for rank, outbox in due]
        if self._retained is not None and self._tree is not None:
            for rank, batch in batches:
                if rank in self._tree.clients:
                    self._retained.keep(rank, batch)
        messages: list[Addressed] = [*batches]
        self._traffic.batches_sent += len(due)
        if self._tree is not None:
            self._count_urls(due, self._tree)
        if passive:
            termination.passive(
                self._traffic.batches_sent - self._to_lost,
                self._traffic.batches_received - self._from_lost,
            )
        messages += termination.messages
        termination.messages.clear()
        if relays is not None:
            messages = relays.send(messages)
        return [one for one in messages if one[0] not in lost] if lost else messages

    def _count_urls(self, due: Iterable[tuple[int, Outbox]], tree: Tree) -> None:
        """Count the URLs in these boxes, by the direction in which they leave."""
        for receiver, box in due:
            urls = len(box.found) + sum(map(len, box.known.values()))
            if receiver == tree.above(self._rank):
                self._traffic.urls_up += urls
            else:
                self._traffic.urls_down += urls
