"""What a user sees of a running crawl: a line, or a table that is drawn again each second.

Everything is drawn from a `session.Status`, so a crawl that draws itself and the command `watch`
look the same. Nothing here touches the crawl.
"""
