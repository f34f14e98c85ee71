"""Configured headers, logins and cookies, which requests send beside the usual headers.

Their values go over the wire and nowhere else. Records and logs show only the names of such
headers, whatever the name.
"""

import logging
import math
import netrc
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from crawler import config, textfile
from crawler.ports import UserError
from crawler.url import authority
from crawler.url import host as host_of

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = frozenset(("connection", "content-length", "host", "transfer-encoding"))
_LOG = logging.getLogger("crawler")
_FIELDS: Final = (
    "domain, TRUE or FALSE for hosts below it, path, TRUE or FALSE for https only, time of expiry,"
    " name, value"
)
_HTTP_ONLY: Final = "#HttpOnly_"  # no comment, but a cookie that scripts don't get to see
_DOMAIN: Final = re.compile(r"\.?[^\s/.][^\s/]*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAMED: Final = 10  # lines that a warning names


class Credentials:
    """Further headers by URL. Raises UserError for what can't be read or sent."""

    def __init__(self, fetch: config.Fetch) -> None:
        self._by_site: dict[str, dict[str, str]] = {}
        for site, headers in fetch.headers.items():
            self._by_site[site.lower().rstrip("/")] = dict(headers)
            for name, value in headers.items():
                _check_header(site, name, value)
        self._logins = _logins(fetch.netrc_file)
        self._cookies = _cookies(fetch.cookies_file)

    def __bool__(self) -> bool:
        return bool(self._by_site or self._logins or self._cookies)

    def headers(self, url: str) -> Mapping[str, str]:
        """Those for a normalised URL; those of its authority go before those of its host."""
        host = host_of(url)
        headers: dict[str, str] = {}
        if login := self._logins.get(host):
            headers["Authorization"] = login
        cookies = [cookie for cookie in self._cookies if cookie.belongs(url, host)]
        if cookies:
            headers["Cookie"] = "; ".join(cookie.pair for cookie in cookies)
        for site in (host, authority(url)):
            headers.update(self._by_site.get(site, {}))
        return headers


class _Cookie(NamedTuple):
    pair: str
    domain: str  # without a leading dot
    below: bool  # hosts below the domain are meant too
    path: str
    secure: bool

    def belongs(self, url: str, host: str) -> bool:
        """Whether it goes with a request (RFC 6265, 5.4)."""
        if self.secure and not url.startswith("https:"):
            return False
        if host != self.domain and not (self.below and host.endswith("." + self.domain)):
            return False
        path = url[url.index("/", 8) :].partition("?")[0]
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")


def _check_header(site: str, name: str, value: str) -> None:
    """The message doesn't show the value."""
    if not _TOKEN.fullmatch(name) or name.lower() in _OURS or not _is_plain(value):
        raise UserError(
            f'fetch.headers: "{site}" = {{"{name}" = ...}}: a header name (not of'
            f" {', '.join(sorted(_OURS))}) and a value of printable ASCII are needed"
        )


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _logins(file: str) -> dict[str, str]:
    """Values for Authorization by host. An entry for any host (`default`) isn't used."""
    if not file:
        return {}
    try:
        hosts = netrc.netrc(file).hosts
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError) as error:
        reason = error.msg if isinstance(error, netrc.NetrcParseError) else error
        raise UserError(f"fetch.netrc_file: {file}: {reason}; a netrc file is needed") from None
    return {
        name.lower(): "Basic " + b64encode(f"{login}:{password}".encode()).decode()
        for name, (login, _, password) in hosts.items()
        if name != "default"
    }


def _cookies(file: str) -> list[_Cookie]:
    """The cookies of a file that haven't expired, those with longer paths first.

    Lines that are no cookies are left out with a warning. Raises UserError for a file without a
    cookie.
    """
    if not file:
        return []
    try:
        text = textfile.decode(Path(file).read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.reason
        raise UserError(
            f"fetch.cookies_file: {file}: {reason}; a Netscape cookies.txt is needed"
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
        if 0 < expires < now:  # 0 and less: those that a browser forgets when it ends
            expired += 1
        else:
            cookies.append(cookie)
    if not (cookies or expired):
        where = f"line {odd[0]}" if odd else "no cookie in it"
        raise UserError(
            f"fetch.cookies_file: {file}: {where}: a Netscape cookies.txt has 7 fields"
            f" between tabs: {_FIELDS}"
        )
    if expired and not cookies:
        _LOG.warning("fetch.cookies_file: %s: all its cookies have expired", file)
    if odd:
        lines = ", ".join(map(str, odd[:_NAMED])) + (", ..." if len(odd) > _NAMED else "")
        _LOG.warning(
            "fetch.cookies_file: %s: %d lines are no cookies and left out: %s",
            file,
            len(odd),
            lines,
        )
    return sorted(cookies, key=lambda cookie: -len(cookie.path))


def _parse_cookie(line: str) -> tuple[_Cookie, float]:
    """A cookie, and when it expires, in seconds since the epoch. Raises ValueError.

    A value may be missing, with its tab or without, and may hold tabs, which are sent as such.
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
