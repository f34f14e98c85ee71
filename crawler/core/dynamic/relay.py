"""Messages between ranks that are no neighbours in the tree of servers."""

from crawler.core.tree import Tree
from crawler.messages import Message, Relay, Sums

Addressed = tuple[int, Message]  # the other rank, and the message


class Relays:
    """One rank's part in passing messages on, so that they travel only along the tree."""

    def __init__(self, rank: int, tree: Tree) -> None:
        self.passing: list[Addressed] = []  # messages of others that must leave
        self._rank = rank
        self._tree = tree

    def receive(self, sender: int, message: Message) -> Addressed | None:
        """Return a message with its first sender; None if it only passes through this rank."""
        if not isinstance(message, Relay):
            return sender, message
        if message.receiver == self._rank:
            return message.sender, message.message
        self.passing.append((self._tree.next_hop(self._rank, message.receiver), message))
        return None

    def send(self, messages: list[Addressed]) -> list[Addressed]:
        """Return these messages and those passed on, each with the neighbour that is to get it."""
        leaving, self.passing = self.passing, []
        return leaving + [self.address(*one) for one in messages]

    def address(self, receiver: int, message: Message) -> Addressed:
        """Return the neighbour through which a message leaves, and the message that it gets."""
        hop = self._tree.next_hop(self._rank, receiver)
        if hop == receiver:
            return hop, message
        assert not isinstance(message, Relay | Sums), message
        return hop, Relay(self._rank, receiver, message)
