"""The areas of the public conformance tests, with their scores and the costs of their input.

A new area is a function from CASES to an Area, listed in AREAS. Servers run on loopback.
"""

import asyncio
import base64
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
import webencodings

from crawler import config
from crawler.net import DnsResolver, HttpFetcher
from crawler.ports import Failure, Fetched, FetchError, Response
from crawler.reading.parse import declared_encoding
from crawler.reading.parse.encoding import encode_query
from crawler.reading.reader import PageReader, make_scope
from crawler.reading.robots import Rules
from crawler.reading.sitemaps import entries
from crawler.url import BadUrlError, host, normalise

from . import hostile
from .hostile import Cost

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))  # servers, and what curl gets

from curl import BODIES, Reply, ReplyServer, digest, replies  # noqa: E402
from fakes import FakeClock  # noqa: E402
from fetches import found, response  # noqa: E402
from servers import quick_dns  # noqa: E402


@dataclass
class Test:
    what: str
    right: int = 0
    total: int = 0

    def count(self, *, right: bool) -> None:
        self.total += 1
        self.right += right

    @property
    def score(self) -> str:
        share = self.right / max(1, self.total)
        return f"{self.right} of {self.total} ({share:.1%})"


@dataclass
class Area:
    name: str
    source: str  # where the tests come from
    tests: list[Test]
    notes: str = ""
    # The tests that fail on purpose, each with the reason, or `?` if there is none.
    differences: list[tuple[str, str]] = field(default_factory=list)
    costs: list[tuple[str, Cost]] = field(default_factory=list)


# --- URLs -------------------------------------------------------------------------------------


def urls(cases: Path) -> Area:
    folder = cases / "conformance" / "url"
    valid, refused = (
        Test("http and https URLs parsed and joined"),
        Test("references that must be refused"),
    )
    hosts, idna = Test("hosts to ASCII"), Test("IDNA, UTS #46 (IdnaTestV2)")
    queries = Test("queries in the encoding of the page")
    for case in _json_cases(folder / "urltestdata.json"):
        reference, base = case["input"], case.get("base")
        if case.get("failure"):
            if _is_web(reference) or _is_web(base or ""):
                refused.count(right=_normalised(reference, base) is None)
        elif case["protocol"] in {"http:", "https:"}:
            # Our own rules of normalisation apply after those of the standard.
            valid.count(right=_normalised(reference, base) == normalise(case["href"]))
    for name, test in (("toascii.json", hosts), ("IdnaTestV2.json", idna)):
        for case in _json_cases(folder / name):
            if case["input"]:  # an empty host is a valid domain, but not a valid URL
                url = _normalised(f"http://{case['input']}/", None)
                test.count(right=(None if url is None else host(url)) == case["output"])
    for case in _json_cases(folder / "percent-encoding.json"):
        for encoding, expected in case["output"].items():
            reference = "http://a.example/?" + case["input"]
            if encoding != "utf-8":
                reference = encode_query(reference, encoding)
            queries.count(right=normalise(reference) == "http://a.example/?" + expected)
    return Area(
        "URLs",
        "web-platform-tests, `url/resources`",
        [valid, refused, hosts, idna, queries],
        "A case counts as valid if its result is an http or https URL. A case must be refused if"
        " the standard says that it fails, and its input or base starts with `http`. The expected"
        " result is that of the standard, after the rules of [normalisation.md](normalisation.md).",
    )


def _json_cases(path: Path) -> Iterator[dict[str, Any]]:
    return (case for case in json.loads(path.read_text("utf-8")) if isinstance(case, dict))


def _is_web(text: str) -> bool:
    return text.strip().lower().startswith("http")


def _normalised(reference: str, base: str | None) -> str | None:
    try:
        return normalise(reference, base)
    except BadUrlError:
        return None


# --- Encodings --------------------------------------------------------------------------------


def encodings(cases: Path) -> Area:
    test = Test("the encoding that a page declares")
    for path in sorted((cases / "conformance" / "encoding").glob("*.dat")):
        for case in re.split(rb"(?m)^#data\n", path.read_bytes())[1:]:
            page, _, rest = case.partition(b"\n#encoding\n")
            label = rest.partition(b"\n")[0].decode().strip()
            found = declared_encoding(page, None) or "windows-1252"
            test.count(right=found == webencodings.lookup(label).name)
    return Area(
        "Encodings",
        "html5lib-tests, `encoding/`",
        [test],
        "A page that declares no encoding is windows-1252 in these tests. In a crawl it is UTF-8 if"
        " its bytes are valid UTF-8; otherwise the encoding is guessed.",
    )


# --- robots.txt -------------------------------------------------------------------------------

_ROBOTS_TXT = "RFC 9309, 2.2.2: the URI /robots.txt is implicitly allowed"
_ESCAPES = (
    "RFC 9309, 2.2.2: octets are compared after unnecessary escapes are undone, and other"
    " characters than ASCII are escaped; the test expects that robots.txt and URL are written alike"
)
# (file, path, agent) -> why the result differs from that of Google's parser
_ROBOTS_DIFFERENCES = {
    ("369883", "/robots.txt", "BarBot"): _ROBOTS_TXT,
    ("369883", "/robots.txt", "AB"): _ROBOTS_TXT,
    ("860237", "/robots.txt", "XYZ"): _ROBOTS_TXT,
    ("non-ascii-paths", "/foo/bar/%E3%83%84", "FooBot"): _ESCAPES,
    ("non-ascii-paths", "/foo/bar/baz", "FooBot"): _ESCAPES,
}


def robots(cases: Path) -> Area:
    rules, files = Test("rules made for the test"), Test("robots.txt files of the web")
    both = Test("both")
    differences = []
    for line in (cases / "conformance" / "robots" / "spec.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        url = _normalised(case["url"], "http://a.example/") or ""
        allowed = Rules.parse(base64.b64decode(case["robots_b64"]), case["agent"]).allows(url)
        test = rules if case["kind"] == "correctness" else files
        test.count(right=allowed == case["allowed"])
        both.count(right=allowed == case["allowed"])
        if allowed != case["allowed"]:
            path = url[url.index("/", 8) :]
            what = f"`{case['id']}`: `{path}` for `{case['agent']}` is " + (
                "allowed here" if allowed else "denied here"
            )
            reason = _ROBOTS_DIFFERENCES.get((case["id"], path, case["agent"]), "?")
            differences.append((what, reason))
    reading, deciding = Cost(), Cost()
    for what, body, path in hostile.robots_files():
        steps = Rules.reading(body, "abc-crawler")
        reading.of_steps(what, steps)
        found_rules = Rules.parse(body, "abc-crawler")
        deciding.of_call(what, partial(found_rules.allows, "http://a.example" + path))
    return Area(
        "robots.txt",
        "Google's robots.txt specification test",
        [rules, files, both],
        "An empty URL in the test stands for the root of a site. We follow one rule of Google that"
        " isn't in the RFC: `Allow: /a/index.html` also allows `/a/`. The hostile files are in"
        " benchmarks/conformance/hostile.py.",
        differences,
        [("reading a hostile robots.txt", reading), ("judging a URL by it", deciding)],
    )


# --- HTTP -------------------------------------------------------------------------------------

Outcome = Response | FetchError


def http(cases: Path) -> Area:
    curl: Mapping[str, tuple[int, str, int, str]] = json.loads(BODIES.read_text("utf-8"))
    tests, costs, differences = [], [], []
    for name in ("curl", "llhttp"):
        got = Test(f"{name}'s replies: pages that curl gets, with the same body")
        ended = Test(f"{name}'s replies that end in a page or an error class")
        cost = Cost()
        scripted = replies(cases, name)
        for reply, outcome in zip(scripted, _fetch_all(scripted, cost), strict=True):
            exit_code, payload, exit_code_decoding, body = curl[reply.id]
            same = isinstance(outcome, Response) and (
                (exit_code != 0 or digest(outcome.payload) == payload)
                and (exit_code_decoding != 0 or digest(outcome.body) == body)
            )
            ended.count(right=True)
            if exit_code == 0 or exit_code_decoding == 0:
                got.count(right=same)
                if not same:
                    differences.append((f"`{reply.id}`: {outcome}", "?"))
        tests += [got, ended]
        costs.append((f"{name}'s replies", cost))
    ours, cost = Test("hostile replies that end in a page or an error class"), Cost()
    for what, data in hostile.replies():
        _fetch_all([Reply(what, data)], cost)
        ours.count(right=True)
    return Area(
        "HTTP",
        "the tests of curl (479 replies) and llhttp (85)",
        [*tests, ours],
        "tests/instances/curl-bodies.json says which replies curl 7.88.1 gets by a plain GET with"
        " exit code 0, and which body it gets with `--compressed`. `python tests/curl.py` writes"
        " that file anew. The hostile replies are in benchmarks/conformance/hostile.py.",
        differences,
        [*costs, ("hostile replies", cost)],
    )


def _fetch_all(answers: Sequence[Reply], cost: Cost) -> list[Outcome]:
    """Return the outcome of each reply: a response or an error of ours.

    Any other exception ends the program.
    """
    fetch = config.Fetch(allow_private_addresses=True, timeout_s=30, idle_timeout_s=10)

    async def main(url: str) -> list[Outcome]:
        outcomes: list[Outcome] = []
        async with (
            DnsResolver(config.Dns(), True, FakeClock()) as resolver,
            HttpFetcher(fetch, resolver) as fetcher,
        ):
            for number, answer in enumerate(answers):
                work = _outcome(fetcher.fetch(f"{url}{number}"))
                outcomes.append(await cost.of(answer.id, work))
        return outcomes

    with ReplyServer(answers) as server:
        return uvloop.run(main(server.url))


async def _outcome(fetch: Awaitable[Response]) -> Outcome:
    try:
        return await fetch
    except FetchError as error:
        return error


# --- HTML -------------------------------------------------------------------------------------


def html(_: Path) -> Area:
    test, cost = Test("hostile pages, all links found"), Cost()
    settings = config.load(None, ['scope.domains=["*"]'])
    reader = PageReader(settings, make_scope(settings, [], 2026))
    address = "http://a.example/page"
    for what, kind, body, links in hostile.pages():
        answer = response(address, body, headers=[(b"Content-Type", kind.encode())])
        fetched = Fetched(found(address), 0.0, answer)
        cost.of_steps(what, reader.read(fetched))
        test.count(right=links is None or len(fetched.links) == links)
    headed, listed = Cost(), Cost()
    for what, fields in hostile.headers():
        answer = response(
            address, b"<a href=/x>", headers=[(b"Content-Type", b"text/html"), *fields]
        )
        fetched = Fetched(found(address), 0.0, answer)
        headed.of_steps(what, reader.read(fetched))
    for what, sitemap, body in hostile.sitemaps():
        steps = (None for entry in entries(body, sitemap) if entry is None)
        listed.of_steps(what, steps)  # the entries aren't kept
    return Area(
        "HTML",
        "benchmarks/conformance/hostile.py",
        [test],
        "The pages have so much nesting, so many attributes, links, unclosed elements, values and"
        " comments, or so many wrong bytes that other readers take quadratic time."
        " [decisions/reading.md](decisions/reading.md) says which documents are read, and how.",
        costs=[
            ("hostile pages", cost),
            ("headers of hostile pages", headed),
            ("hostile sitemaps", listed),
        ],
    )


# --- DNS --------------------------------------------------------------------------------------


def dns(_: Path) -> Area:
    names = [f"{'gone' if n % 10 == 0 else 'host'}{n}.example" for n in range(25_000)]
    test = Test("names at once, every tenth of which doesn't exist")

    async def main(nameserver: str) -> list[bool]:
        table = config.Dns(nameservers=(nameserver,))
        async with DnsResolver(table, True, FakeClock()) as resolver:
            return await asyncio.gather(*(_is_right(resolver, name) for name in names))

    with quick_dns() as nameserver:
        for right in uvloop.run(main(nameserver)):
            test.count(right=right)
    return Area(
        "DNS",
        "a name server of the test's own",
        [test],
        "There is no public test of resolvers for crawlers. tests/test_dns.py has the cases: chains"
        " of names, dead and failing servers, both families, odd names, caching.",
    )


async def _is_right(resolver: DnsResolver, name: str) -> bool:
    try:
        return await resolver.resolve(name) == [("10.0.0.1", None)]
    except FetchError as error:
        return "gone" in name and error.failure is Failure.DNS_NOT_FOUND


# ----------------------------------------------------------------------------------------------

AREAS: dict[str, Callable[[Path], Area]] = {
    "URLs": urls,
    "Encodings": encodings,
    "robots.txt": robots,
    "HTTP": http,
    "HTML": html,
    "DNS": dns,
}
