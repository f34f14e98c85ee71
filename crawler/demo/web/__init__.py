"""The web of the demonstration. It is generated from a seed, so every page and link is known.

`DemoWeb.generate` decides which sites, pages and links there are. The HTML of a page is written
when somebody asks for it. The same seed gives the same web, byte for byte.

Sites with a common topic form a community, and most links stay within the community. So a good
partition of the sites has far fewer links between its parts than a hash has. The web also has what
a crawler must handle: redirects inside and across sites, dead links, duplicates, robots.txt,
`base` elements, encodings, and different spellings of links.

`serve` runs the server in a child process. `python -m crawler.demo.web --config demo.toml` runs it
by hand, and writes the configuration of a crawl of it (docs/tutorial.md).
"""

from crawler.demo.web.server import outside_mpi, serve, settings
from crawler.demo.web.web import DemoWeb

__all__ = ["DemoWeb", "outside_mpi", "serve", "settings"]
