"""The stores of URL-seen: which URLs a rank has met, in memory or on disk.

`core.seen` says what a store must do. The stores here hold nothing that the logs don't hold too, so
their files may be removed at any time while no crawl runs. `files` is the only code that writes or
reads whole files of a store.
"""
