"""Cookies of a chain of redirects, kept until the chain ends.

Some sites set a cookie, redirect, and serve the page only to clients that send the cookie. The
crawler keeps no other cookies: it ignores those of pages, and no cookie outlives its chain
(docs/decisions/redirects.md). Matching follows RFC 6265. This module does no I/O.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crawler.dates import epoch_s
from crawler.messages import CookieTerms
from crawler.ports import Response
from crawler.reading.hosts import public_suffixes
from crawler.url import host as host_of

_MAX_JARS: Final = 2000  # of URLs that wait for a visit; if there are more, the oldest is dropped
_MAX_COOKIES: Final = 30  # in a jar
_MAX_BYTES: Final = 4096  # of the names and values in a jar
_JAR_BYTES: Final = 280  # of a jar, without its cookies
_COOKIE_BYTES: Final = 300  # of a cookie, without its name, value and path
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Cookie(NamedTuple):
    """A cookie, and the requests with which it is sent."""

    name: str
    value: str
    domain: str
    below: bool  # whether the cookie is also sent to hosts below the domain
    path: str
    secure: bool

    @property
    def pair(self) -> str:
        """The cookie as the header Cookie writes it: `name=value`."""
        return f"{self.name}={self.value}" if self.name else self.value

    @classmethod
    def of(cls, terms: CookieTerms) -> "Cookie":
        """Return the cookie that a message holds."""
        name, value, path = map(_text, (terms.name, terms.value, terms.path))
        return cls(name, value, terms.domain, terms.below, path, terms.secure)

    def terms(self) -> CookieTerms:
        """Return the cookie as a message holds it."""
        name, value, path = map(_bytes, (self.name, self.value, self.path))
        return CookieTerms(name, value, self.domain, self.below, path, self.secure)

    def belongs(self, url: str, host: str) -> bool:
        """Whether the cookie is sent with a request for a normalised URL of a host."""
        if self.secure and not url.startswith("https:"):
            return False
        if host != self.domain and not (self.below and host.endswith("." + self.domain)):
            return False
        path = _path(url)
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")


class Jar(NamedTuple):
    """The cookies of one chain of redirects."""

    cookies: tuple[Cookie, ...] = ()

    @classmethod
    def of(cls, terms: Iterable[CookieTerms]) -> "Jar":
        """Return the jar that a message holds."""
        return cls(tuple(map(Cookie.of, terms)))

    def nbytes(self) -> int:
        """About how many bytes of memory the jar takes in `Jars`."""
        texts = sum(len(one.name) + len(one.value) + len(one.path) for one in self.cookies)
        return _JAR_BYTES + _COOKIE_BYTES * len(self.cookies) + texts

    def terms(self) -> tuple[CookieTerms, ...]:
        """Return the jar as a message holds it."""
        return tuple(cookie.terms() for cookie in self.cookies)

    def header(self, url: str) -> str:
        """Return the value of the header Cookie for a normalised URL; empty without cookies."""
        host = host_of(url)
        sent = [cookie for cookie in self.cookies if cookie.belongs(url, host)]
        sent.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(cookie.pair for cookie in sent)

    def after(self, response: Response) -> "Jar":
        """Return the jar with the cookies that a response sets, without those that it deletes."""
        lines = [value for name, value in response.headers if name.lower() == b"set-cookie"]
        if not lines:
            return self
        cookies = {(each.name, each.domain, each.path): each for each in self.cookies}
        for line in lines[:_MAX_COOKIES]:
            cookie = _parse(line[:_MAX_BYTES], response.url)
            if cookie is None:
                continue
            place = cookie.name, cookie.domain, cookie.path
            cookies.pop(place, None)
            if not _is_deleted(line[:_MAX_BYTES], response.started):
                cookies[place] = cookie
        return Jar(_within_bounds(list(cookies.values())))


NO_COOKIES: Final = Jar()


class Jars:
    """The jars of URLs that redirects lead to, by the key of the URL.

    The response of such a URL may change its jar. When the URL's links are admitted, the jar is
    removed. If the response is another redirect, the jar goes to the target.
    """

    def __init__(self) -> None:
        self._jars: OrderedDict[int, Jar] = OrderedDict()
        self._nbytes = 0

    @property
    def empty(self) -> bool:
        """Whether no URL has a jar."""
        return not self._jars

    def put(self, key: int, jar: Jar) -> None:
        """Keep a jar for a URL, unless it is empty."""
        if jar.cookies:
            self.take(key)
            self._jars[key] = jar
            self._nbytes += jar.nbytes()
            if len(self._jars) > _MAX_JARS:
                self.take(next(iter(self._jars)))

    def get(self, key: int) -> Jar:
        """Return the jar of a URL, which may be empty."""
        return self._jars.get(key, NO_COOKIES)

    def take(self, key: int) -> Jar:
        """Remove the jar of a URL, and return it; it may be empty."""
        jar = self._jars.pop(key, None) if self._jars else None
        if jar is None:
            return NO_COOKIES
        self._nbytes -= jar.nbytes()
        return jar

    def nbytes(self) -> int:
        """About how many bytes of memory the jars take."""
        return self._nbytes


def join_cookies(configured: str, header: str) -> str:
    """Return the value of Cookie for configured cookies and those of a chain (`header`).

    Where both have a cookie of the same name, that of the chain is sent.
    """
    names = {pair.partition("=")[0] for pair in header.split("; ")}
    kept = [pair for pair in configured.split("; ") if pair.partition("=")[0] not in names]
    return "; ".join([*filter(None, kept), header])


def _parse(line: bytes, url: str) -> Cookie | None:
    """Return the cookie of a line Set-Cookie in the response for a normalised URL.

    Returns None if the cookie is malformed, or is for hosts that the server may not speak for.
    """
    text = _text(line)
    pair, *attributes = text.split(";")
    before, equals, behind = pair.partition("=")
    name, value = (before.strip(), behind.strip()) if equals else ("", before.strip())
    if _CONTROL.search(text) or not (name or value):
        return None
    host, path = host_of(url), _path(url)
    domain, below, secure = host, False, False
    path = path[: path.rfind("/")] or "/"
    for attribute in attributes:
        key, _, said = (part.strip() for part in attribute.partition("="))
        key = key.lower()
        if key == "secure":
            secure = True
        elif key == "path":
            if said.startswith("/"):
                path = said
        elif key == "domain" and said:
            domain = said.lower().removeprefix(".")
            below = domain != host or not _is_suffix(host)
    if domain != host and (not host.endswith("." + domain) or _is_suffix(domain)):
        return None
    return Cookie(name, value, domain, below, path, secure)


def _is_deleted(line: bytes, now: float) -> bool:
    """Whether a line Set-Cookie deletes its cookie: the cookie has expired at `now`."""
    over = False
    for attribute in line.decode("latin-1").split(";")[1:]:
        key, _, said = (part.strip() for part in attribute.partition("="))
        if key.lower() == "max-age" and re.fullmatch(r"-?\d+", said):
            return said.startswith("-") or not said.strip("0")  # Max-Age overrides Expires
        if key.lower() == "expires":
            try:
                over = epoch_s(said) <= now
            except (ValueError, OverflowError):
                continue  # a malformed date doesn't delete the cookie
    return over


def _within_bounds(cookies: Sequence[Cookie]) -> tuple[Cookie, ...]:
    """Return the latest cookies that fit in a jar."""
    kept: list[Cookie] = []
    size = 0
    for cookie in reversed(cookies):
        size += len(cookie.name) + len(cookie.value) + len(cookie.path)
        if len(kept) == _MAX_COOKIES or size > _MAX_BYTES:
            break
        kept.append(cookie)
    return tuple(reversed(kept))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _path(url: str) -> str:
    return url[url.index("/", 8) :].partition("?")[0]


def _is_suffix(host: str) -> bool:
    """Whether a host is a public suffix: hosts below it belong to different owners.

    An IP address counts as a public suffix, because it has no hosts below it.
    """
    if ":" in host or host.replace(".", "").isdigit():
        return True
    is_public: bool = public_suffixes().is_public(host)
    return is_public
