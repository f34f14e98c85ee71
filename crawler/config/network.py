"""Tables on requests: how often a site is asked, what is retried, and how requests are made."""

from typing import Annotated, Literal

from pydantic import ByteSize, Field

from crawler.config.table import ASIDE, Table
from crawler.config.values import Count, InputFile, ListenAddress, Natural, Size
from crawler.version import __version__


class Politeness(Table):
    """Politeness: how often a site may be asked (docs/politeness.md)."""

    per: Literal["site", "address"] = Field(
        "site",
        description="site: the limits hold for each site; address: they hold for all sites at one"
        " IP address together",
    )
    delay_s: Annotated[float, Field(ge=0)] = Field(
        1.0,
        json_schema_extra=ASIDE,
        description="seconds from the end of a request to a site until the next request to it may"
        " start, over all ranks; with several connections, seconds from start to start",
    )
    connections_per_site: Count = Field(
        1,
        json_schema_extra=ASIDE,
        description="the most requests to a site at a time, over all ranks",
    )
    max_crawl_delay_s: Annotated[float, Field(ge=0)] = Field(
        60.0,
        json_schema_extra=ASIDE,
        description="the longest Crawl-delay of a robots.txt that is obeyed; a longer one counts as"
        " this",
    )


class Retry(Table):
    """What happens after a failure: how often and when a URL is requested again."""

    tries: Count = Field(3, description="requests for a URL before its failure is final")
    base_s: Annotated[float, Field(gt=0)] = Field(
        1.0,
        description="how many seconds a site rests after a request without an answer; doubled with"
        " each consecutive failure",
    )
    busy_base_s: Annotated[float, Field(gt=0)] = Field(
        60.0,
        description="how many seconds a site rests after status 429 or 503 without a Retry-After,"
        " and after status 429 or 5xx for robots.txt; doubled with each consecutive failure",
    )
    max_s: Annotated[float, Field(gt=0)] = Field(
        3600.0, description="the longest rest in seconds; a longer Retry-After counts as this"
    )
    give_up_after: int = Field(
        6,
        ge=0,
        description="the crawl gives a host up after this number of consecutive failures; 0: never",
    )


class Robots(Table):
    """What the crawl obeys of the rules that sites give."""

    obey: bool = Field(True, description="ask for robots.txt before the first page of a site")
    agent: str = Field(
        "abc-crawler",
        min_length=1,
        description="the crawler's name in robots.txt; RFC 9309 allows letters, - and _ in it",
    )
    obey_nofollow: bool = Field(
        False,
        description="don't follow links that are marked nofollow, or that stand on a page marked"
        " nofollow (meta robots, X-Robots-Tag); they are recorded",
    )


class Dns(Table):
    """How the addresses of hosts are looked up."""

    nameservers: tuple[str, ...] = Field(
        (),
        json_schema_extra=ASIDE,
        description="addresses of name servers; empty: the name servers of the system",
    )
    hosts: dict[str, str] = Field(
        default_factory=dict,
        json_schema_extra=ASIDE,
        description='fixed addresses, such as {"a.example" = "10.0.0.1"}; "10.0.0.1:8080" also'
        " replaces the port to connect to",
    )
    timeout_s: Annotated[float, Field(gt=0)] = Field(
        5.0, json_schema_extra=ASIDE, description="the longest time of one try, in seconds"
    )
    tries: Count = Field(
        3, json_schema_extra=ASIDE, description="tries before a look-up counts as failed"
    )
    concurrency: Count = Field(
        128, json_schema_extra=ASIDE, description="the most look-ups of each rank at a time"
    )
    max_ttl_s: Annotated[float, Field(gt=0)] = Field(
        3600.0,
        json_schema_extra=ASIDE,
        description="the longest time in seconds that an address is cached",
    )
    negative_ttl_s: Annotated[float, Field(gt=0)] = Field(
        300.0,
        json_schema_extra=ASIDE,
        description="how many seconds a name that doesn't exist isn't looked up again",
    )


class Fetch(Table):
    """How requests are made, and the limits of a response."""

    concurrency: Count = Field(
        64, json_schema_extra=ASIDE, description="the most fetches of each rank at a time"
    )
    connect_timeout_s: Annotated[float, Field(gt=0)] = Field(
        10.0, json_schema_extra=ASIDE, description="the longest time to connect, in seconds"
    )
    idle_timeout_s: Annotated[float, Field(gt=0)] = Field(
        20.0,
        json_schema_extra=ASIDE,
        description="the longest time in seconds in which nothing is received",
    )
    timeout_s: Annotated[float, Field(gt=0)] = Field(
        120.0, json_schema_extra=ASIDE, description="the longest time of one fetch, in seconds"
    )
    max_redirects: Annotated[int, Field(ge=0, le=100)] = Field(
        20, description="the most redirects in a row that are followed; browsers follow 20"
    )
    max_bytes: Size = Field(
        ByteSize(10 << 20),
        json_schema_extra=ASIDE,
        description="the longest body, as sent and as decoded",
    )
    max_ratio: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="how many times longer a decoded body may be than the body as sent; 0: no"
        " limit",
    )
    max_header_bytes: Size = Field(
        ByteSize(512 << 10),
        json_schema_extra=ASIDE,
        description="the longest head of a response, which is all that comes before the body",
    )
    max_headers: Count = Field(
        8_000, json_schema_extra=ASIDE, description="the most header lines of a response"
    )
    allow_private_addresses: bool = Field(
        False,
        json_schema_extra=ASIDE,
        description="also connect to private, loopback and link-local addresses",
    )
    verify_tls: bool = Field(
        True, json_schema_extra=ASIDE, description="refuse servers without a valid certificate"
    )
    ca_files: tuple[InputFile, ...] = Field(
        (), json_schema_extra=ASIDE, description="further certificate authorities (PEM)"
    )
    proxy: str = Field(
        "",
        json_schema_extra=ASIDE,
        description='a proxy: "http://[user:password@]host:port", or the same with https;'
        ' "environment" uses the variables http_proxy, https_proxy and no_proxy. The proxy looks'
        " names up, so a private address is refused only if it stands in the URL",
    )
    netrc_file: InputFile = Field(
        "",
        json_schema_extra=ASIDE,
        description="a netrc file with logins by host, for Basic authentication",
    )
    cookies_file: InputFile = Field(
        "",
        json_schema_extra=ASIDE,
        description="a file with cookies to send, in Netscape's format",
    )
    user_agent: str = Field(
        f"abc-crawler/{__version__}",
        min_length=1,
        json_schema_extra=ASIDE,
        description="the User-Agent header",
    )
    contact: str = Field(
        "",
        json_schema_extra=ASIDE,
        description="a URL or e-mail address, which is added to User-Agent. Without a contact, only"
        " private addresses are crawled, and those only if fetch.allow_private_addresses is true",
    )

    @property
    def user_agent_header(self) -> str:
        """The value of the User-Agent header, with the contact."""
        return self.user_agent + (f" (+{self.contact})" if self.contact else "")


class Dashboard(Table):
    """What rank 0 tells by HTTP while the crawl runs (docs/watching.md)."""

    listen: ListenAddress = Field(
        "",
        json_schema_extra=ASIDE,
        description="where rank 0 shows the crawl in a browser, such as 127.0.0.1:8080; empty:"
        " nowhere. There is no password: whoever reaches the address can pause and stop the crawl",
    )
