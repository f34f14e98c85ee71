"""A fetcher that stores, in the archive of the rank, exchanges of which no row is logged."""

from functools import partial

from crawler.agent.room import with_room
from crawler.ports import Clock, Fetcher, FetchError, Repository, Response, Validators


class RecordingFetcher(Fetcher):
    """Fetches with another fetcher. Stores responses, or failures, or both (`storage.records`)."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        store: Repository,
        clock: Clock,
        responses: bool,
        failures: bool,
    ) -> None:
        self._fetcher = fetcher
        self._store = store
        self._clock = clock
        self._responses = responses
        self._failures = failures

    async def locate(self, url: str) -> str:
        """Return the server of a URL, as the other fetcher names it."""
        started, began = self._clock.time(), self._clock.now()
        try:
            return await self._fetcher.locate(url)
        except FetchError as error:
            await self._keep_failure(url, started, began, error)
            raise

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        """Make one exchange with the other fetcher, and store what is to be stored."""
        started, began = self._clock.time(), self._clock.now()
        try:
            response = await self._fetcher.fetch(url, validators, max_bytes, cookie)
        except FetchError as error:
            await self._keep_failure(url, started, began, error)
            raise
        if self._responses:
            await with_room(partial(self._store.keep, url, response))
            await with_room(self._store.flush)
        return response

    async def _keep_failure(
        self, url: str, started: float, began: float, error: FetchError
    ) -> None:
        if self._failures:
            seconds = self._clock.now() - began
            keep = partial(self._store.keep_failure, url, started, seconds, error)
            await with_room(keep)
            await with_room(self._store.flush)
