"""Serves the web of the demonstration: `python -m crawler.demo.web`."""

from crawler.demo.web.server import main

main()
