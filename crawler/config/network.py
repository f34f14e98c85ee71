"""Tables on requests: how often sites are asked, what is asked first, and by which means."""

from typing import Annotated, Literal

from pydantic import ByteSize, Field

from crawler import __version__
from crawler.config.table import ASIDE, Table
from crawler.config.values import Count, InputFile, Natural, Size


class Politeness(Table):
    per: Literal["site", "address"] = Field(
        "site",
        description="who has a clock: each site, or all sites of an IP address together",
    )
    delay_s: Annotated[float, Field(ge=0)] = Field(
        1.0,
        json_schema_extra=ASIDE,
        description="seconds from the end of a request to the start of the next one to the same"
        " site, over all ranks; with several connections from start to start",
    )
    connections_per_site: Count = Field(
        1, json_schema_extra=ASIDE, description="requests at a time to one site, over all ranks"
    )
    max_crawl_delay_s: Annotated[float, Field(ge=0)] = Field(
        60.0,
        json_schema_extra=ASIDE,
        description="a longer Crawl-delay in a robots.txt counts as this",
    )


class Retry(Table):
    tries: Count = Field(3, description="requests for a URL before its failure is final")
    base_s: Annotated[float, Field(gt=0)] = Field(
        1.0,
        description="how long a site rests after a request without an answer; doubled with each"
        " failure in a row",
    )
    busy_base_s: Annotated[float, Field(gt=0)] = Field(
        60.0,
        description="the same after status 429 or 503 without a Retry-After; for robots.txt, after"
        " 429 or any 5xx",
    )
    max_s: Annotated[float, Field(gt=0)] = Field(
        3600.0, description="longest rest; a longer Retry-After counts as this"
    )
    give_up_after: int = Field(
        6, ge=0, description="failures in a row after which a host is left alone; 0: never"
    )


class Robots(Table):
    obey: bool = Field(True, description="ask robots.txt before the first page of a site")
    agent: str = Field(
        "abc-crawler",
        min_length=1,
        description="our name in robots.txt; RFC 9309 knows letters, - and _ in it",
    )
    obey_nofollow: bool = Field(
        False,
        description="links that are marked nofollow, or whose whole page is (meta robots,"
        " X-Robots-Tag), are recorded and not followed",
    )


class Dns(Table):
    nameservers: tuple[str, ...] = Field(
        (), json_schema_extra=ASIDE, description="their addresses; none: the system's name servers"
    )
    hosts: dict[str, str] = Field(
        default_factory=dict,
        json_schema_extra=ASIDE,
        description='fixed answers, {"a.example" = "10.0.0.1"}; "10.0.0.1:8080" also replaces'
        " the port that is connected to",
    )
    timeout_s: Annotated[float, Field(gt=0)] = Field(
        5.0, json_schema_extra=ASIDE, description="for one try"
    )
    tries: Count = Field(
        3, json_schema_extra=ASIDE, description="tries before a look-up counts as failed"
    )
    concurrency: Count = Field(
        128, json_schema_extra=ASIDE, description="look-ups at a time, each rank"
    )
    max_ttl_s: Annotated[float, Field(gt=0)] = Field(
        3600.0, json_schema_extra=ASIDE, description="longest life in cache"
    )
    negative_ttl_s: Annotated[float, Field(gt=0)] = Field(
        300.0,
        json_schema_extra=ASIDE,
        description="how long a name that doesn't exist isn't looked up again",
    )


class Fetch(Table):
    concurrency: Count = Field(
        64, json_schema_extra=ASIDE, description="fetches at a time, each rank"
    )
    connect_timeout_s: Annotated[float, Field(gt=0)] = Field(
        10.0, json_schema_extra=ASIDE, description="to connect"
    )
    idle_timeout_s: Annotated[float, Field(gt=0)] = Field(
        20.0, json_schema_extra=ASIDE, description="between two bytes"
    )
    timeout_s: Annotated[float, Field(gt=0)] = Field(
        120.0, json_schema_extra=ASIDE, description="for one fetch, in all"
    )
    max_redirects: Annotated[int, Field(ge=0, le=100)] = Field(
        20, description="how many redirects in a row are followed; browsers follow 20"
    )
    max_bytes: Size = Field(
        ByteSize(10 << 20),
        json_schema_extra=ASIDE,
        description="longest body, as sent and as decoded",
    )
    max_ratio: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="how many times as long as sent a body may be when decoded; 0: no such limit",
    )
    max_header_bytes: Size = Field(
        ByteSize(512 << 10),
        json_schema_extra=ASIDE,
        description="longest head of a response: all that comes before the body",
    )
    max_headers: Count = Field(
        8_000, json_schema_extra=ASIDE, description="most header lines of a response"
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
        description='"http://[user:password@]host:port", or the same with https; "environment"'
        " uses the variables http_proxy, https_proxy and no_proxy. A proxy resolves the names, so"
        " private addresses are refused only where a URL shows one",
    )
    headers: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        json_schema_extra=ASIDE,
        description='further request headers, by host or scheme://host[:port]: {"a.example" ='
        ' {Accept-Language = "de"}}',
    )
    netrc_file: InputFile = Field(
        "", json_schema_extra=ASIDE, description="logins by host, for Basic authentication"
    )
    cookies_file: InputFile = Field(
        "", json_schema_extra=ASIDE, description="cookies to send, in Netscape's format"
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
        description="a URL or e-mail address, added to User-Agent; without one, a crawl goes to"
        " private addresses only, if to any",
    )

    @property
    def holds_secrets(self) -> bool:
        """Whether there may be any: a header of a site, or the password for a proxy."""
        return bool(self.headers) or "@" in self.proxy

    @property
    def user_agent_header(self) -> str:
        return self.user_agent + (f" (+{self.contact})" if self.contact else "")
