"""Numbers, sizes and times in the words of the pages and of the terminal."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def number(value: float | None) -> str:
    """Return a number with commas, or `unknown`."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")


def percent(value: float | None) -> str:
    """Return a fraction as a percentage."""
    return "unknown" if value is None else f"{100 * value:.1f} %"


def size(count: float | None) -> str:
    """Return a number of bytes in its unit, such as `1.2 MB`."""
    if count is None:
        return "unknown"
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"


def duration(seconds: float | None) -> str:
    """Return a time in its two largest units, such as `3 min 20 s`."""
    if seconds is None:
        return "unknown"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = [(days, "d"), (hour, "h"), (minute, "min"), (second, "s")]
    first = next(at for at, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def short_url(url: str, longest: int = 200) -> str:
    """Return a URL, or its beginning and its end if it is longer than that."""
    if len(url) <= longest:
        return url
    return url[: longest * 2 // 3] + "…" + url[-(longest - longest * 2 // 3 - 1) :]


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + "." if text else ""
