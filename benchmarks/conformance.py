"""How the crawler reads what public conformance tests hold against it.

    python benchmarks/conformance.py CASES [--write]

CASES is a folder with the test files of WPT, html5lib and Google under `conformance/`. `--write`
puts the table into docs/conformance.md. Exit code 1: a difference that nobody has explained.

To add an area: a function from CASES to an Area, named in AREAS.
"""

import argparse
import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import webencodings

from crawler.parse import declared_encoding
from crawler.parse.encoding import encode_query
from crawler.robots import Rules
from crawler.url import BadUrlError, host, normalise

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"


@dataclass
class Test:
    what: str
    right: int = 0
    total: int = 0

    def count(self, *, right: bool) -> None:
        self.total += 1
        self.right += right


@dataclass
class Area:
    name: str
    source: str  # of the tests
    tests: list[Test]
    notes: str = ""
    # Which tests we fail on purpose, each with the reason; `?` where there is none.
    differences: list[tuple[str, str]] = field(default_factory=list)


# --- URLs -------------------------------------------------------------------------------------


def urls(cases: Path) -> Area:
    folder = cases / "conformance" / "url"
    valid, refused = Test("http and https URLs parsed and joined"), Test("what must be refused")
    hosts, idna = Test("hosts to ASCII"), Test("IDNA, UTS #46 (IdnaTestV2)")
    queries = Test("queries in the encoding of the page")
    for case in _json_cases(folder / "urltestdata.json"):
        reference, base = case["input"], case.get("base")
        if case.get("failure"):
            if _is_web(reference) or _is_web(base or ""):
                refused.count(right=_normalised(reference, base) is None)
        elif case["protocol"] in {"http:", "https:"}:
            # Our own rules go over the result of the standard's.
            valid.count(right=_normalised(reference, base) == normalise(case["href"]))
    for name, test in (("toascii.json", hosts), ("IdnaTestV2.json", idna)):
        for case in _json_cases(folder / name):
            if case["input"]:  # an empty host is a domain of the test, but no URL
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
        "A case counts as valid if its result is an http or https URL; as one to refuse if it must"
        " fail and its input or base starts with `http`. Expected is the standard's result with the"
        " rules of [normalisation.md](normalisation.md) applied.",
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
        "A page that declares nothing is windows-1252 in these tests. In a crawl it is UTF-8 if"
        " that is valid, else a guess.",
    )


# --- robots.txt -------------------------------------------------------------------------------

_ROBOTS_TXT = "RFC 9309, 2.2.2: the URI /robots.txt is implicitly allowed"
_ESCAPES = (
    "RFC 9309, 2.2.2: octets are compared after escapes of what needs none are undone and what is"
    " not ASCII is escaped; the test says that the robots.txt has to be written as the URL is"
)
# (file, path, agent) -> why we read it otherwise than Google's parser does
_ROBOTS_DIFFERENCES = {
    ("369883", "/robots.txt", "BarBot"): _ROBOTS_TXT,
    ("369883", "/robots.txt", "AB"): _ROBOTS_TXT,
    ("860237", "/robots.txt", "XYZ"): _ROBOTS_TXT,
    ("non-ascii-paths", "/foo/bar/%E3%83%84", "FooBot"): _ESCAPES,
    ("non-ascii-paths", "/foo/bar/baz", "FooBot"): _ESCAPES,
}


def robots(cases: Path) -> Area:
    rules, files = Test("rules, made for the test"), Test("robots.txt files of the web")
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
    return Area(
        "robots.txt",
        "Google's robots.txt specification test",
        [rules, files, both],
        "An empty URL in the test stands for the root of a site. One rule of Google's that the RFC"
        " doesn't have is kept: `Allow: /a/index.html` allows `/a/` too.",
        differences,
    )


# ----------------------------------------------------------------------------------------------

AREAS: list[Callable[[Path], Area]] = [urls, encodings, robots]


def page(areas: list[Area]) -> str:
    lines = [
        "# Conformance",
        "",
        "Written by `python benchmarks/conformance.py CASES --write`, where CASES holds the public"
        " test files under `conformance/`.",
        "",
        "| area | tests | what | passed |",
        "|---|---|---|---|",
    ]
    for area in areas:
        for test in area.tests:
            share = f"{test.right} of {test.total} ({test.right / max(1, test.total):.1%})"
            lines.append(f"| {area.name} | {area.source} | {test.what} | {share} |")
    for area in areas:
        lines += ["", f"## {area.name}", "", *filter(None, [area.notes])]
        if area.differences:
            lines += ["", "| difference | reason |", "|---|---|"]
            lines += [f"| {what} | {reason} |" for what, reason in area.differences]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", type=Path, metavar="CASES")
    parser.add_argument("--write", action="store_true", help=f"to {PAGE.name}")
    arguments = parser.parse_args()
    areas = [area(arguments.cases) for area in AREAS]
    text = page(areas)
    print(text, end="")
    if arguments.write:
        PAGE.write_text(text, "utf-8")
    return any(reason == "?" for area in areas for _, reason in area.differences)


if __name__ == "__main__":
    sys.exit(main())
