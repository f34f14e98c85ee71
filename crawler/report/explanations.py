"""Why a URL gave no page, and what a user can do about it, for each error class and status.

These are texts only. The page, the terminal, the messages of a crawl that has fetched nothing, and
the command `fetch` use the same ones.
"""

from typing import Final

from crawler.ports import MEANINGS, Failure

OUTSIDE: Final = "out of scope"
_SPELLING: Final = "check the spelling of its host"
_SERVER: Final = "check its host and port, and your network (fetch.proxy)"
_RESUME: Final = " (resume SESSION --retry-failed)"
_FETCH: Final = ", or with `python -m crawler fetch URL`"
_LATER: Final = f"try again later{_RESUME}"
_BROWSER: Final = f"look at it in a browser{_FETCH}"
_TRAPS: Final = "raise the limit in [traps] if the site is worth more"

_ADVICE: Final[dict[str, str]] = {
    OUTSIDE: "name its host in scope.hosts, or change the rule that the line above names",
    Failure.BAD_URL: "check the spelling of the URL",
    Failure.DNS_NOT_FOUND: _SPELLING,
    Failure.DNS_FAILED: "check your network, and dns.nameservers",
    Failure.PRIVATE_ADDRESS: (
        "set fetch.allow_private_addresses = true to crawl servers of your own network"
    ),
    Failure.NO_CONTACT: "set fetch.contact, so that webmasters can reach you",
    Failure.UNREACHABLE: f"{_SERVER}; or {_LATER}",
    Failure.REFUSED: f"{_SERVER}; or {_LATER}",
    Failure.CONNECT_TIMEOUT: f"{_SERVER}; or {_LATER}",
    Failure.DISCONNECTED: _LATER,
    Failure.TIMEOUT: f"{_LATER}, or raise fetch.timeout_s",
    Failure.TLS: "check the certificate; fetch.ca_files names further authorities",
    Failure.BAD_HTTP: _BROWSER,
    Failure.BAD_ENCODING: _BROWSER,
    Failure.TOO_LARGE: "raise fetch.max_bytes to have larger files whole",
    Failure.BAD_REDIRECT: "only the owner of the site can mend the redirect",
    Failure.REDIRECT_LOOP: f"{_BROWSER}; it may want a cookie (fetch.cookies_file)",
    Failure.TOO_MANY_REDIRECTS: f"{_BROWSER}; it may want a cookie (fetch.cookies_file)",
    Failure.ROBOTS_DENIED: "ask the site's owner, or name other seeds",
    Failure.ROBOTS_UNREACHABLE: _LATER,
    Failure.UNAVAILABLE: _LATER,
    Failure.SITE_GIVEN_UP: "see the errors of the other URLs of its host",
    Failure.SITE_FULL: _TRAPS,
    Failure.TOO_MANY_HOSTS: _TRAPS,
    Failure.INTERNAL: "its traceback is in rank-*/agent.log: please report it",
    "status 401": "set fetch.netrc_file, or headers in [[sites]]",
    "status 403": "ask the owner of the site",
    "status 404": "check the path of the URL",
    "status 410": "name other seeds",
}
_STATUSES: Final[dict[int, str]] = {
    400: "the server doesn't understand the request",
    401: "the page needs a login",
    403: "the server refuses the page, to everybody or to crawlers",
    404: "there is no such page",
    410: "the page is gone",
    429: "the server asks for fewer requests",
    500: "the server failed on the page",
    503: "the server is overloaded or being repaired",
}


def advice(what: str) -> str:
    """What a user can do about an error class, or about a status such as `status 404`."""
    return _ADVICE.get(what, _BROWSER)


def meaning(what: str) -> str:
    """What an error class, or a status such as `status 404`, means, in a few words."""
    if what in MEANINGS:
        return MEANINGS[Failure(what)]
    kind, _, number = what.partition(" ")
    if kind != "status" or not number.isdigit():
        return ""
    status = int(number)
    whose = "the server failed" if status >= 500 else "the server refused the request"
    return _STATUSES.get(status, whose)


def explained(what: str) -> str:
    """What an error class or a status means, and what a user can do about it."""
    return "; ".join(text for text in (meaning(what), advice(what)) if text)


def explained_alone(what: str) -> str:
    """What `explained` says, for the command `fetch`: there is no session, and the URL is asked."""
    return explained(what).replace(_RESUME, "").replace(_FETCH, "")
