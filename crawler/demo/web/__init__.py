"""The web of the demonstration: made from a seed, served on loopback, known to the last link.

`DemoWeb.generate` decides sites, pages and links; a page is written when it is asked for. Same
seed, same web, byte for byte. Sites lie in communities of a common topic and link mostly within
them, so that a partition of the sites pays. Mixed in is what a crawler meets: redirects inside and
across sites, dead links, duplicates, robots.txt, `base`, encodings, links of every spelling.

`serve` runs the server in a child process; by hand it is `python -m crawler.demo.web --seed 1`.
"""

from crawler.demo.web.server import outside_mpi, serve
from crawler.demo.web.web import DemoWeb

__all__ = ["DemoWeb", "outside_mpi", "serve"]
