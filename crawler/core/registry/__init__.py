"""The URL registry of a seed server: all URLs that it knows, and the best of them.

`registry` is the face, in Python. The hot code is compiled and works on arrays: `table` finds the
row of a key, `heap` is a pairing heap in arrays, `moves` changes the state of one URL and keeps the
heaps in order, `dealing` hands out URLs to several clients, `rescoring` changes all scores at once.
`records` describes the arrays, `arrays` lets them grow, and `texts` keeps the URLs in compressed
blocks.

Importing this package imports numba, so only a seed server may do that.
"""

from crawler.core.registry.registry import Registry

__all__ = ["Registry"]
