"""A fetcher that reports each request with its times, for the request log of the rank."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from crawler import url
from crawler.net.waits import BUSY, retry_after_s
from crawler.ports import (
    UNASKED,
    Asked,
    Clock,
    Failure,
    Fetcher,
    FetchError,
    MovedError,
    Response,
    Validators,
)
from crawler.reading.scope import Sites
from crawler.session.gaps import CANCELLED

_MOVED: Final = "moved"
_NO_REQUEST: Final = UNASKED | {Failure.DNS_FAILED}


class NotingFetcher:
    """Fetches with another fetcher, and reports each request (`ports.Fetcher`).

    A failure before a connection was tried counts as no request.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        kind: str,
        sites: Sites,
        note: Callable[[Asked], None],
        clock: Clock,
        time: Callable[[float], float],
    ) -> None:
        """Wrap a fetcher.

        `kind` is that of all requests (see Asked). `note` gets each request. `time` converts a time
        of `clock` to seconds since the epoch.
        """
        self._time = time
        self._fetcher = fetcher
        self._kind = kind
        self._sites = sites
        self._note = note
        self._clock = clock

    async def locate(self, url: str) -> str:
        """Return the server of a URL, as the other fetcher names it."""
        return await self._fetcher.locate(url)

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        """Make one exchange with the other fetcher, and report it."""
        began = self._clock.now()
        try:
            response = await self._fetcher.fetch(url, validators, max_bytes, cookie)
        except BaseException as failed:
            error, server = _error_of(failed)
            if error not in _NO_REQUEST:
                self._note(self._asked(url, began, None, error, server))
            raise
        self._note(self._asked(url, began, response, None, response.address))
        return response

    def _asked(
        self,
        address: str,
        began: float,
        response: Response | None,
        error: str | None,
        server: str | None,
    ) -> Asked:
        authority = url.authority(address)
        status = None if response is None else response.status
        wait_s = None
        if response is not None and (status in BUSY or response.status >= 500):
            with suppress(Exception):  # the fetch stage, which obeys the header, reports its faults
                wait_s = retry_after_s(response, self._clock.time())
        return Asked(
            started=self._time(began),
            seconds=self._clock.now() - began,
            site=self._sites.of_authority(authority),
            authority=authority,
            kind=self._kind,
            key=url.own_key(address),
            status=status,
            error=error,
            address=server,
            retry_after_s=wait_s,
        )


def _error_of(failed: BaseException) -> tuple[str, str | None]:
    """Return what the log calls the error of a request, and the server's address, if known."""
    if isinstance(failed, FetchError):
        return failed.failure.value, failed.address
    if isinstance(failed, MovedError):
        return _MOVED, None
    return Failure.INTERNAL.value if isinstance(failed, Exception) else CANCELLED, None
