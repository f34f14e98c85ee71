"""The models by name: kinds of units, and objectives.

A message is a pair of a page and another part that the page has links to. In the model
`site-messages`, as in the site paper, it is a pair of a site and another part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from partition.evaluate import Evaluation


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective: t_start * messages + t_byte * bytes. Less is better.

    Messages are pairs of a page and another part. With `by_site` they are pairs of a site and
    another part; then no site may be split. The bytes are those of the URLs of all inter-part
    links. If senders remember what they have sent, each URL counts once for each sending part.
    """

    t_start: float = 1.0
    t_byte: float = 0.0
    remember: bool = False
    by_site: bool = False

    def value(self, counts: Evaluation) -> float:
        """Return the objective of a partition with these counts."""
        messages = counts.messages_site_part if self.by_site else counts.messages_page_part
        sent = counts.transmission_bytes if self.remember else counts.volume_bytes
        return self.cost(messages, sent)

    def cost(self, messages: int, sent: int) -> float:
        """Return the objective of messages with so many bytes sent."""
        return self.t_start * messages + self.t_byte * sent


MESSAGES: Final = Objective()
SITE_MESSAGES: Final = Objective(by_site=True)
VOLUME: Final = Objective(t_start=0, t_byte=1)


class Units(Enum):
    """The kinds of units: pages, sites, or (hybrid) sites and pieces of heavy sites."""

    PAGES = "pages"
    SITES = "sites"
    HYBRID = "hybrid"


class Model(NamedTuple):
    """The units, whether they form a hypergraph or a graph, and the objective."""

    units: Units
    hyper: bool
    objective: Objective


MODELS: Final[Mapping[str, Model]] = {
    "page-graph": Model(Units.PAGES, hyper=False, objective=VOLUME),
    "site-graph": Model(Units.SITES, hyper=False, objective=VOLUME),
    "page-hypergraph": Model(Units.PAGES, hyper=True, objective=MESSAGES),
    "site-hypergraph": Model(Units.SITES, hyper=True, objective=MESSAGES),
    "site-messages": Model(Units.SITES, hyper=True, objective=SITE_MESSAGES),
    "hybrid": Model(Units.HYBRID, hyper=True, objective=MESSAGES),
}
