"""A pairing heap in arrays (Fredman, Sedgewick, Sleator, Tarjan 1986).

The nodes are records with the fields `score`, `child`, `sibling` and `previous`. The node with the
higher score comes first. Among equal scores that with the smaller row comes first: `ties[node].row`
or, if `ties` is None, the number of the node itself. With `ties`, the node with the higher
`ties[node].priority` comes first, whatever the scores. The nodes of many heaps stand in one array;
a heap is known by its root, and an empty heap is NONE.
"""

from crawler.compiled import compiled
from crawler.core.registry.records import NONE, Records


@compiled
def comes_first(
    nodes: Records, ties: Records | None, a: int, b: int
) -> bool:  # pragma: no cover - compiled
    """Whether a node comes before another one."""
    ours, its = nodes[a].score, nodes[b].score
    if ties is None:
        return bool(ours > its or (ours == its and a < b))
    if ties[a].priority != ties[b].priority:
        return bool(ties[a].priority > ties[b].priority)
    return bool(ours > its or (ours == its and ties[a].row < ties[b].row))


@compiled
def meld(
    nodes: Records, ties: Records | None, a: int, b: int
) -> int:  # pragma: no cover - compiled
    """Make one heap of two, whose roots have no siblings. Returns its root."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if comes_first(nodes, ties, b, a):
        a, b = b, a
    first = nodes[a].child
    nodes[b].sibling = first
    nodes[b].previous = a
    if first != NONE:
        nodes[first].previous = b
    nodes[a].child = b
    return a


@compiled
def cut(nodes: Records, node: int) -> None:  # pragma: no cover - compiled
    """Take a node that isn't the root out of its heap, together with what is below it."""
    previous, sibling = nodes[node].previous, nodes[node].sibling
    if nodes[previous].child == node:
        nodes[previous].child = sibling
    else:
        nodes[previous].sibling = sibling
    if sibling != NONE:
        nodes[sibling].previous = previous
    nodes[node].sibling = NONE
    nodes[node].previous = NONE


@compiled
def below(nodes: Records, ties: Records | None, node: int) -> int:  # pragma: no cover - compiled
    """Make one heap of the children of a node, in two passes. Returns its root.

    The first pass melds the children in pairs, from left to right; the second pass melds the pairs
    from right to left.
    """
    pairs = NONE  # a stack, linked by `sibling`
    left = nodes[node].child
    nodes[node].child = NONE
    while left != NONE:
        right = nodes[left].sibling
        rest = NONE
        nodes[left].sibling = NONE
        if right != NONE:
            rest = nodes[right].sibling
            nodes[right].sibling = NONE
        pair = meld(nodes, ties, left, right)
        nodes[pair].sibling = pairs
        pairs = pair
        left = rest
    root = NONE
    while pairs != NONE:
        pair = pairs
        pairs = nodes[pair].sibling
        nodes[pair].sibling = NONE
        root = meld(nodes, ties, root, pair)
    if root != NONE:
        nodes[root].previous = NONE
    return root


@compiled
def without(
    nodes: Records, ties: Records | None, root: int, node: int
) -> int:  # pragma: no cover - compiled
    """Take a node alone out of the heap with this root. Returns the new root."""
    if node == root:
        return below(nodes, ties, node)
    cut(nodes, node)
    return meld(nodes, ties, root, below(nodes, ties, node))
