"""Whether the compiled scanner of HTML finds what the regular expressions find, and how fast.

    python benchmarks scanner [FOLDER] [--inputs N] [--seed N] [--sample N]

Makes random inputs of pieces of markup, of invalid bytes and, given a folder, of pieces of the HTML
files in it. Reads each with both readers, once for all elements and once for links and the title. A
difference is printed with its input, and ends the benchmark with status 1. Gives one row for the
inputs, and one for the files:

- different: how many were read differently.
- elements: how many elements the scanner found in all.
- scanner_us, expressions_us: microseconds of CPU for a page, if a folder is given.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import Row

from crawler.reading.parse import elements, finish
from crawler.reading.parse.head import reading_head
from crawler.reading.parse.links import reading
from crawler.reading.parse.tokens import ATTRIBUTE_NAMES, NESTED, RAW_TEXT, attributes_of, tags

QUICK = {"inputs": 2000}

NAMES = frozenset({"a", "area", "base", "frame", "iframe", "img", "link", "meta", "title"})
ALL_NAMES = NAMES | frozenset({"html", "script", "style", "textarea", "source"})
LINK_NAMES = frozenset({"a", "area", "frame", "iframe", "img", "link", "refresh"})
_TAGS = [*ALL_NAMES, *RAW_TEXT, *NESTED, "frameset", "div", "noscript", "h1", "scripts", "aa"]
_ATTRIBUTES = [*ATTRIBUTE_NAMES, "id", "hrefs", "=href", "lang"]
_VALUES = (
    "x",
    "/",
    "x#f",
    "a=b",
    "&amp;",
    "&#x26;",
    "&copy",
    "\0",
    "é",
    "€",
    "😀",
    "open",
    "next",
    "nofollow",
    "alternate x",
    "",
    "<a>",
)
_EQUALS = ("=", " = ", "\n=", "", "==", "='", '="')
_ENDS = (">", ">", ">", "/>", "'>", '">', " >", "", "<")
_MARKS = (
    "<!-- --> --!> <!--> <!---> -- - ! <! <? </ </> < > / ' = x <script> </script> <!--<script>"
    " --></script> <template> </template> <svg> </svg> <svg/> <noframes> </noframes> <frameset>"
    " <title> </title> <style> </style> <plaintext <![CDATA[ ]]> &amp; é \0"
)
_PIECES = [
    *_MARKS.encode().split(b" "),
    *(b"<template shadowrootmode=open>", b"<a href=", b"<a href='", b'<a href="', b" ", b"\n"),
    *(b"\t", b"\f", b"\r", b"\v", b"\xe2\x82", b"\xff", b"\xf0\x9f", b"\x80"),
]


def random_tag(chance: random.Random) -> bytes:
    name = chance.choice(_TAGS)
    words = ["</" if chance.random() < 0.2 else "<", chance.choice((name, name, name.upper()))]
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        words += (
            chance.choice(" \n/\f"),
            chance.choice(_ATTRIBUTES),
            chance.choice(_EQUALS),
            chance.choice(_VALUES),
        )
    return "".join([*words, chance.choice(_ENDS)]).encode()


def scanned(html: bytes, names: frozenset[str]) -> list[elements.Element | None]:
    assert elements.Scanner
    return [element for element in elements.Scanner(html, names) if element]


def by_expressions(html: bytes, names: frozenset[str]) -> list[elements.Element | None]:
    text = html.decode("utf-8", "replace")
    return [(tag[0], attributes_of(tag[1])) for tag in tags(text, names) if tag]


def links(html: bytes, scanner: Any) -> tuple[object, object]:
    before, elements.Scanner = elements.Scanner, scanner
    text = html.decode("utf-8", "replace")
    found = finish(reading(text, "http://a.example/d/p", "utf-8", LINK_NAMES, utf8=html))
    elements.Scanner = before
    read = list(found.targets.items()), found.metas
    return read, found.head or finish(reading_head(text, elements.Form.HTML))


def random_inputs(count: int, seed: int, pages: list[bytes]) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        pieces = [
            random_tag(chance) if chance.random() < 0.7 else chance.choice(_PIECES)
            for _ in range(chance.randrange(1, 20))
        ]
        if pages and chance.random() < 0.5:
            page = chance.choice(pages)
            start = chance.randrange(len(page) + 1)
            pieces.insert(chance.randrange(len(pieces)), page[start : start + 200])
        yield b"".join(pieces)


def differences(inputs: Iterator[bytes], names: frozenset[str]) -> Row:
    count = different = found = 0
    for html in inputs:
        count += 1
        ours = scanned(html, names)
        found += len(ours)
        if ours != by_expressions(html, names) or links(html, elements.Scanner) != links(
            html, None
        ):
            different += 1
            print(f"read differently: {html[:2000]!r}", file=sys.stderr)
    return {"inputs": count, "different": different, "elements": found}


def microseconds(read: Callable[[bytes, frozenset[str]], object], pages: list[bytes]) -> float:
    start = time.process_time()
    for page in pages:
        read(page, NAMES)
    return 1e6 * (time.process_time() - start) / max(1, len(pages))


def run(
    folder: Path | None = None, *, inputs: int = 1_000_000, seed: int = 1, sample: int = 2000
) -> Iterator[Row]:
    if elements.Scanner is None:
        sys.exit("the scanner isn't compiled; run `python hatch_build.py`")
    files = sorted(folder.rglob("*.html")) if folder else []
    some = [file.read_bytes() for file in files[:: max(1, len(files) // sample)]]
    row = {"what": "random", **differences(random_inputs(inputs, seed, some), ALL_NAMES)}
    yield row
    different = int(row["different"])
    if files:
        row = {"what": "files", **differences((file.read_bytes() for file in files), ALL_NAMES)}
        different += int(row["different"])
        row["scanner_us"] = microseconds(scanned, some)
        row["expressions_us"] = microseconds(by_expressions, some)
        yield row
    if different:
        sys.exit(1)
