"""From a response to its links, and what a site allows: text, HTML, robots.txt, scope, traps."""
