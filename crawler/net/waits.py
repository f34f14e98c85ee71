"""Reads Retry-After: how long a server asks us to wait before the next request."""

from typing import Final

from crawler.dates import epoch_s
from crawler.ports import Response

BUSY: Final = frozenset((429, 503))  # statuses of an overloaded server
_LONGEST_VALUE: Final = 100  # bytes; every date is shorter


def retry_after_s(response: Response, now: float) -> float | None:
    """Return the seconds to wait, or None without a valid Retry-After.

    `now`: seconds since the epoch.
    """
    value = response.header(b"retry-after")
    if value is None or len(value) > _LONGEST_VALUE:
        return None
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, epoch_s(value.decode("ascii")) - now)
    except (ValueError, OverflowError):
        return None
