"""Reads the dates in headers of responses."""

from datetime import UTC


def epoch_s(date: str) -> float:
    """Return the seconds since the epoch of a date in a header. Without a zone it is in UTC.

    Raises ValueError or OverflowError if it is none.
    """
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  few crawls meet a date

    found = parsedate_to_datetime(date)
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
