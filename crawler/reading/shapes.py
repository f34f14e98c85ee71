"""Rules on traps that judge a URL alone, by its shape."""

import re

from crawler import config
from crawler.url import MAX_FOLLOWED

# Words in the URLs of calendars, and dates: a year with its month, or a year as a parameter.
_CALENDAR = ("calend", "kalend", "takvim", "event", "agenda", "termin", "schedul", "month", "week",
             "/cal", "=cal", "/day", "day=", "date=")  # fmt: skip
_DATE = re.compile(
    r"(?<!\d)(\d{4})(?:[-/_.](?:0?[1-9]|1[0-2])|(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01]))(?!\d)"
    r"|(?:year|yr|jahr|annee|yil|y)=(\d{1,6})(?!\d)"
)
_LONGEST_PATTERN = 8  # segments that repeat together


class Shapes:
    """Applies the rules that judge a URL alone."""

    def __init__(self, traps: config.Traps, year: int) -> None:
        """`year` is the present year."""
        self._traps = traps
        self._year = year
        self._max_length = min(traps.max_url_length or MAX_FOLLOWED, MAX_FOLLOWED)

    def rule(self, address: str) -> str | None:
        """Return the rule that keeps a normalised URL out, or None."""
        traps = self._traps
        if len(address) > self._max_length:
            return "max_url_length"
        end = address.find("?")
        start = address.index("/", 8) + 1
        count = address.count("/", start, end if end >= 0 else None) + 1
        if 0 < traps.max_path_segments < count:
            return "max_path_segments"
        if 0 < traps.max_repeated_segments < count:
            segments = address[start : end if end >= 0 else None].split("/")
            if _repeats(segments, traps.max_repeated_segments):
                return "max_repeated_segments"
        if traps.max_calendar_years and self._is_far(address):
            return "max_calendar_years"
        return None

    def _is_far(self, address: str) -> bool:
        text = address.lower()
        for word in _CALENDAR:
            if word in text:
                return any(
                    abs(int(dated or year) - self._year) > self._traps.max_calendar_years
                    for dated, year in _DATE.findall(text)
                )
        return False


def _repeats(segments: list[str], most: int) -> bool:
    """Whether a pattern of segments occurs more than `most` times in a row."""
    if len(segments) - len(set(segments)) < most:
        return False
    longest = min(len(segments) // (most + 1), _LONGEST_PATTERN)
    for length in range(1, longest + 1):
        same = 0  # segments in a row that equal the one `length` places before
        for at in range(length, len(segments)):
            same = same + 1 if segments[at] == segments[at - length] else 0
            if same == length * most:
                return True
    return False
