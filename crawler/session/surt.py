"""The key of a URL in an index: SURT form, as the Internet Archive canonicalises URLs.

URLs of the same page often differ only in upper and lower case, in the order of their parameters,
or in a session id. They get the same key. The rules are those of the package surt 0.3.
http://crawler.archive.org/articles/user_manual/glossary.html#surt
"""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

_WWW: Final = re.compile(r"www\d*\.")
_ID_FOLDERS: Final = (
    re.compile(r"(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$"),
    re.compile(r"(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$"),
)
_ID_PARAMETERS: Final = (
    re.compile(r"(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$"),
    re.compile(r"(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$"),
    re.compile(r"(.*)sid=[0-9a-z]{32}(?:&(.*))?$"),
    re.compile(r"(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$"),
    re.compile(r"(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$"),
)
_UNESCAPED: Final = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def surt(url: str) -> str:
    """Return the key of a normalised URL: http://www.a.example/B?d&c becomes example,a)/b?c&d."""
    authority, slash, rest = url.partition("://")[2].partition("/")
    path, _, query = (slash + rest).partition("?")
    key = _host(authority) + ")" + _path(path)
    query = _query(query) if query else ""
    return f"{key}?{query}" if query else key


@lru_cache(4096)
def _host(authority: str) -> str:
    host, port = authority.rpartition("@")[2], ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
    elif ":" in host:
        host, colon, port = host.partition(":")
        port = colon + port
    host = host.replace("..", ".").strip(".")
    found = _WWW.match(host)
    if found:
        host = host[found.end() :]
    return ",".join(reversed(host.split("."))) + port


def _path(path: str) -> str:
    if "%" in path or "//" in path:  # a normalised URL has no other dots or characters to escape
        path = _escape_once(_without_dots(_unescape(path)))
    path = path.lower()
    if ".aspx" in path:
        for pattern in _ID_FOLDERS:
            path = pattern.sub(r"\1\2", path)
    return path[:-1] if path.endswith("/") and len(path) > 1 else path


def _query(query: str) -> str:
    if "%" in query:
        query = _escape_once(_unescape(query))
    query = query.lower()
    for pattern in _ID_PARAMETERS:
        found = pattern.match(query)
        if found:
            query = found[1] + (found[2] or "")
    parameters = (tuple(one.split("=", 1)) for one in query.split("&"))
    return "&".join(map("=".join, sorted(parameters)))


def _unescape(text: str) -> bytes:
    data, before = text.encode(), b""
    while data != before:
        data, before = unquote_to_bytes(data), data
    return data


def _escape_once(data: bytes) -> str:
    return quote_from_bytes(data, safe=_UNESCAPED)


def _without_dots(path: bytes) -> bytes:
    """Resolve the segments . and .. and leave out empty ones, except for the last."""
    kept: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b".." and kept:
            kept.pop()
        elif segment != b".":
            kept.append(segment)
    return b"/" + b"/".join([one for one in kept[:-1] if one] + kept[-1:])
