"""The configuration: every key, its default, what it means, and what it refuses.

Frozen once loaded. Each room gets only its own table: `Workbench(config.politeness)`. A mistake
ends in one UserError that names the key, the value and what is allowed.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    JsonValue,
)
from pydantic import ValidationError as PydanticValidationError

from crawler import __version__
from crawler.ports import UserError
from crawler.url import Folding

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


def seconds(text: object) -> object:
    """`"3h55m"`, `"90s"`, `"1d"` or a bare number, in seconds."""
    if not isinstance(text, str):
        return text
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError("a duration like 3h55m, 90s or a number of seconds")
    days, hours, minutes, rest = (float(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression ({error})") from None
    return text


def _formed(pattern: str, words: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(words)
        return text

    return check


Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0)]
Size = Annotated[ByteSize, Field(gt=0)]
Regex = Annotated[str, AfterValidator(_regex)]
Count = Annotated[int, Field(ge=1)]
ParameterName = Annotated[
    str, AfterValidator(_formed(r"[^&;=?#/\s]+", "the name of a parameter, with * for any letters"))
]
DocumentKind = Annotated[
    str,
    AfterValidator(
        _formed(
            r"!?(\.[^\s/]+|[^\s/.]+/\S+)", "a media type, like image/*, or an extension, like .zip"
        )
    ),
]
Natural = Annotated[int, Field(ge=0)]
OrderName = Annotated[
    str,
    AfterValidator(
        _formed(
            r"breadth-first|backlinks|pagerank|opic|depth-first|random|\w+(\.\w+)*:\w+",
            "must be breadth-first, backlinks, pagerank, opic, depth-first, random, or"
            " module:function",
        )
    ),
]


# Marks of keys, for `derived`. What a rank knows follows from its logs and from the configuration.
# ASIDE: it doesn't follow from this key, so a snapshot stays valid when the value changes.
ASIDE: dict[str, JsonValue] = {"aside": True}
# FILE: also from the content of the file that the key names.
FILE: dict[str, JsonValue] = {"file": True}


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Session(Table):
    directory: str = Field(
        "",
        json_schema_extra=ASIDE,
        description="where the session lies; empty: session-DATE-TIME here",
    )
    seeds: tuple[str, ...] = Field((), description="URLs to start from")
    seeds_file: str = Field(
        "", json_schema_extra=FILE, description="a file with one seed a line; # starts a comment"
    )
    mode: Literal["exchange", "firewall", "cross-over", "independent"] = Field(
        "exchange",
        description="what becomes of inter-part links: sent to their owners, dropped, followed by"
        " a rank without pages of its own; independent: no partition, the seeds dealt out in turn",
    )
    max_pages: int = Field(
        0,
        ge=0,
        json_schema_extra=ASIDE,
        description="stop after so many pages of all ranks together; 0: no limit",
    )
    max_time: Annotated[float, BeforeValidator(seconds), Field(ge=0)] = Field(
        0.0,
        json_schema_extra=ASIDE,
        description='stop after this time, like "3h55m" (then resumable); 0: no limit',
    )
    stop_grace: Annotated[float, BeforeValidator(seconds), Field(ge=0)] = Field(
        20.0,
        json_schema_extra=ASIDE,
        description="how long fetches under way may go on after a stop; then they are dropped, and"
        " their pages are left for a resume",
    )
    previous: str = Field(
        "",
        description="directory of an earlier session: its pages are asked for only if they have"
        " changed, and what hasn't is stored as a revisit",
    )


class Scope(Table):
    hosts: tuple[str, ...] = Field(
        (),
        description="exact host names. Without any hosts, domains and suffixes the scope is the"
        " sites of the seeds, by http and by https, and the sites that seeds redirect to",
    )
    domains: tuple[str, ...] = Field((), description='host names with all below; "*" for any host')
    suffixes: tuple[str, ...] = Field((), description='ends of host names, like "ac.uk"')
    include: tuple[Regex, ...] = Field(
        (), description="if any: a URL must hold a match of one of these regular expressions"
    )
    exclude: tuple[Regex, ...] = Field((), description="a URL must hold a match of none of these")
    max_hops: int = Field(
        0,
        ge=0,
        description="links to follow from a seed, on the way a URL is first met; 0: no limit",
    )


class Normalise(Table):
    """Rules beyond the URL standard, all off: each may make one URL of different pages."""

    drop_session_ids: bool = Field(
        False, description="PHPSESSID, ;jsessionid and their like (docs/normalisation.md)"
    )
    drop_tracking: bool = Field(False, description="utm_*, gclid, fbclid and their like")
    drop_parameters: tuple[ParameterName, ...] = Field(
        (), description='further parameters to drop, in any case, "ref_*" for all that start so'
    )
    sort_query: bool = Field(False, description="parameters of a query in the order of their names")
    fold_slash: bool = Field(False, description="/a/ is /a")
    fold_index: bool = Field(False, description="/a/index.html, /a/default.aspx ... are /a/")
    fold_www: bool = Field(False, description="www.a.example is a.example")

    def folding(self) -> Folding | None:
        """The rules that are on, if any."""
        folding = Folding(
            session_ids=self.drop_session_ids,
            tracking=self.drop_tracking,
            parameters=self.drop_parameters,
            sort_query=self.sort_query,
            slash=self.fold_slash,
            index=self.fold_index,
            www=self.fold_www,
        )
        return folding if folding else None


class Assignment(Table):
    scheme: Literal["url-hash", "site-hash", "hierarchical", "part-vector"] = Field(
        "site-hash", description="who owns a URL"
    )
    site: Literal["authority", "domain"] = Field(
        "authority",
        description="what a site is, for politeness and assignment: the host with its port,"
        " or the registrable domain by the Public Suffix List",
    )
    suffixes: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        description='hierarchical: part by longest suffix of the host, {de = 0, "ac.uk" = 1};'
        " other hosts go by site-hash",
    )
    suffixes_file: str = Field(
        "",
        json_schema_extra=FILE,
        description='the same in a file, one "suffix part" a line; # starts a comment',
    )
    part_vector: str = Field("", json_schema_extra=FILE, description="part-vector: the file")
    unlisted: Literal["claim", "discoverer", "site-hash"] = Field(
        "claim", description="part-vector: who owns a site that the vector lacks"
    )


class Exchange(Table):
    batch_pages: Count = Field(64, description="send a batch after the links of so many pages")
    batch_bytes: Size = Field(ByteSize(64 << 10), description="or once it is so long")
    max_delay_s: Annotated[float, Field(gt=0)] = Field(1.0, description="or so old, in seconds")
    max_backlog_bytes: Size = Field(
        ByteSize(8 << 20),
        description="a rank with more than this waiting for another rank stops extracting links",
    )
    replicated: Natural = Field(
        0,
        description="so many of the most linked-to pages of session.previous are known to all"
        " ranks: seeds of their owners, and never sent; those that a part vector lists always are",
    )
    remember: Literal["all", "cache", "batch"] = Field(
        "all", description="which URLs sent before aren't sent again: all, the latest, this batch's"
    )
    cache_urls: Count = Field(100_000, description="remember = cache: how many a rank remembers")


class Frontier(Table):
    order: OrderName = Field(
        "breadth-first",
        description="which of the URLs that wait comes first: breadth-first, backlinks, pagerank,"
        " opic, depth-first, random, or what a function of yours says, module:function"
        " (docs/order.md)",
    )
    seed: Natural = Field(0, description="order = random: which of all random orders")
    memory: Count = Field(
        10_000_000,
        json_schema_extra=ASIDE,
        description="waiting URLs in memory, each rank; of longer queues the ends lie on disk",
    )


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


class Sitemaps(Table):
    from_robots: bool = Field(
        False, description="read the sitemaps that a robots.txt names, on any host"
    )
    well_known: bool = Field(False, description="and ask each site for /sitemap.xml")
    max_bytes: Size = Field(
        ByteSize(50_000_000),
        description="longest sitemap, as sent and as decoded; fetch.max_bytes if that is more",
    )
    max_entries: Count = Field(50_000, description="of a sitemap")


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
    ca_files: tuple[str, ...] = Field(
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
    netrc_file: str = Field(
        "", json_schema_extra=ASIDE, description="logins by host, for Basic authentication"
    )
    cookies_file: str = Field(
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


class Extract(Table):
    elements: tuple[Literal["a", "area", "frame", "iframe", "img", "link", "refresh"], ...] = Field(
        ("a", "area", "frame", "iframe", "link", "refresh"),
        description="where links are taken from. link: canonical, next, prev and alternate, also in"
        " Link headers; refresh: meta refresh and Refresh headers; img: src and srcset of img and"
        " source",
    )
    max_links: Count = Field(100_000, description="most different links taken from a page")
    max_link_bytes: Size = Field(
        ByteSize(32 << 20),
        description="most bytes of the URLs of all links of a page together. A page with little"
        " text has a lower limit, 1 MiB plus 16 times its length. Further links are counted, not"
        " recorded",
    )
    types: tuple[DocumentKind, ...] = Field(
        ("text/html", "application/xhtml+xml"),
        description="documents in which links are read, by Content-Type, sniffed type or extension."
        ' Feeds can be added: "application/rss+xml", "application/atom+xml"; "!.php" excludes',
    )


class Traps(Table):
    """Each 0 switches its rule off. metrics.json counts by these names what they kept out."""

    max_url_length: Natural = Field(
        2048, description="characters of a URL; URLs of more than 16,384 are never followed"
    )
    max_path_segments: Natural = Field(50, description="/a/b/c has three")
    max_repeated_segments: Natural = Field(
        3, description="the same segments again and again: /a/b/a/b/a/b repeats three times"
    )
    max_calendar_years: Natural = Field(
        25, description="from today to the date in the URL of a calendar"
    )
    max_depth: Natural = Field(1000, description="links followed from a seed")
    max_growth: Natural = Field(
        8, description="times that a link is the URL of its page with something put in"
    )
    max_session_ids: Natural = Field(10, description="URLs that differ in nothing but a session id")
    max_queries_per_path: Natural = Field(20_000, description="different queries of one path")
    max_urls_per_site: Natural = Field(1_000_000, description="URLs taken in")
    max_bytes_per_site: Annotated[ByteSize, Field(ge=0)] = Field(
        ByteSize(100_000_000_000), description="of bodies, as received"
    )
    max_hosts_per_domain: Natural = Field(
        100_000, description="hosts of a registrable domain taken in"
    )
    max_barren_hosts: Natural = Field(
        500,
        description="hosts of a domain, or at an address, that brought nothing new. Each host that"
        " brought something excuses two. Nothing is fetched from further hosts",
    )
    max_same_content: Natural = Field(
        100,
        description="pages of one site with the same bytes; of further ones no link is followed",
    )
    max_long_redirects: Natural = Field(
        100,
        description="redirects of a site past the fifth in a row, but for those that led to an"
        " answer; then only five in a row are followed there",
    )
    max_near_duplicates: Natural = Field(
        300,
        description="pages in a row of a branch of a site that say nearly the same; then the rest"
        " of the branch comes only when nothing else of the site waits",
    )


class Seen(Table):
    store: Literal["memory"] = Field("memory", description="where the keys of seen URLs are kept")


class Storage(Table):
    types: tuple[DocumentKind, ...] = Field(
        ("*/*",),
        json_schema_extra=ASIDE,
        description="documents that are stored, by Content-Type, sniffed type or extension, like"
        ' "text/*", "!image/*", "!.zip"; the others have only a row',
    )
    warc_size: Size = Field(
        ByteSize(1_000_000_000),
        json_schema_extra=ASIDE,
        description="a WARC file that has passed this size is closed",
    )
    compression: Annotated[int, Field(ge=0, le=3)] = Field(
        1,
        json_schema_extra=ASIDE,
        description="level of gzip (ISA-L) for WARC records: 0 fastest to 3 smallest",
    )
    sync: Literal["record", "interval", "close"] = Field(
        "close",
        json_schema_extra=ASIDE,
        description="when files are forced to disk: each record, every 5 s, at the end",
    )


class Config(Table):
    """The whole configuration, one field a table."""

    session: Session = Session()
    scope: Scope = Scope()
    normalise: Normalise = Normalise()
    assignment: Assignment = Assignment()
    exchange: Exchange = Exchange()
    frontier: Frontier = Frontier()
    politeness: Politeness = Politeness()
    retry: Retry = Retry()
    robots: Robots = Robots()
    sitemaps: Sitemaps = Sitemaps()
    dns: Dns = Dns()
    fetch: Fetch = Fetch()
    extract: Extract = Extract()
    traps: Traps = Traps()
    seen: Seen = Seen()
    storage: Storage = Storage()


def load(
    path: Path | None = None,
    overrides: Iterable[str] = (),
    values: Mapping[str, Mapping[str, object]] | None = None,
    *,
    before: Config | None = None,
) -> Config:
    """Read a file, or take up the configuration of `before`; then lay `table.key=value` overrides
    over it, then `values`.

    Raises UserError with the first mistake and the number of further ones.
    """
    where = str(path) if path else "configuration"
    raw: dict[str, Any] = before.model_dump() if before else {}
    try:
        raw |= tomllib.loads(path.read_text("utf-8-sig")) if path else {}
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}; a readable TOML file is needed") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: not TOML: {error}") from None
    for override in overrides:
        table, key, value = _parse_override(override)
        _table(raw, table, where)[key] = value
    for table, entries in (values or {}).items():
        _table(raw, table, where).update(entries)
    try:
        config = Config.model_validate(raw)
    except PydanticValidationError as error:
        raise UserError(f"{where}: {_explain(error)}") from None
    if config.assignment.scheme == "part-vector" and not config.assignment.part_vector:
        raise UserError(
            f"{where}: assignment.part_vector = '': scheme part-vector needs the path of a file"
        )
    return config


def _parse_override(text: str) -> tuple[str, str, object]:
    name, equals, value = text.partition("=")
    table, dot, key = name.strip().partition(".")
    if not (equals and dot and key):
        shown = (
            text if _PLAIN.fullmatch(value) else f"{name}=..."
        )  # a secret may be in the wrong place
        raise UserError(f"--set {shown}: must have the form table.key=value")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return table, key, value.strip()  # a bare word is a string


def _table(raw: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    table: object = raw.setdefault(name, {})
    if not isinstance(table, dict):
        shown = repr(table) if _PLAIN.fullmatch(str(table)) else "..."
        raise UserError(f"{where}: {name} = {shown}: must be a table, [{name}]")
    return table


def _explain(error: PydanticValidationError) -> str:
    mistakes = error.errors()
    first = mistakes[0]
    location = [str(part) for part in first["loc"]]
    name = ".".join(location)
    if first["type"] == "extra_forbidden":
        known = Config.model_fields
        if len(location) > 1:
            table = Config.model_fields[location[0]].annotation
            assert isinstance(table, type)
            assert issubclass(table, Table)
            known = table.model_fields
        message = f"{name}: unknown; known here: {', '.join(known)}"
    else:
        allowed = _ALLOWED.get(first["type"]) or _plain(first["msg"])
        shown = "" if name.startswith(_SECRETS) else f" = {first['input']!r}"
        message = f"{name}{shown}: {allowed}"
    return message + (f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else "")


_PLAIN = re.compile(r"[\w.+-]{0,12}")
_SECRETS = ("fetch.headers", "fetch.proxy")  # messages don't show their values
_ALLOWED = {  # where pydantic's words don't say it
    "byte_size": "must be a size, like 64KiB or 1GB",
    "byte_size_unit": "must be a size, like 64KiB or 1GB",
    "tuple_type": 'must be a list, like ["a", "b"]',
    "dict_type": "must be a table, like { a = 1 }",
}


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def derived(config: Config) -> tuple[dict[str, object], list[Path]]:
    """The settings that the state of a crawl depends on besides its logs: values by key, and files.

    Every key counts unless it is marked as ASIDE. So a new key counts by itself.
    """
    values: dict[str, object] = {}
    files: list[Path] = []
    for table_name in type(config).model_fields:
        table: Table = getattr(config, table_name)
        for key, info in type(table).model_fields.items():
            value = getattr(table, key)
            if info.json_schema_extra is not ASIDE:
                values[f"{table_name}.{key}"] = value
            if info.json_schema_extra is FILE and value:
                files.append(Path(value))
    return values, files


def as_toml(config: Config, *, commented: bool = False) -> str:
    """The configuration as TOML; with `commented`, each key under its description."""
    lines: list[str] = []
    for table_name in type(config).model_fields:
        table: Table = getattr(config, table_name)
        lines += ["", f"[{table_name}]"]
        for key, info in type(table).model_fields.items():
            if commented:
                allowed = _choices(info.annotation)
                lines.append(f"# {info.description}" + (f" ({allowed})" if allowed else ""))
            lines.append(f"{key} = {toml_value(getattr(table, key))}")
    return "\n".join(lines[1:]) + "\n"


def _choices(annotation: object) -> str:
    choices = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) is Literal and len(choices) > 1:
        return " | ".join(map(str, choices))
    return ""


def toml_value(value: object) -> str:
    """A string, number, truth value, list or flat mapping as a TOML value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, int) else repr(value)  # ByteSize is an int
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_string(k)} = {toml_value(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    assert isinstance(value, Sequence)
    return "[" + ", ".join(map(toml_value, value)) + "]"


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\u{ord(c[0]):04x}", escaped) + '"'
