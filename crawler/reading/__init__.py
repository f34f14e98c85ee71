"""Reads responses and finds their links: HTML, feeds, sitemaps, robots.txt, scope, traps."""
