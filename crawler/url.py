"""URLs: normalisation, folding, key, authority, site. The lowest floor; imports nothing of ours.

Parsing, joining and serialising follow the WHATWG URL standard (ada). On top of it come our own
rules, none of which makes one URL of two pages (docs/normalisation.md has them all, with reasons):

* the fragment goes, and so does a question mark with nothing behind it;
* credentials go: a crawler doesn't log in with what it finds in links;
* hexadecimal digits of percent-escapes are upper case.

A normalised URL is pure ASCII, and normalising it again changes nothing. It has at most MAX_LENGTH
characters.
"""

import re
from collections.abc import Iterable
from typing import Final

import ada_url
from xxhash import xxh3_64_intdigest

MAX_LENGTH: Final = 256 << 10  # characters of a URL, as it is written and as it is normalised
# Longer ones are recorded at most. By default, Apache and nginx take 8 KiB, IIS and Node.js 16 KiB.
MAX_FOLLOWED: Final = 16 << 10

_ESCAPE = re.compile(r"%(?:[a-f][0-9a-fA-F]|[0-9A-F][a-f])")  # with a lower-case digit
_SCHEMES: Final = ("http://", "https://")
_UNTIDY = re.compile(rf"@|\?$|{_ESCAPE.pattern}")

_LOGIN: Final = re.compile(r"^(\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*)[^/?#\\]*@")


class BadUrlError(ValueError):
    """Not an absolute http or https URL, nor a reference that makes one with its base."""


class LongUrlError(BadUrlError):
    """A URL of more than MAX_LENGTH characters. The message holds its first characters."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:64]}... has more than {MAX_LENGTH} characters")


def normalise(reference: str, base: str | None = None) -> str:
    """The normal form of an absolute URL, or of a reference found on the page `base`.

    Raises BadUrlError if the result isn't an http or https URL with a host, and LongUrlError if the
    reference or the result is too long.
    """
    if len(reference) > MAX_LENGTH:
        raise LongUrlError(reference)
    try:
        if base is None:
            url: str = ada_url.normalize_url(reference)
        else:
            url = ada_url.join_url(base, reference)
    except ValueError:
        raise BadUrlError(reference) from None
    if not url.startswith(_SCHEMES):
        raise BadUrlError(reference)
    if "#" in url:
        url = url.partition("#")[0]
    if len(url) > MAX_LENGTH:
        raise LongUrlError(url)
    return _tidy(url) if _UNTIDY.search(url) else url


def _tidy(url: str) -> str:
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    authority = authority.rpartition("@")[2]
    path = _ESCAPE.sub(lambda escape: escape[0].upper(), path)
    if path.count("?") == 1:
        path = path.removesuffix("?")
    return f"{scheme}://{authority}{slash}{path}"


def key(url: str) -> int:
    """The URL key: 64-bit XXH3 of the normalised URL."""
    return xxh3_64_intdigest(url.encode())


def authority(url: str) -> str:
    """`scheme://host[:port]` of a normalised URL; default ports don't appear in it."""
    return url[: url.index("/", 8)]


def without_login(text: str) -> str:
    """A URL, or what should be one, without a user name and password. Messages show only this."""
    return _LOGIN.sub(r"\1", text)


def host(authority_or_url: str) -> str:
    """The host name or address (IPv6 without brackets) of a normalised URL or an authority."""
    netloc = authority_or_url.split("/", 3)[2]
    if netloc.startswith("["):
        return netloc[1 : netloc.index("]")]
    return netloc.partition(":")[0]


def site(authority_or_url: str) -> str:
    """The host, with its port unless that is 80 or 443; of a normalised URL or an authority.

    So `http://` and `https://` of a host are one site: one clock, one owner, one queue. The ports
    80 and 443 count as the scheme's own with either scheme, because `http://h:443/` and
    `https://h/` ask the same server. A dot at the end of a host name isn't part of the label:
    both names resolve to the same server. An IPv6 address keeps its brackets. Raises ValueError for
    what is neither.
    """
    place = authority_or_url.partition("://")[2].partition("/")[0]
    if not place:
        raise ValueError(f"{authority_or_url!r}: has no host")
    if place.endswith((":80", ":443")):
        place = place[: place.rindex(":")]
    if place.endswith(".") or ".:" in place:
        name, colon, port = place.partition(":")
        place = (name.rstrip(".") or name) + colon + port
    return place


def renamed_site(label: str) -> str:
    """The name that a site has today; earlier versions named the scheme, too: `http://host`."""
    if not label.startswith(_SCHEMES):
        return label
    try:
        return site(label)
    except ValueError:  # a name from elsewhere that only looks like a site
        return label


def old_site_names(label: str) -> tuple[str, ...]:
    """What earlier versions may have called a site, the likeliest name first.

    Where `http://` and `https://` of a host were two sites, the site takes after `https://`: a host
    that has both mostly sends its visitors there.
    """
    return f"https://{label}", f"http://{label}", f"http://{label}:443", f"https://{label}:80"


def host_of_site(label: str) -> str:
    """The host name or address (IPv6 without brackets) of a site."""
    if label.startswith("["):
        return label[1:].partition("]")[0]
    name, colon, port = label.rpartition(":")
    return name if colon and ":" not in name and port.isdecimal() else label


# --- Folding: rules that may make one URL of two pages, so all of them are off by default -------

_SESSION_IDS: Final = (
    "aspsessionid*", "cfid", "cftoken", "jsessionid", "oscsid", "phpsessid", "sessid", "session_id",
    "sessionid", "zenid",
)  # fmt: skip
_TRACKING: Final = (
    "_ga", "_gl", "_hsenc", "_hsmi", "dclid", "fbclid", "gbraid", "gclid", "gclsrc", "igshid",
    "mc_cid", "mc_eid", "mkt_tok", "msclkid", "mtm_*", "pk_*", "twclid", "utm_*", "vero_id",
    "wbraid", "yclid",
)  # fmt: skip
_ASP_NET_SESSION: Final = re.compile(r"/\((?:[A-Za-z]\([0-9A-Za-z]{24}\))+\)(?=/)")
_INDEX: Final = re.compile(r"(?:index|default)\.(?:html?|shtml|php|aspx?|jsp)", re.IGNORECASE)


class Folding:
    """What turns normalised URLs that are likely the same page into one. See docs/normalisation.md.

    Folding again changes nothing. The result is a normalised URL too.
    """

    def __init__(
        self,
        *,
        session_ids: bool = False,
        tracking: bool = False,
        parameters: Iterable[str] = (),
        sort_query: bool = False,
        slash: bool = False,
        index: bool = False,
        www: bool = False,
    ) -> None:
        """`parameters` are further names to drop, any case, `*` for any characters."""
        names = [*parameters]
        names += _SESSION_IDS if session_ids else ()
        names += _TRACKING if tracking else ()
        patterns = "|".join(re.escape(name).replace(r"\*", "[^=]*") for name in names)
        self._dropped = re.compile(f"(?:{patterns})(?:=|$)", re.IGNORECASE) if names else None
        self._session_ids = session_ids
        self._sort_query = sort_query
        self._slash = slash
        self._index = index
        self._www = www

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        path = self._slash or self._index
        return bool(self._dropped or self._sort_query or path or self._www)

    def __call__(self, url: str) -> str:
        """The form of a normalised URL that stands for all that fold to it."""
        site = authority(url)
        path, mark, query = url[len(site) :].partition("?")
        if self._www:
            site = _without_www(site)
        if self._dropped:
            if ";" in path:
                segments = [segment.split(";") for segment in path.split("/")]
                path = "/".join(";".join([name, *self._kept(rest)]) for name, *rest in segments)
                # `/..;jsessionid=1/` is `/../` now.
                path = ada_url.normalize_url(site + path)[len(site) :]
            query = "&".join(self._kept(query.split("&")))
        if self._session_ids:
            path = _ASP_NET_SESSION.sub("", path)
        if self._slash or self._index:
            path = self._folder(path)
        if self._sort_query:
            # By name alone: where a name stands several times, the order may mean something.
            query = "&".join(sorted(query.split("&"), key=lambda pair: pair.partition("=")[0]))
        return f"{site}{path}{mark}{query}" if query else site + path

    def of_redirect(self, url: str, source: str) -> str:
        """The form of the target of a redirect from `source`, both normalised.

        Sites redirect one form of a page to another (`/x` to `/x/`, or to their www host). Folded,
        such a target would be its own source and the page never be fetched: it stays as it is.
        """
        folded = self(url)
        return url if folded == self(source) else folded

    def _kept(self, parameters: list[str]) -> list[str]:
        assert self._dropped is not None
        return [text for text in parameters if not self._dropped.match(text)]

    def _folder(self, path: str) -> str:
        while True:
            if self._slash:
                path = path.rstrip("/")
            head, _, last = path.rpartition("/")
            if not (self._index and _INDEX.fullmatch(last)):
                return path or "/"
            path = head + "/"


def _without_www(site: str) -> str:
    scheme, _, netloc = site.partition("://")
    while netloc.startswith("www.") and "." in netloc[4:]:
        netloc = netloc[4:]
    return f"{scheme}://{netloc}"
