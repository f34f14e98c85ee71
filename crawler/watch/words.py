"""A status in words and short numbers."""

from typing import Final

from crawler.commandline import printable
from crawler.pages.words import percent
from crawler.session import State, Status

_SHOWN_FAILURES: Final = 4  # kinds of failures that are named
_UNITS: Final = ("k", "M", "G", "T")


def line(status: Status) -> str:
    """Return the progress in one line."""
    limit = f" of {status.max_pages:,}" if status.max_pages else ""
    words = (
        f"{duration(status.seconds)}  {status.pages:,}{limit} pages"
        f"  {status.pages_per_second:,.0f}/s  {status.bytes / 1e6:,.1f} MB"
        f"  {status.waiting:,} waiting  {status.failed:,} not fetched"
    )
    if status.state is State.CRAWLING:
        return f"{words}  limited by {status.bound}"
    return f"{words}  {status.state}"


def head(status: Status) -> list[tuple[str, str]]:
    """Return what is to be seen at first, as pairs of a word and what it says."""
    state = status.state.value
    if status.state is State.ENDED:
        state = f"ended: {status.reason}"
    elif status.state is State.LOST:
        state = f"ended without a word; continue it: python -m crawler resume {status.session}"
    elif status.state is State.PAUSED:
        state = f"paused; go on with it: python -m crawler continue {status.session}"
    limit = f" of {status.max_pages:,}" if status.max_pages else ""
    pages = f"{status.pages:,}{limit}, {status.pages_per_second:,.1f}/s"
    if status.left_s is not None and status.state is State.CRAWLING:
        # More URLs may be found, so those that are known give the shortest time.
        least = "at least " if status.left_until == "no URLs" else ""
        pages += f", {least}{duration(status.left_s)} left until {status.left_until}"
    done = status.good + status.failed
    well = f"{percent(status.good / done)} of {done:,} URLs" if done else "nothing fetched yet"
    kinds = sorted(status.by_failure.items(), key=lambda one: (-one[1], one[0]))
    named = ", ".join(f"{kind} {count:,}" for kind, count in kinds[:_SHOWN_FAILURES])
    more = ", ..." if len(kinds) > _SHOWN_FAILURES else ""
    polite = "kept" if not status.early else f"{status.early:,} requests came too early"
    lines = [
        ("state", f"{state}, {duration(status.seconds)}, {_ranks(status.ranks)}"),
        ("pages", pages),
        ("went well", well),
        ("not fetched", f"{status.failed:,}" + (f": {named}{more}" if kinds else "")),
        *([("requisites", f"{status.requisites:,}")] if status.requisites else []),
        ("waiting", f"{status.waiting:,} URLs"),
        ("politeness", polite),
    ]
    if status.plugin_errors:
        failed = sorted(status.plugin_errors.items())
        counts = ", ".join(f"{name} {count:,}" for name, count in failed)
        lines.append(("plug-ins", f"errors: {counts}"))
    if status.state is State.CRAWLING:
        lines.append(("limited by", status.bound.value))
    return [(word, printable(says)) for word, says in lines]


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count:,} ranks"


def duration(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


def short(number: float) -> str:
    """Return a number in at most six characters, such as 99,999 or 123k or 1.2M."""
    if number < 100_000:
        return f"{number:,.0f}"
    for unit in _UNITS:
        number /= 1000
        if number < 9.95:
            return f"{number:.1f}{unit}"
        if number < 999.5 or unit == _UNITS[-1]:
            return f"{number:,.0f}{unit}"
    raise AssertionError
