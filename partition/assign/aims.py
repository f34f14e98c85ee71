"""The two aims of the hybrid model, few messages and little volume, and the weight between them.

The rule: a weighted sum of both is minimised. The messages are measured relative to those of the
site hypergraph, the volume relative to that of the site graph. A partition misses an aim if it has
over 1 % more messages, or over 3 % more volume (`policy`). Then the weight changes.
"""

from dataclasses import dataclass
from typing import NamedTuple

from partition.assign.linked import Counts
from partition.assign.policy import Policy
from partition.models import Objective
from partition.settings import Tolerances


def weighed(weight: float, messages: Counts, volume: Counts) -> Objective:
    """Return an objective: messages plus `weight` times volume, each relative to a reference."""
    return Objective(
        t_start=1 / max(messages.messages_page_part, 1), t_byte=weight / max(volume.volume_bytes, 1)
    )


def within(counts: Counts, tolerances: Tolerances) -> bool:
    """Return whether a partition with these counts is balanced."""
    pairs = zip(counts.imbalances, tolerances, strict=True)
    return all(imbalance <= bound for imbalance, bound in pairs)


class Misses(NamedTuple):
    """Messages and volume of a partition relative to the aims; above 1 is a miss."""

    messages: float
    volume: float


@dataclass(frozen=True, slots=True, eq=False)
class Aims:
    """The aims that two partitions set: one with few messages, and one with little volume.

    A partition that isn't balanced sets no aim.
    """

    few: Counts
    little: Counts
    tolerances: Tolerances
    allowed: float  # the largest imbalance that is allowed (`limits.allowed_imbalance`)
    policy: Policy

    def objective(self, weight: float) -> Objective:
        """Return the objective with this weight of the volume."""
        return weighed(weight, self.few, self.little)

    def misses(self, counts: Counts) -> Misses:
        """Return how a partition with these counts compares with the aims."""
        messages = counts.messages_page_part / max(
            self.policy.messages_allowed * self.few.messages_page_part, 1
        )
        volume = counts.volume_bytes / max(self.policy.volume_allowed * self.little.volume_bytes, 1)
        return Misses(
            messages * within(self.few, self.tolerances),
            volume * within(self.little, self.tolerances),
        )

    def rank(self, counts: Counts) -> tuple[bool, float, float, float]:
        """Return the rank of a partition: balance first, then the worse miss, then the sum.

        Of partitions that aren't balanced, the one comes first that exceeds what is allowed by
        the least. With giants, what is allowed is more than the tolerances.
        """
        objective = self.objective(self.policy.volume_weight)
        value = objective.cost(counts.messages_page_part, counts.volume_bytes)
        pairs = zip(counts.imbalances, self.tolerances, strict=True)
        beyond = [imbalance - self.allowed for imbalance, bound in pairs if imbalance > bound]
        over = max([0.0, *beyond])
        return bool(beyond), over, max(1.0, *self.misses(counts)), value


class Weight:
    """The weight of the volume, which follows the missed aims.

    It is multiplied by a step if the volume is the worse miss, or divided by the step if the
    messages are. Once both have been the worse miss in turn, the weight lies between. Then the
    step becomes its root.
    """

    def __init__(self, policy: Policy) -> None:
        self.value = policy.volume_weight
        self._step = policy.weight_step
        self._rose: bool | None = None

    def follow(self, missed: Misses) -> None:
        """Give more weight to what was missed by more."""
        rises = missed.volume > missed.messages
        if self._rose not in {None, rises}:
            self._step **= 0.5
        self._rose = rises
        self.value *= self._step if rises else 1 / self._step
