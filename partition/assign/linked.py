"""What a search knows of a web: its atoms, how they may be united, and what a partition costs.

Atoms are the pages of a web. On several ranks, they are the units of a model. Arrays of units and
parts have an entry for each atom.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from partition import evaluate, models
from partition.arrays import Ids, Ints
from partition.evaluate import Evaluation
from partition.hypergraph import Hypergraph
from partition.models import Graph, Objective, Units
from partition.settings import Settings
from partition.webgraph import WebGraph


class Counts(Protocol):
    """What a search compares."""

    @property
    def messages_page_part(self) -> int:
        """The number of messages."""
        ...

    @property
    def volume_bytes(self) -> int:
        """The lengths of the URLs of all links between parts."""
        ...

    @property
    def imbalances(self) -> tuple[float, float]:
        """The imbalances of bytes and of requests."""
        ...


class Linked(Protocol):
    """A web, or the units of a model of a web."""

    @property
    def links(self) -> int:
        """The number of links of the web."""
        ...

    def whole(self) -> Ids | None:
        """Return the site of each atom as its unit; None if atoms aren't known to be of a site."""
        ...

    def weights(self, unit: Ids) -> Ints:
        """Return the bytes and requests of each unit."""
        ...

    def graph(self, unit: Ids) -> Graph:
        """Return the graph of the units (`models.graph`)."""
        ...

    def hypergraph(self, unit: Ids, objective: Objective) -> Hypergraph:
        """Return the hypergraph of the units (`models.hypergraph`)."""
        ...

    def counts(self, part: Ids, parts: int) -> Counts:
        """Return what a partition of the atoms costs."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """The pages of a web as atoms. Sites of a group in `together` are one unit."""

    web: WebGraph
    together: Mapping[str, str]

    @property
    def links(self) -> int:
        """The number of links."""
        return self.web.links

    def whole(self) -> Ids:
        """Return the site, or the group of sites, of each page as its unit."""
        return models.units(self.web, Units.SITES, 1, self.together)

    def weights(self, unit: Ids) -> Ints:
        """Return the bytes and requests of each unit."""
        return models.weights(self.web, unit)

    def graph(self, unit: Ids) -> Graph:
        """Return the graph of the units."""
        return models.graph(self.web, unit)

    def hypergraph(self, unit: Ids, objective: Objective) -> Hypergraph:
        """Return the hypergraph of the units."""
        return models.hypergraph(self.web, unit, objective)

    def counts(self, part: Ids, parts: int) -> Evaluation:
        """Return what a partition of the pages costs."""
        return evaluate.evaluate(self.web, part, parts)


def units(web: WebGraph, kind: Units, parts: int, settings: Settings) -> Ids:
    """Return the unit of each page. Sites in `whole` and `together` stay whole."""
    whole = settings.whole.union(settings.together)
    return models.units(web, kind, parts, settings.together, whole)
