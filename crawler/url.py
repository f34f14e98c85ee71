"""URLs: normalisation, key, authority, host. The lowest floor; imports nothing of ours.

Parsing, joining and serialising follow the WHATWG URL standard (ada). On top of it come our own
rules, none of which makes one URL of two pages:

* the fragment goes, and so does a question mark with nothing behind it;
* credentials go: a crawler doesn't log in with what it finds in links;
* hexadecimal digits of percent-escapes are upper case.

A normalised URL is pure ASCII, and normalising it again changes nothing.
"""

import re

import ada_url
from xxhash import xxh3_64_intdigest

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNTIDY = re.compile(r"@|\?$|%(?:[a-f][0-9a-fA-F]|[0-9A-F][a-f])")


class BadUrlError(ValueError):
    """Not an absolute http or https URL, nor a reference that makes one with its base."""


def normalise(reference: str, base: str | None = None) -> str:
    """The normal form of an absolute URL, or of a reference found on the page `base`.

    Raises BadUrlError if the result isn't an http or https URL with a host.
    """
    try:
        if base is None:
            url: str = ada_url.normalize_url(reference)
        else:
            url = ada_url.join_url(base, reference)
    except ValueError:
        raise BadUrlError(reference) from None
    if not url.startswith(("http://", "https://")):
        raise BadUrlError(reference)
    return _tidy(url.partition("#")[0]) if _UNTIDY.search(url) or "#" in url else url


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


def host(authority_or_url: str) -> str:
    """The host name or address (IPv6 without brackets) of a normalised URL or an authority."""
    netloc = authority_or_url.split("/", 3)[2]
    if netloc.startswith("["):
        return netloc[1 : netloc.index("]")]
    return netloc.partition(":")[0]
