"""Reading Retry-After: how long a server wants to be left alone."""

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from crawler.ports import Response

BUSY: Final = frozenset((429, 503))  # statuses of a server that has too much to do
_LONGEST_VALUE: Final = 100  # bytes; no date has so many


def retry_after_s(response: Response, now: float) -> float | None:
    """The seconds that Retry-After asks for; None without one. `now`: since the epoch."""
    value = response.header(b"retry-after")
    if value is None or len(value) > _LONGEST_VALUE:
        return None
    if value.isdigit():
        return float(value)
    try:
        date = parsedate_to_datetime(value.decode("ascii"))
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, OverflowError):
        return None
