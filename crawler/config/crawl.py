"""Tables on what is crawled: which pages, in which order, by which rank, and what is stored."""

from math import inf
from typing import Annotated, Literal

from crawler.config.table import Table, key
from crawler.config.values import (
    AnySize,
    Bounds,
    Count,
    DocumentKind,
    Duration,
    EarlierSession,
    InputFile,
    Limit,
    Natural,
    OrderName,
    ParameterName,
    PluginName,
    Positive,
    Read,
    Regex,
    SchemeName,
    Size,
    size,
)
from crawler.url import Folding


class Session(Table):
    """The session: where it is stored, where it starts, and when it ends."""

    directory: str = key(
        default="",
        aside=True,
        about="directory of the session; empty: session-DATE-TIME in the current directory",
    )
    seeds: tuple[str, ...] = key(default=(), about="URLs to start from")
    seeds_file: InputFile = key(default="", about="a file with one seed a line; # starts a comment")
    mode: Literal["exchange", "firewall", "cross-over", "independent"] = key(
        default="exchange",
        about="what a rank does with links to URLs of other ranks. exchange: send them to their"
        " owners; firewall: drop them; cross-over: fetch them when it has no URLs of its own;"
        " independent: there is no partition, and each rank starts with some of the seeds",
    )
    max_pages: Natural = key(
        default=0,
        aside=True,
        about="stop after this number of pages of all ranks together; 0: no limit",
    )
    max_time: Duration = key(
        default=0.0,
        aside=True,
        about='stop after this time, such as "3h55m", so that a resume can continue; 0: no limit',
    )
    stop_grace: Duration = key(
        default=20.0,
        aside=True,
        about="how long fetches under way may continue after a stop; then they are broken off, and"
        " a resume fetches their pages",
    )
    checkpoint: Duration = key(
        default=0.0,
        aside=True,
        about="write all that the ranks know to disk each time so much time has passed, such as"
        ' "6h", so that a resume after a kill reads only the logs since then; 0: only at a stop',
    )
    previous: EarlierSession = key(
        default="",
        about="directory of an earlier session. The crawl makes conditional requests for its pages,"
        " and stores a page that hasn't changed as a revisit",
    )


class Scope(Table):
    """The scope: which URLs belong to the crawl."""

    hosts: tuple[str, ...] = key(
        default=(),
        about="exact host names. If hosts, domains and suffixes are all empty, the scope is the"
        " sites of the seeds, by http and by https, and the sites that seeds redirect to",
    )
    domains: tuple[str, ...] = key(
        default=(), about='host names, each with all its subdomains; "*" means any host'
    )
    suffixes: tuple[str, ...] = key(default=(), about='endings of host names, such as "ac.uk"')
    include: tuple[Regex, ...] = key(
        default=(), about="regular expressions. If there are any, one of them must match in a URL"
    )
    exclude: tuple[Regex, ...] = key(
        default=(), about="none of these regular expressions may match in a URL"
    )
    filters: tuple[PluginName, ...] = key(
        default=(), about="plug-ins, each of which must let a URL in (docs/extend.md)"
    )
    of_seeds: Literal["site", "path", "subdomains"] = key(
        default="site",
        about="what the scope is if hosts, domains and suffixes are all empty. site: the sites of"
        " the seeds; path: of these, the URLs below the folders of the seeds; subdomains: also all"
        " hosts below those of the seeds, where www.example.org counts as example.org",
    )
    max_hops: Limit = key(
        default="unlimited",
        about="how many links the crawl may follow from a seed to a URL, by the way on which it"
        " finds the URL first; 0: only the seeds are fetched",
    )

    @property
    def most_hops(self) -> float:
        """The value of max_hops as a number."""
        return inf if self.max_hops == "unlimited" else self.max_hops


class Normalise(Table):
    """Rules of normalisation beyond the URL standard, all of them off by default.

    Each rule may give different pages the same URL.
    """

    drop_session_ids: bool = key(
        default=False,
        about="drop session ids: PHPSESSID, ;jsessionid and others (docs/normalisation.md)",
    )
    drop_tracking: bool = key(
        default=False, about="drop tracking parameters: utm_*, gclid, fbclid and others"
    )
    drop_parameters: tuple[ParameterName, ...] = key(
        default=(),
        about='names of further parameters to drop, in upper or lower case; "ref_*" means all names'
        " that begin with ref_",
    )
    sort_query: bool = key(default=False, about="sort the parameters of a query by name")
    fold_slash: bool = key(default=False, about="treat /a/ as /a")
    fold_index: bool = key(
        default=False, about="treat /a/index.html, /a/default.aspx and others as /a/"
    )
    fold_www: bool = key(default=False, about="treat www.a.example as a.example")

    def folding(self) -> Folding | None:
        """The rules that are on, or None if all are off."""
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
    """The assignment: which rank owns a URL."""

    scheme: SchemeName = key(
        default="site-hash",
        about="how the rank that owns a URL is chosen: url-hash, site-hash, hierarchical,"
        " part-vector, dynamic, or a plug-in (docs/extend.md). dynamic: a seed server hands URLs to"
        " the ranks while the crawl runs, as [dynamic] says",
    )
    site: Literal["authority", "domain"] = key(
        default="authority",
        about="what a site is, for politeness and assignment: the host with its port, or the"
        " registrable domain by the Public Suffix List",
    )
    suffixes: dict[str, Natural] = key(
        default={},
        about="for scheme hierarchical: the part by the longest suffix of the host, such as {de ="
        ' 0, "ac.uk" = 1}; other hosts are assigned by site-hash',
    )
    suffixes_file: InputFile = key(
        default="",
        about="for scheme hierarchical: a file with one suffix and its part a line, such as uk 1; #"
        " starts a comment",
    )
    part_vector: InputFile = key(
        default="", about="for scheme part-vector: the file that partition build has written"
    )
    unlisted: Literal["claim", "discoverer", "site-hash"] = key(
        default="claim",
        about="for scheme part-vector: who owns a site that the vector lacks. claim: the rank that"
        " first asks the site's registrar, unless this rank has had to fetch more URLs than 1.1"
        " times the average of the ranks, plus 100; then the rank with the fewest URLs; discoverer:"
        " each rank owns the pages that it finds; site-hash: the rank by the hash of the site",
    )


class Exchange(Table):
    """The exchange of URLs between ranks: batches, and what ranks remember."""

    batch_pages: Count = key(
        default=64, about="send a batch when it holds links of this number of pages"
    )
    batch_bytes: Size = key(
        default=64 << 10, about="also send a batch when its URLs have this number of bytes"
    )
    max_delay_s: Positive = key(
        default=1.0, about="also send a batch when it is this number of seconds old"
    )
    max_backlog_bytes: Size = key(
        default=8 << 20,
        about="a rank stops extracting links while messages of more bytes than this wait for"
        " another rank",
    )
    replicated: Natural = key(
        default=0,
        about="how many of the most linked-to pages of session.previous all ranks know from the"
        " start. Their owners take them as seeds, and nobody sends them. The URLs that a part"
        " vector lists are always known to all ranks",
    )
    remember: Literal["all", "cache", "batch"] = key(
        default="all",
        about="which URLs a rank doesn't send again. all: every URL that it has sent; cache: the"
        " latest ones; batch: those in the present batch",
    )
    cache_urls: Count = key(
        default=100_000, about="for remember = cache: how many URLs a rank remembers"
    )


class Frontier(Table):
    """The frontier: the order of waiting URLs, and the memory that they take."""

    order: OrderName = key(
        default="breadth-first",
        about="which waiting URL comes first: breadth-first, backlinks, pagerank, opic,"
        " depth-first, random, a plug-in (docs/extend.md), or module:function for a function that"
        " you have written (docs/order.md)",
    )
    seed: Natural = key(
        default=0, about="for order = random: another seed gives another random order"
    )
    memory: Count = key(
        default=10_000_000,
        aside=True,
        about="waiting URLs that each rank keeps in memory, at most; the ends of queues are kept on"
        " disk. seen.memory may allow fewer",
    )


class Sitemaps(Table):
    """Which sitemaps are read, and how much of them."""

    from_robots: bool = key(
        default=False, about="read the sitemaps that a robots.txt names, on any host"
    )
    well_known: bool = key(default=False, about="also ask each site for /sitemap.xml")
    max_bytes: Size = key(
        default=50_000_000,
        about="the longest sitemap, as sent and as decoded; if fetch.max_bytes is larger, it counts"
        " instead",
    )
    max_entries: Count = key(default=50_000, about="the most entries that are read of a sitemap")


class Extract(Table):
    """Which links are taken from a page, and how many."""

    elements: tuple[Literal["a", "area", "frame", "iframe", "img", "link", "refresh"], ...] = key(
        default=("a", "area", "frame", "iframe", "link", "refresh"),
        about="the elements from which links are taken. link: canonical, next, prev and alternate,"
        " also in Link headers; refresh: meta refresh and Refresh headers; img: src and srcset of"
        " img and source",
    )
    max_links: Count = key(default=100_000, about="the most different links taken from a page")
    max_link_bytes: Size = key(
        default=32 << 20,
        about="the most bytes that the URLs of all links of a page may have together. A page with"
        " little text has a lower limit, 1 MiB plus 16 times its length. Further links are counted"
        " but not recorded",
    )
    anchors: bool = key(
        default=False,
        aside=True,
        about="also record the element and the text of each link, for the table anchors"
        " (docs/corpus.md#the-texts-of-links)",
    )
    types: tuple[DocumentKind, ...] = key(
        default=("text/html", "application/xhtml+xml"),
        about="the documents in which links are read, by Content-Type, sniffed type or extension."
        ' You may add feeds: "application/rss+xml", "application/atom+xml". "!.php" excludes an'
        " extension",
    )
    handlers: tuple[PluginName, ...] = key(
        default=(),
        aside=True,
        about="plug-ins that get each HTML page, and write rows to a table of their own"
        " (docs/extend.md)",
    )
    requisites: bool = key(
        default=False,
        about="also fetch what pages need to be shown: style sheets and what these need, scripts,"
        " images, icons, fonts, from any host. They count neither as pages nor as hops"
        " (docs/whole-pages.md)",
    )


class Traps(Table):
    """Limits of the rules on traps (docs/traps.md). The value 0 switches a rule off.

    metrics.json counts, by these names, the links and URLs that each rule kept out.
    """

    max_url_length: Natural = key(
        default=2048,
        about="the most characters of a URL; URLs of more than 16,384 are never followed",
    )
    max_path_segments: Natural = key(
        default=50, about="the most segments of a path; /a/b/c has three"
    )
    max_repeated_segments: Natural = key(
        default=3,
        about="how many times a path may repeat the same segments; /a/b/a/b/a/b has them three"
        " times",
    )
    max_calendar_years: Natural = key(
        default=25, about="the most years between today and the date in the URL of a calendar page"
    )
    max_depth: Natural = key(default=1000, about="the most links followed from a seed to a URL")
    max_growth: Natural = key(
        default=8,
        about="how many times in a row a link may be the URL of its page with something inserted",
    )
    max_session_ids: Natural = key(
        default=10, about="the most URLs that differ only in a session id"
    )
    max_queries_per_path: Natural = key(
        default=20_000, about="the most different queries of one path"
    )
    max_urls_per_site: Natural = key(
        default=1_000_000, about="the most URLs of a site that are accepted"
    )
    max_bytes_per_site: AnySize = key(
        default=100_000_000_000, about="the most bytes of bodies received from a site"
    )
    max_hosts_per_domain: Natural = key(
        default=100_000, about="the most hosts of a registrable domain that are accepted"
    )
    max_barren_hosts: Natural = key(
        default=500,
        about="the most hosts of a domain, or at an address, that brought nothing new. Each host"
        " that brought something new allows two more. No further host is fetched from",
    )
    max_same_content: Natural = key(
        default=100,
        about="the most pages of a site with the same bytes; links of further such pages aren't"
        " followed",
    )
    max_long_redirects: Natural = key(
        default=100,
        about="the most redirects of a site that come after five in a row and don't lead to a page;"
        " beyond this, only five redirects in a row are followed on the site",
    )
    max_near_duplicates: Natural = key(
        default=300,
        about="the most pages in a row, in one branch of a site, with nearly the same text; after"
        " them, the rest of the branch waits until the site has no other URLs",
    )


class Seen(Table):
    """URL-seen: the memory of URLs that the crawl has met."""

    store: Literal["auto", "memory", "runs", "drum", "veuniq"] = key(
        default="auto",
        aside=True,
        about="where the keys of seen URLs are kept. auto: in memory, and on disk as runs do when"
        " seen.memory is used up; memory: in memory; runs: on disk, and a new URL is known at once;"
        " drum, veuniq: on disk, in one repository or in one for each group of sites; then a new"
        " URL waits a while",
    )
    memory: Annotated[int, Read(size), Bounds(ge=16 << 20)] = key(
        default=1 << 30,
        aside=True,
        about="the budget of a rank, in bytes of memory, for all that grows with the URLs and sites"
        " of a crawl (docs/measures.md lists it). If it is used up, the ends of queues go to disk,"
        " and for auto the keys of seen URLs",
    )
    repositories: Count = key(
        default=64, aside=True, about="the number of repositories (veuniq), or of buckets (drum)"
    )
    max_delay_s: Positive = key(
        default=60.0,
        aside=True,
        about="after this number of seconds, drum and veuniq find out whether a URL is new, if they"
        " haven't before; they do at once if a rank has nothing else to do",
    )
    prefer: bool = key(
        default=True,
        aside=True,
        about="for veuniq: of the sites that may be asked now, those of the repository that is"
        " merged next come first. So fewer URLs are put aside, and they wait less long",
    )
    exact: bool = key(
        default=False,
        aside=True,
        about="also fetch URLs that have the same 64-bit hash as another URL: at the end of a run,"
        " all URLs in the logs are compared. If some share a hash, all but one of them get other"
        " keys, and the crawl goes on (docs/decisions/keys.md)",
    )
