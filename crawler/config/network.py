"""Tables on requests: how often a site is asked, what is retried, and how requests are made."""

from typing import Annotated, Literal

from crawler.config.table import Table, key
from crawler.config.values import (
    Bounds,
    Count,
    InputFile,
    ListenAddress,
    Natural,
    NonNegative,
    Positive,
    Size,
)
from crawler.version import __version__


class Politeness(Table):
    """Politeness: how often a site may be asked (docs/politeness.md)."""

    per: Literal["site", "address"] = key(
        default="site",
        about="site: the limits hold for each site; address: they hold for all sites at one IP"
        " address together",
    )
    delay_s: NonNegative = key(
        default=1.0,
        aside=True,
        about="seconds from the end of a request to a site until the next request to it may start,"
        " over all ranks; with several connections, seconds from start to start",
    )
    connections_per_site: Count = key(
        default=1, aside=True, about="the most requests to a site at a time, over all ranks"
    )
    max_crawl_delay_s: NonNegative = key(
        default=60.0,
        aside=True,
        about="the longest Crawl-delay of a robots.txt that is obeyed; a longer one counts as this",
    )


class Retry(Table):
    """What happens after a failure: how often and when a URL is requested again."""

    tries: Count = key(default=3, about="requests for a URL before its failure is final")
    base_s: Positive = key(
        default=1.0,
        about="how many seconds a site rests after a request without an answer; doubled with each"
        " consecutive failure",
    )
    busy_base_s: Positive = key(
        default=60.0,
        about="how many seconds a site rests after status 429 or 503 without a Retry-After, and"
        " after status 429 or 5xx for robots.txt; doubled with each consecutive failure",
    )
    max_s: Positive = key(
        default=3600.0, about="the longest rest in seconds; a longer Retry-After counts as this"
    )
    give_up_after: Natural = key(
        default=6,
        about="the crawl gives a host up after this number of consecutive failures; 0: never",
    )


class Robots(Table):
    """What the crawl obeys of the rules that sites give."""

    obey: bool = key(default=True, about="ask for robots.txt before the first page of a site")
    agent: Annotated[str, Bounds(min_length=1)] = key(
        default="abc-crawler",
        about="the crawler's name in robots.txt; RFC 9309 allows letters, - and _ in it",
    )
    obey_nofollow: bool = key(
        default=False,
        about="don't follow links that are marked nofollow, or that stand on a page marked nofollow"
        " (meta robots, X-Robots-Tag); they are recorded",
    )


class Dns(Table):
    """How the addresses of hosts are looked up."""

    nameservers: tuple[str, ...] = key(
        default=(),
        aside=True,
        about="addresses of name servers; empty: the name servers of the system",
    )
    hosts: dict[str, str] = key(
        default={},
        aside=True,
        about='fixed addresses, such as {"a.example" = "10.0.0.1"}; "10.0.0.1:8080" also replaces'
        " the port to connect to",
    )
    timeout_s: Positive = key(
        default=5.0, aside=True, about="the longest time of one try, in seconds"
    )
    tries: Count = key(default=3, aside=True, about="tries before a look-up counts as failed")
    concurrency: Count = key(
        default=128, aside=True, about="the most look-ups of each rank at a time"
    )
    max_ttl_s: Positive = key(
        default=3600.0, aside=True, about="the longest time in seconds that an address is cached"
    )
    negative_ttl_s: Positive = key(
        default=300.0,
        aside=True,
        about="how many seconds a name that doesn't exist isn't looked up again",
    )


class Fetch(Table):
    """How requests are made, and the limits of a response."""

    concurrency: Count = key(
        default=64, aside=True, about="the most fetches of each rank at a time"
    )
    connect_timeout_s: Positive = key(
        default=10.0, aside=True, about="the longest time to connect, in seconds"
    )
    idle_timeout_s: Positive = key(
        default=20.0, aside=True, about="the longest time in seconds in which nothing is received"
    )
    timeout_s: Positive = key(
        default=120.0, aside=True, about="the longest time of one fetch, in seconds"
    )
    max_redirects: Annotated[int, Bounds(ge=0, le=100)] = key(
        default=20, about="the most redirects in a row that are followed; browsers follow 20"
    )
    max_bytes: Size = key(
        default=10 << 20, aside=True, about="the longest body, as sent and as decoded"
    )
    max_ratio: Natural = key(
        default=0,
        aside=True,
        about="how many times longer a decoded body may be than the body as sent; 0: no limit",
    )
    max_header_bytes: Size = key(
        default=512 << 10,
        aside=True,
        about="the longest head of a response, which is all that comes before the body",
    )
    max_headers: Count = key(default=8_000, aside=True, about="the most header lines of a response")
    allow_private_addresses: bool = key(
        default=False,
        aside=True,
        about="also connect to private, loopback and link-local addresses",
    )
    verify_tls: bool = key(
        default=True, aside=True, about="refuse servers without a valid certificate"
    )
    ca_files: tuple[InputFile, ...] = key(
        default=(), aside=True, about="further certificate authorities (PEM)"
    )
    proxy: str = key(
        default="",
        aside=True,
        about='a proxy: "http://[user:password@]host:port", or the same with https; "environment"'
        " uses the variables http_proxy, https_proxy and no_proxy. The proxy looks names up, so a"
        " private address is refused only if it stands in the URL",
    )
    netrc_file: InputFile = key(
        default="", aside=True, about="a netrc file with logins by host, for Basic authentication"
    )
    cookies_file: InputFile = key(
        default="", aside=True, about="a file with cookies to send, in Netscape's format"
    )
    user_agent: Annotated[str, Bounds(min_length=1)] = key(
        default=f"abc-crawler/{__version__}", aside=True, about="the User-Agent header"
    )
    contact: str = key(
        default="",
        aside=True,
        about="a URL or e-mail address, which is added to User-Agent. Without a contact, only"
        " private addresses are crawled, and those only if fetch.allow_private_addresses is true",
    )

    @property
    def user_agent_header(self) -> str:
        """The value of the User-Agent header, with the contact."""
        return self.user_agent + (f" (+{self.contact})" if self.contact else "")


class Dashboard(Table):
    """What rank 0 tells by HTTP while the crawl runs (docs/watching.md)."""

    listen: ListenAddress = key(
        default="",
        aside=True,
        about="where rank 0 shows the crawl in a browser, such as 127.0.0.1:8080; empty: nowhere."
        " There is no password: whoever reaches the address can pause and stop the crawl",
    )
