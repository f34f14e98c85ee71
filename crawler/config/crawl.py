"""Tables on what is crawled: which pages, in which order, by which rank, and what is kept."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, ByteSize, Field

from crawler.config.table import ASIDE, Table
from crawler.config.values import (
    Count,
    DocumentKind,
    EarlierSession,
    InputFile,
    Natural,
    OrderName,
    ParameterName,
    Regex,
    Size,
    seconds,
)
from crawler.url import Folding


class Session(Table):
    directory: str = Field(
        "",
        json_schema_extra=ASIDE,
        description="where the session lies; empty: session-DATE-TIME here",
    )
    seeds: tuple[str, ...] = Field((), description="URLs to start from")
    seeds_file: InputFile = Field("", description="a file with one seed a line; # starts a comment")
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
    previous: EarlierSession = Field(
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
    suffixes_file: InputFile = Field(
        "",
        description='the same in a file, one "suffix part" a line; # starts a comment',
    )
    part_vector: InputFile = Field("", description="part-vector: the file")
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
