"""The numbers that say how much is searched. docs/results/partitioning.md has the measurements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from partition.models import Units


@dataclass(frozen=True, slots=True)
class Policy:
    """How many searches there are, and when the hybrid model's two aims are reached."""

    # Searches whose partitions are combined. With more units, each search finds a smaller share
    # of what can be gained.
    searches: Mapping[Units, int] = field(
        default_factory=lambda: {Units.SITES: 1, Units.HYBRID: 2, Units.PAGES: 4}
    )
    max_links: int = 4_000_000  # on a web with more links, there is only one search
    seed_step: int = 1000  # between the seeds of two searches; more than there are tries

    # The hybrid model's aims: its messages relative to those of the site hypergraph, its volume
    # relative to that of the site graph. Both vary by one or two percent between seeds.
    messages_allowed: float = 1.01
    volume_allowed: float = 1.03
    # The weight of the volume in the objective. The weight of the messages is 1, and both are
    # measured relative to a reference partition.
    volume_weight: float = 0.2
    # The weight of the volume is multiplied or divided by this factor after each missed aim.
    weight_step: float = 3.0
    max_weight_changes: int = 6

    def number(self, units: Units, links: int) -> int:
        """Return the number of searches for a kind of units on a web with this many links."""
        return self.searches[units] if links <= self.max_links else 1


DEFAULT: Final = Policy()
