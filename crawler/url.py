"""URLs: normalisation, folding, key, authority, site. The lowest floor; imports nothing of ours.

Parsing, joining and serialising follow the WHATWG URL standard (library: ada). Three rules of our
own come on top. None of them gives two different pages the same URL (docs/normalisation.md has all
rules, with reasons):

* The fragment is removed, and so is a question mark with nothing behind it.
* The user name and password are removed: a crawler doesn't log in with what it finds in links.
* Hexadecimal digits of percent-escapes become upper case.

A normalised URL is pure ASCII, and normalising it again changes nothing. It has at most MAX_LENGTH
characters.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import ada_url
from xxhash import xxh3_64_intdigest, xxh64_intdigest

MAX_LENGTH: Final = 256 << 10  # characters of a URL, as it is written and as it is normalised
# Longer URLs may be recorded, but are never fetched. No server accepts them by default: the limit
# of Apache and nginx is 8 KiB, that of IIS and Node.js 16 KiB.
MAX_FOLLOWED: Final = 16 << 10

_ESCAPE = re.compile(r"%(?:[a-f][0-9a-fA-F]|[0-9A-F][a-f])")  # with a lower-case digit
_SCHEMES: Final = ("http://", "https://")
_UNTIDY = re.compile(rf"@|\?$|{_ESCAPE.pattern}")
# Characters of a path with a query that normalisation leaves as they are.
_NORMAL_REST: Final = re.compile(r"[a-zA-Z0-9_~.:@!$&()*+,;=/?-]++(?<!\?)")
_MOST_CACHED: Final = 1 << 12  # authorities
_LONGEST_CACHED: Final = 512  # characters of an authority

# The host of a reference that begins with a scheme or two slashes, as it is written.
_HOST: Final = re.compile(r"[\x00-\x20]*(?:https?:|[/\\](?=[/\\]))[/\\]*([^/?#\\]*)", re.IGNORECASE)
_LEFT_OUT: Final = re.compile(r"[\t\n\r]+")  # anywhere in a URL
# A host in other characters takes the library long: 35 ms for 8,000 combining marks. The names of
# the DNS have 253 characters at most.
_LONGEST_HOST: Final = 255

_LOGIN: Final = re.compile(r"^(\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*)[^/?#\\]*@")


class BadUrlError(ValueError):
    """The text is no absolute http or https URL, and gives none when joined with its base."""


class LongUrlError(BadUrlError):
    """A URL has more than MAX_LENGTH characters. The message shows its first characters."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:64]}... has more than {MAX_LENGTH} characters")


def normalise(reference: str, base: str | None = None) -> str:
    """Return the normal form of an absolute URL, or of a reference found on the page `base`.

    Raises BadUrlError if the result isn't an http or https URL with a host that the DNS can have,
    and LongUrlError if the reference or the result is too long.
    """
    if len(reference) > MAX_LENGTH:
        raise LongUrlError(reference)
    if reference.startswith(_SCHEMES) and _is_normal(reference):
        return reference
    if len(foreign_host(reference)) > _LONGEST_HOST:
        raise BadUrlError(reference)
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


def foreign_host(reference: str) -> str:
    """Return the host that a reference names, if it is written in other characters than ASCII.

    Percent-escapes count as such. Without such a host the result is empty.
    """
    if reference.isascii() and "%" not in reference:
        return ""
    found = _HOST.match(_LEFT_OUT.sub("", reference))
    host = found[1] if found else ""
    return "" if host.isascii() and "%" not in host else host


def _is_normal(url: str) -> bool:
    """Whether a URL is surely in its normal form; False also for some that are.

    Most absolute references on pages are in their normal form, and the library takes ten times as
    long to find that out. `/.` may begin a segment that means a folder.
    """
    end = url.find("/", 8)
    if "/." in url or not 0 < end <= _LONGEST_CACHED or not _NORMAL_REST.fullmatch(url, end):
        return False
    return _is_normal_authority(url[:end])


@lru_cache(_MOST_CACHED)
def _is_normal_authority(authority: str) -> bool:
    """Whether normalisation leaves `scheme://host[:port]` as it is."""
    root = authority + "/"
    try:
        return "@" not in authority and bool(ada_url.normalize_url(root) == root)
    except ValueError:
        return False


def _tidy(url: str) -> str:
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    authority = authority.rpartition("@")[2]
    path = _ESCAPE.sub(lambda escape: escape[0].upper(), path)
    if path.count("?") == 1:
        path = path.removesuffix("?")
    return f"{scheme}://{authority}{slash}{path}"


def key(url: str) -> int:
    """Return the 64-bit XXH3 hash of a normalised URL: its key, unless another URL has this key."""
    return xxh3_64_intdigest(url.encode())


def of_seed(seed: str) -> str:
    """Return the normalised URL of a seed.

    A seed that the user gave without a scheme is written `//host/path`. Its URL has https.
    """
    return f"https:{seed}" if seed.startswith("//") else seed


# The URLs that have given up their keys, with how many keys each has given up, and these keys. They
# are those of one session, because a process crawls or reads one session at a time.
_GIVEN_UP: Final[dict[str, int]] = {}
SHARED_KEYS: Final[set[int]] = set()


def tell_apart(given_up: Iterable[tuple[int, str]]) -> None:
    """Give each of these URLs a key of its own, and all other URLs their hashes again.

    `given_up`: keys that several URLs have had, each with a URL that doesn't have it any more. A
    URL that comes several times has given up several keys, one after the other.
    """
    _GIVEN_UP.clear()
    SHARED_KEYS.clear()
    for shared, url in given_up:
        SHARED_KEYS.add(shared)
        _GIVEN_UP[url] = _GIVEN_UP.get(url, 0) + 1


def own_key(url: str) -> int:
    """Return the key by which the session knows a URL.

    That is `key(url)`, unless the URL has given up this key (docs/decisions/keys.md). Then it is
    the 64-bit XXH64 hash, with the number of given-up keys as its seed.
    """
    if _GIVEN_UP and (times := _GIVEN_UP.get(url)):
        return xxh64_intdigest(url.encode(), times)
    return key(url)


def key_now(logged: int, url: str) -> int:
    """Return the key by which the session knows a URL that was logged with some key."""
    return own_key(url) if url in _GIVEN_UP else logged


def authority(url: str) -> str:
    """Return `scheme://host[:port]` of a normalised URL, without a default port."""
    return url[: url.index("/", 8)]


def without_login(text: str) -> str:
    """Return a URL, or a mistyped URL, without its user name and password, for messages."""
    return _LOGIN.sub(r"\1", text)


def host(authority_or_url: str) -> str:
    """Return the host name or address of a normalised URL or authority; IPv6 without brackets."""
    netloc = authority_or_url.split("/", 3)[2]
    if netloc.startswith("["):
        return netloc[1 : netloc.index("]")]
    return netloc.partition(":")[0]


def site(authority_or_url: str) -> str:
    """Return the site of a normalised URL or authority: its host, and its port if not 80 or 443.

    For example, the site of `https://h:8443/a` is `h:8443`. So `http://` and `https://` of a host
    are one site, which has one clock, one owner and one queue. The ports 80 and 443 are left out
    with either scheme, because `http://h:443/` and `https://h/` ask the same server. A dot at the
    end of a host name is left out, because both names resolve to the same server. An IPv6 address
    keeps its brackets. Raises ValueError if the text is neither a URL nor an authority.
    """
    place = authority_or_url.partition("://")[2].partition("/")[0]
    if not place:
        raise ValueError(f"{authority_or_url!r} has no host")
    if place.endswith((":80", ":443")):
        place = place[: place.rindex(":")]
    if place.endswith(".") or ".:" in place:
        name, colon, port = place.partition(":")
        place = (name.rstrip(".") or name) + colon + port
    return place


def renamed_site(label: str) -> str:
    """Return today's name of a site. Earlier versions wrote the scheme, too: `http://host`."""
    if not label.startswith(_SCHEMES):
        return label
    try:
        return site(label)
    except ValueError:  # a name from elsewhere that only looks like a site
        return label


def old_site_names(label: str) -> tuple[str, ...]:
    """Return the names that earlier versions may have given a site, the likeliest first.

    There `http://` and `https://` of a host were two sites. `https://` comes first, because a host
    that has both mostly redirects its visitors there.
    """
    return f"https://{label}", f"http://{label}", f"http://{label}:443", f"https://{label}:80"


def host_of_site(label: str) -> str:
    """Return the host name or address of a site; IPv6 without brackets."""
    if label.startswith("["):
        return label[1:].partition("]")[0]
    name, colon, port = label.rpartition(":")
    return name if colon and ":" not in name and port.isdecimal() else label


# --- Folding: rules that may give two different pages one URL, so all are off by default -------

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
    """Maps normalised URLs that probably name the same page to one URL (docs/normalisation.md).

    For example, `sort_query` maps `/a?y=1&x=2` and `/a?x=2&y=1` to the second. The result is a
    normalised URL, too, and folding it again changes nothing.
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
        """Choose the rules.

        `parameters`: further names of query parameters to remove; case doesn't matter, and `*`
        stands for any characters.
        """
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
        """Whether any rule is on."""
        path = self._slash or self._index
        return bool(self._dropped or self._sort_query or path or self._www)

    def __call__(self, url: str) -> str:
        """Return the URL that stands for a normalised URL and for all that fold to the same."""
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
            # Sorted by name alone: where a name occurs several times, their order may matter.
            query = "&".join(sorted(query.split("&"), key=lambda pair: pair.partition("=")[0]))
        return f"{site}{path}{mark}{query}" if query else site + path

    def of_redirect(self, url: str, source: str) -> str:
        """Return the folded target of a redirect from `source`; both URLs are normalised.

        Sites redirect one form of a page to another, for example `/x` to `/x/`. If both fold to the
        same URL, the target is returned unfolded. Otherwise the redirect would lead to itself, and
        the page would never be fetched.
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
