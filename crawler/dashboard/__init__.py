"""What rank 0 tells by HTTP while a crawl runs, if `dashboard.listen` is set.

Everything is made from the `session.Status` that rank 0 has at that moment. Nothing here decides
anything about the crawl.
"""
