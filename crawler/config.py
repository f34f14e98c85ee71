"""The configuration: every key, its default, what it means, and what it refuses.

Frozen once loaded. Each room gets only its own table: `Workbench(config.politeness)`. A mistake
ends in one UserError that names the key, the value and what is allowed.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field
from pydantic import ValidationError as PydanticValidationError

from crawler import __version__
from crawler.ports import UserError

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


Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0)]
Size = Annotated[ByteSize, Field(gt=0)]
Regex = Annotated[str, AfterValidator(_regex)]
Count = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Session(Table):
    directory: str = Field("", description="where the session lies; empty: session-DATE-TIME here")
    seeds: tuple[str, ...] = Field((), description="URLs to start from")
    seeds_file: str = Field("", description="a file with one seed a line; # starts a comment")
    mode: Literal["exchange"] = Field("exchange", description="what becomes of inter-part links")
    max_pages: int = Field(0, ge=0, description="stop after so many pages, all ranks; 0: no limit")
    max_time: Annotated[float, BeforeValidator(seconds), Field(ge=0)] = Field(
        0.0, description='stop after this time, like "3h55m" (then resumable); 0: no limit'
    )


class Scope(Table):
    hosts: tuple[str, ...] = Field(
        (), description="exact host names; no hosts, domains or suffixes: the seeds' sites"
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


class Assignment(Table):
    scheme: Literal["url-hash", "site-hash", "hierarchical", "part-vector"] = Field(
        "site-hash", description="who owns a URL"
    )
    site: Literal["authority", "domain"] = Field(
        "authority",
        description="what a site is, for politeness and assignment: scheme://host:port,"
        " or the registrable domain by the Public Suffix List",
    )
    suffixes: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        description='hierarchical: part by longest suffix of the host, {de = 0, "ac.uk" = 1};'
        " other hosts go by site-hash",
    )
    part_vector: str = Field("", description="part-vector: the file")
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
    remember: Literal["all", "cache", "batch"] = Field(
        "all", description="which URLs sent before aren't sent again: all, the latest, this batch's"
    )
    cache_urls: Count = Field(100_000, description="remember = cache: how many a rank remembers")


class Frontier(Table):
    order: Literal["breadth-first"] = Field("breadth-first", description="order within a site")


class Politeness(Table):
    delay_s: Annotated[float, Field(ge=0)] = Field(
        1.0, description="seconds from the end of a request to the next one to the same site"
    )
    connections_per_site: Count = Field(1, description="requests at a time to one site")
    max_crawl_delay_s: Annotated[float, Field(ge=0)] = Field(
        60.0, description="a longer Crawl-delay in a robots.txt counts as this"
    )


class Robots(Table):
    obey: bool = Field(True, description="ask robots.txt before the first page of a site")
    agent: str = Field("abc-crawler", min_length=1, description="our name in robots.txt")


class Dns(Table):
    nameservers: tuple[str, ...] = Field((), description="addresses; none: the system's")
    hosts: dict[str, str] = Field(
        default_factory=dict,
        description='fixed answers, {"a.example" = "10.0.0.1"}; "10.0.0.1:8080" also replaces'
        " the port that is connected to",
    )
    timeout_s: Annotated[float, Field(gt=0)] = Field(5.0, description="for one try")
    tries: Count = Field(3, description="tries before a name has failed for now")
    concurrency: Count = Field(64, description="names being resolved at a time")
    max_ttl_s: Annotated[float, Field(gt=0)] = Field(3600.0, description="longest life in cache")
    negative_ttl_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="how long a name that doesn't exist is left alone"
    )


class Fetch(Table):
    concurrency: Count = Field(64, description="fetches at a time, each rank")
    connect_timeout_s: Annotated[float, Field(gt=0)] = Field(10.0, description="to connect")
    idle_timeout_s: Annotated[float, Field(gt=0)] = Field(20.0, description="between two bytes")
    timeout_s: Annotated[float, Field(gt=0)] = Field(120.0, description="for one fetch, in all")
    max_bytes: Size = Field(ByteSize(10 << 20), description="of a body, as sent and decoded")
    allow_private_addresses: bool = Field(
        False, description="also connect to private, loopback and link-local addresses"
    )
    verify_tls: bool = Field(True, description="refuse servers without a valid certificate")
    ca_files: tuple[str, ...] = Field((), description="further certificate authorities (PEM)")
    user_agent: str = Field(
        f"abc-crawler/{__version__}", min_length=1, description="the User-Agent header"
    )
    contact: str = Field("", description="a URL or e-mail address, added to User-Agent")

    @property
    def user_agent_header(self) -> str:
        return self.user_agent + (f" (+{self.contact})" if self.contact else "")


class Extract(Table):
    elements: tuple[Literal["a", "area", "frame", "iframe", "link"], ...] = Field(
        ("a", "area", "frame", "iframe", "link"),
        description="where links are taken from; link means canonical, next, prev, alternate",
    )


class Seen(Table):
    store: Literal["memory"] = Field("memory", description="where the keys of seen URLs are kept")


class Storage(Table):
    warc_size: Size = Field(ByteSize(1_000_000_000), description="a WARC file is closed past this")
    compression: Annotated[int, Field(ge=0, le=3)] = Field(
        1, description="of WARC records, gzip by ISA-L: 0 fastest to 3 smallest"
    )
    sync: Literal["record", "interval", "close"] = Field(
        "close", description="when files are forced to disk: each record, every 5 s, at the end"
    )


class Config(Table):
    """The whole configuration, one field a table."""

    session: Session = Session()
    scope: Scope = Scope()
    assignment: Assignment = Assignment()
    exchange: Exchange = Exchange()
    frontier: Frontier = Frontier()
    politeness: Politeness = Politeness()
    robots: Robots = Robots()
    dns: Dns = Dns()
    fetch: Fetch = Fetch()
    extract: Extract = Extract()
    seen: Seen = Seen()
    storage: Storage = Storage()


def load(
    path: Path | None = None,
    overrides: Iterable[str] = (),
    values: Mapping[str, Mapping[str, object]] | None = None,
) -> Config:
    """Read a file, then lay `table.key=value` overrides over it, then `values`.

    Raises UserError with the first mistake and the number of further ones.
    """
    where = str(path) if path else "configuration"
    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text("utf-8")) if path else {}
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
        raise UserError(f"--set {text}: has the form table.key=value")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return table, key, value.strip()  # a bare word is a string


def _table(raw: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    table: object = raw.setdefault(name, {})
    if not isinstance(table, dict):
        raise UserError(f"{where}: {name} = {table!r}: must be a table, [{name}]")
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
        message = f"{name} = {first['input']!r}: {allowed}"
    return message + (f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else "")


_ALLOWED = {  # where pydantic's words don't say it
    "byte_size": "must be a size, like 64KiB or 1GB",
    "byte_size_unit": "must be a size, like 64KiB or 1GB",
    "tuple_type": 'must be a list, like ["a", "b"]',
    "dict_type": "must be a table, like { a = 1 }",
}


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


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
