"""What a site gets to see beyond the usual request: configured headers, logins, cookies.

The secrets among it go over the wire and nowhere else: `withhold` makes the text for records.
"""

import netrc
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from crawler import config
from crawler.ports import UserError
from crawler.url import authority
from crawler.url import host as host_of

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = frozenset(("connection", "content-length", "host", "transfer-encoding"))
# A header with such a word in its name is taken for a secret.
_SECRET: Final = re.compile(
    r"auth|cookie|credential|key|passw|secret|session|signature|token", re.I
)


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


def withhold(name: str, value: str) -> str:
    """The value of a request header as records show it: those of secrets are left out."""
    return "withheld" if _SECRET.search(name) else value


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
    """The cookies of a file that haven't expired, those with longer paths first."""
    if not file:
        return []
    number = 0
    cookies: list[_Cookie] = []
    try:
        for line in Path(file).read_text("utf-8").splitlines():
            number += 1
            text = line.removeprefix("#HttpOnly_")
            if text.strip() and not text.startswith("#"):
                cookies += _parse_cookie(text)
    except OSError as error:
        raise UserError(
            f"fetch.cookies_file: {file}: {error.strerror}; a Netscape cookies.txt is needed"
        ) from None
    except ValueError:  # a UnicodeDecodeError is one
        raise UserError(
            f"fetch.cookies_file: {file}: line {number}: a Netscape cookies.txt has 7 fields"
            " between tabs: domain, TRUE or FALSE for hosts below it, path, TRUE or FALSE for https"
            " only, time of expiry, name, value"
        ) from None
    return sorted(cookies, key=lambda cookie: -len(cookie.path))


def _parse_cookie(line: str) -> list[_Cookie]:
    """None if it has expired. Raises ValueError."""
    domain, below, path, secure, expires, name, value = line.split("\t")
    pair = f"{name}={value}" if name else value
    if not _is_plain(pair):
        raise ValueError(name)
    if 0 < int(expires or 0) < time.time():  # 0: those that a browser forgets when it ends
        return []
    return [_Cookie(pair, domain.lower().lstrip("."), below == "TRUE", path, secure == "TRUE")]
