"""Models: which units are assigned to parts, and what an assignment costs.

A model maps pages to units, which are its vertices: pages, sites, or pieces of sites (hybrid). It
has a graph or a hypergraph of the units. In a graph, the cost of the cut edges is the volume. In a
hypergraph, connectivity - 1 is the number of messages. Links inside a unit cost nothing and aren't
in the model. Türk's thesis has the four combinations of pages or sites with a graph or a
hypergraph.

`model` names the models, and has their objectives. `division` divides a web into units, with the
directories of `tree`. `nets` makes the graph or the hypergraph.
"""

from partition.models.division import SHARE, units, weights
from partition.models.model import (
    MESSAGES,
    MODELS,
    SITE_MESSAGES,
    VOLUME,
    Model,
    Objective,
    Units,
)
from partition.models.nets import (
    Graph,
    as_hypergraph,
    factor,
    graph,
    graph_of,
    hypergraph,
    nets_of,
    summed,
    whole_costs,
)
from partition.models.tree import directories, directory_parts, split_tree

__all__ = [
    "MESSAGES",
    "MODELS",
    "SHARE",
    "SITE_MESSAGES",
    "VOLUME",
    "Graph",
    "Model",
    "Objective",
    "Units",
    "as_hypergraph",
    "directories",
    "directory_parts",
    "factor",
    "graph",
    "graph_of",
    "hypergraph",
    "nets_of",
    "split_tree",
    "summed",
    "units",
    "weights",
    "whole_costs",
]
