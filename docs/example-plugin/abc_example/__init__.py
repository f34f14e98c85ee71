"""Example plug-ins. Each stands for its kind: copy this package, and change what you need."""

from collections.abc import Iterator, Sequence
from zlib import crc32

from crawler import plugins


class NoWords:
    """A filter with options: leaves out URLs that contain one of some words."""

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise ValueError("words: name at least one word")
        self._words = words

    def __call__(self, url: str) -> bool:
        """Whether the URL belongs to the crawl."""
        return not any(word in url for word in self._words)


def short_first(found: plugins.Found) -> float:
    """An ordering: short URLs come first, and of these the ones near a seed."""
    return -len(found.url) - found.hops / 100


def by_suffix(site: str, parts: int) -> int:
    """A scheme: all sites of a top-level domain, such as `org`, are in one part."""
    host = site.partition(":")[0]
    return crc32(host.rpartition(".")[2].encode()) % parts


class Headings:
    """A handler with options: a row for each heading of a page, down to a level."""

    def __init__(self, deepest: int = 2) -> None:
        if not 1 <= deepest <= 6:
            raise ValueError("deepest: HTML has headings from 1 to 6")
        self._selector = ", ".join(f"h{level}" for level in range(1, deepest + 1))

    def __call__(self, page: plugins.Page) -> Iterator[dict[str, object]]:
        """Give the rows of a page."""
        for heading in page.tree.css(self._selector):
            text = " ".join(heading.text().split())
            yield {"tag": heading.tag, "text": text}
