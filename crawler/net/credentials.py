"""Configured headers, logins and cookies, which requests send in addition to the usual headers.

Their values are sent to servers and written nowhere. Records and logs show only the names of these
headers.
"""

import logging
import math
import netrc
import re
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from crawler import config, textfile
from crawler.ports import UserError
from crawler.url import host as host_of

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = frozenset(("connection", "content-length", "host", "transfer-encoding"))
_LOG = logging.getLogger("crawler")
_FIELDS: Final = (
    "domain, TRUE or FALSE for hosts below it, path, TRUE or FALSE for https only, time of expiry,"
    " name, value"
)
_HTTP_ONLY: Final = "#HttpOnly_"  # begins a cookie that scripts can't read, not a comment
_DOMAIN: Final = re.compile(r"\.?[^\s/.][^\s/]*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAMED: Final = 10  # at most so many lines are named in a warning


class Credentials:
    """The configured headers for each URL.

    Raises UserError for a file that can't be read, and for a header that can't be sent.
    """

    def __init__(self, fetch: config.Fetch, sites: Sequence[config.Site] = ()) -> None:
        for number, site in enumerate(sites, 1):
            for name, value in (site.headers or {}).items():
                _check_header(number, name, value)
        self._has_headers = any(site.headers for site in sites)
        self._overrides = config.Overrides(sites)
        self._logins = _logins(fetch.netrc_file)
        self._cookies = _cookies(fetch.cookies_file)

    def __bool__(self) -> bool:
        return bool(self._has_headers or self._logins or self._cookies)

    def headers(self, url: str) -> Mapping[str, str]:
        """Return the headers for a normalised URL."""
        host = host_of(url)
        headers: dict[str, str] = {}
        if login := self._logins.get(host):
            headers["Authorization"] = login
        cookies = [cookie for cookie in self._cookies if cookie.belongs(url, host)]
        if cookies:
            headers["Cookie"] = "; ".join(cookie.pair for cookie in cookies)
        headers.update(self._overrides.at(url).headers or {})
        return headers


class _Cookie(NamedTuple):
    pair: str
    domain: str  # without a leading dot
    below: bool  # whether the cookie is also sent to hosts below the domain
    path: str
    secure: bool

    def belongs(self, url: str, host: str) -> bool:
        """Whether the cookie is sent with a request for a URL of a host (RFC 6265, 5.4)."""
        if self.secure and not url.startswith("https:"):
            return False
        if host != self.domain and not (self.below and host.endswith("." + self.domain)):
            return False
        path = url[url.index("/", 8) :].partition("?")[0]
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")


def _check_header(number: int, name: str, value: str) -> None:
    """Raise UserError if a configured header can't be sent. The message doesn't show the value."""
    if not _TOKEN.fullmatch(name) or name.lower() in _OURS or not _is_plain(value):
        raise UserError(
            f'[[sites]] {number}: headers = {{"{name}" = ...}} can\'t be sent: the name must be a'
            f" header name other than {', '.join(sorted(_OURS))}, and the value printable ASCII"
        )


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _logins(file: str) -> dict[str, str]:
    """Return the value of Authorization for each host. The entry `default` isn't used."""
    if not file:
        return {}
    try:
        hosts = netrc.netrc(file).hosts
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError) as error:
        reason = error.msg if isinstance(error, netrc.NetrcParseError) else error
        raise UserError(f"fetch.netrc_file: {file}: {reason}; expected a netrc file") from None
    return {
        name.lower(): "Basic " + b64encode(f"{login}:{password}".encode()).decode()
        for name, (login, _, password) in hosts.items()
        if name != "default"
    }


def _cookies(file: str) -> list[_Cookie]:
    """Return the cookies of a file that haven't expired, those with longer paths first.

    Lines that hold no cookie are skipped with a warning. Raises UserError if the file can't be
    read, or if no line of it holds a cookie.
    """
    if not file:
        return []
    try:
        text = textfile.decode(Path(file).read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.reason
        raise UserError(
            f"fetch.cookies_file: {file}: {reason}; expected a Netscape cookies.txt"
        ) from None
    now = time.time()
    cookies: list[_Cookie] = []
    expired, odd = 0, list[int]()
    for number, whole in textfile.lines(text):
        line = whole.lstrip(" ").removeprefix(_HTTP_ONLY)
        if not line.strip() or line.startswith("#"):
            continue
        try:
            cookie, expires = _parse_cookie(line)
        except ValueError:
            odd.append(number)
            continue
        if 0 < expires < now:  # 0 or less marks cookies that a browser forgets when it ends
            expired += 1
        else:
            cookies.append(cookie)
    if not (cookies or expired):
        where = f"line {odd[0]} holds no cookie" if odd else "holds no cookie"
        raise UserError(
            f"fetch.cookies_file: {file}: {where}; a Netscape cookies.txt has 7 fields"
            f" separated by tabs: {_FIELDS}"
        )
    if expired and not cookies:
        _LOG.warning("fetch.cookies_file: %s: all its cookies have expired", file)
    if odd:
        lines = ", ".join(map(str, odd[:_NAMED])) + (", ..." if len(odd) > _NAMED else "")
        _LOG.warning(
            "fetch.cookies_file: %s: %d lines hold no cookie and were skipped: %s",
            file,
            len(odd),
            lines,
        )
    return sorted(cookies, key=lambda cookie: -len(cookie.path))


def _parse_cookie(line: str) -> tuple[_Cookie, float]:
    """Return a cookie, and its expiry in seconds since the epoch. Raises ValueError if malformed.

    The value may be missing, with its tab or without. Tabs in the value are sent as they are.
    """
    fields = line.split("\t", 6) if "\t" in line else line.split(None, 6)
    if len(fields) == 6:
        fields.append("")
    domain, below, path, secure, expires, name, value = fields
    domain = domain.strip(" []").lower()
    below, secure = below.strip().upper(), secure.strip().upper()
    pair = f"{name}={value}" if name else value
    if not _DOMAIN.fullmatch(domain) or {below, secure} - {"TRUE", "FALSE"}:
        raise ValueError(line)
    if not pair or _CONTROL.search(pair):
        raise ValueError(line)
    cookie = _Cookie(
        pair, domain.lstrip("."), below == "TRUE", path.strip() or "/", secure == "TRUE"
    )
    when = float(expires.strip() or 0)
    if math.isnan(when):
        raise ValueError(expires)
    return cookie, when
