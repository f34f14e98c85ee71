"""Finds the requisites of what was fetched: the files that are needed to show a page.

A page needs style sheets, scripts, images and fonts. A style sheet needs other sheets, images and
fonts. Nothing else of a requisite is read: its links aren't followed.
"""

from collections.abc import Generator, Iterable
from typing import Final

from crawler import config
from crawler.ports import Fetched, Response
from crawler.reading.media import HTML_TYPES, types_of
from crawler.reading.scope import Scope

# Steps from a page: its sheet, a sheet that this one imports, and so on, to an image or a font. A
# redirect is a step, too. The real web has about four.
MOST_STEPS: Final = 8
_SHEET: Final = "text/css"


class Requisites:
    """Finds requisites, if `extract.requisites` wants them (`wanted`)."""

    def __init__(self, settings: config.Config, scope: Scope) -> None:
        self.wanted = settings.extract.requisites
        self._max_links = settings.extract.max_links
        self._max_link_bytes = int(settings.extract.max_link_bytes)
        self._scope = scope

    def is_sheet(self, response: Response) -> bool:
        """Whether a response is a style sheet whose requisites are wanted."""
        if not (self.wanted and response.has_page):
            return False
        media, label = types_of(response)
        is_named_so = response.url.partition("?")[0].lower().endswith(".css")
        return _SHEET in {media, label} or (is_named_so and media not in HTML_TYPES)

    def of_sheet(self, response: Response) -> Generator[None, None, list[str]]:
        """Return the URLs that a style sheet needs, in steps."""
        from crawler.reading.parse.requisites import of_sheet  # noqa: PLC0415  few crawls want them

        return (yield from of_sheet(response, self._max_links, self._max_link_bytes))

    def of_requisite(
        self, fetched: Fetched, response: Response
    ) -> Generator[None, None, list[str]]:
        """Return the URLs that a requisite needs itself, in steps; none if it is no style sheet."""
        if response.status == 304 and fetched.earlier is not None:
            return list(fetched.earlier.requisites)
        if self.is_sheet(response):
            return (yield from self.of_sheet(response))
        return []

    def note(self, fetched: Fetched, needed: Iterable[str]) -> None:
        """Put the requisites that may be fetched into a fetch. It may be of any role."""
        if self.wanted and fetched.found.steps_on <= MOST_STEPS:
            links = map(self._scope.requisite, needed)
            fetched.requisites = [link for link in links if link is not None]
