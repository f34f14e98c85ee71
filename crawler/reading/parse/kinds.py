"""Chooses documents by the kinds that a configuration names."""

import fnmatch
from collections.abc import Iterable
from functools import lru_cache


class MediaTypes:
    """Chooses documents by their media type, and by the extension in the path of their URL.

    A pattern is a media type like `image/*`, or an extension like `.zip`. A pattern that begins
    with `!` excludes documents that other patterns choose.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        chosen: list[str] = []
        refused: list[str] = []
        for pattern in patterns:
            kind = refused if pattern.startswith("!") else chosen
            kind.append(pattern.removeprefix("!").lower())
        self._chosen = _Patterns(chosen)
        self._refused = _Patterns(refused)
        self._by_name = any(pattern.startswith(".") for pattern in chosen + refused)

    def hold(self, media: str, url: str, label: str | None = None) -> bool:
        """Whether a document of this media type at this normalised URL is chosen.

        `label` is the type in its header, if that differs. A pattern that matches one of the two
        types matches the document.
        """
        name = url.partition("?")[0].rpartition("/")[2].lower() if self._by_name else ""
        if label is None or label == media:
            return self._chosen.match(media, name) and not self._refused.match(media, name)
        types = (media, label)
        return any(self._chosen.match(one, name) for one in types) and not any(
            self._refused.match(one, name) for one in types
        )


class _Patterns:
    def __init__(self, patterns: list[str]) -> None:
        self._extensions = tuple(pattern for pattern in patterns if pattern.startswith("."))
        self._types = [pattern for pattern in patterns if not pattern.startswith(".")]

        self._match_type = lru_cache(1024)(self._match_type_uncached)

    def match(self, media: str, name: str) -> bool:
        return self._match_type(media) or name.endswith(self._extensions)

    def _match_type_uncached(self, media: str) -> bool:
        return any(fnmatch.fnmatchcase(media, pattern) for pattern in self._types)
