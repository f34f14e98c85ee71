"""Hostile input, and the cost of reading it: time in which no other task runs, and memory.

Time is CPU time of the event loop's thread, so other load on the machine doesn't matter. Memory is
what the process takes in addition. Linux only.
"""

import asyncio
import gc
import gzip
import random
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import brotli
import zstandard

_T = TypeVar("_T")
_MEGABYTE = 1 << 20

MOST_SECONDS = 0.05
MOST_BYTES = 100 << 20


class Cost:
    """The longest break of the event loop, and the peak of memory, of all measured work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.bytes = 0
        self.worst = ""  # name of the input that took longest

    @property
    def time(self) -> str:
        return f"{self.seconds * 1000:.0f} ms ({self.worst})"

    @property
    def memory(self) -> str:
        return f"{self.bytes / 1e6:.0f} MB"

    @property
    def bearable(self) -> bool:
        return self.seconds <= MOST_SECONDS and self.bytes <= MOST_BYTES

    def add(self, seconds: float, what: str) -> None:
        if seconds > self.seconds:
            self.seconds, self.worst = seconds, what

    async def of(self, what: str, work: Awaitable[_T]) -> _T:
        """Await some work, and add its cost. Returns its result."""
        with _memory(self):
            beat = asyncio.create_task(self._beat(what))
            try:
                return await work
            finally:
                beat.cancel()

    async def _beat(self, what: str) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.add(time.thread_time() - before, what)

    def of_steps(self, what: str, steps: Iterator[object]) -> None:
        """Do all steps, and add their cost."""
        with _memory(self):
            done = False
            while not done:
                before = time.thread_time()
                done = next(steps, steps) is steps
                self.add(time.thread_time() - before, what)

    def of_call(self, what: str, call: Callable[[], object]) -> None:
        """Make a call, and add its cost as that of one step."""
        self.of_steps(what, (call() for _ in range(1)))


@contextmanager
def _memory(cost: Cost) -> Iterator[None]:
    gc.collect()
    gc.freeze()  # so that the program's other objects don't slow down collections
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the present size
    before = _status("VmRSS")
    try:
        yield
    finally:
        gc.unfreeze()
        cost.bytes = max(cost.bytes, _status("VmHWM") - before)


def _times(line: str, size: int) -> bytes:
    """Repeat a line up to `size` bytes; %d becomes 0, 1, 2 and so on."""
    lines, left, number = [], size, 0
    while left > 0:
        lines.append((line % number if "%d" in line else line).encode("latin-1"))
        left -= len(lines[-1])
        number += 1
    return b"".join(lines)[:size]


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def replies() -> Iterator[tuple[str, bytes]]:
    """Give responses one at a time, because they are large."""
    ok = b"HTTP/1.1 200 OK\r\n"
    chunked = ok + b"Transfer-Encoding: chunked\r\n\r\n"
    for coding, payload in _bombs():
        head = ok + f"Content-Encoding: {coding}\r\n\r\n".encode()
        yield f"gigabytes as {coding}", head + payload
    noise = random.Random(1).randbytes(9 * _MEGABYTE)
    broken = brotli.compress(noise, quality=1)[:-9] + b"\xff" * 9
    yield "9 MB of br with an error at its end", ok + b"Content-Encoding: br\r\n\r\n" + broken
    yield "chunks of one byte", chunked + b"1\r\nx\r\n" * (9 * _MEGABYTE) + b"0\r\n\r\n"
    extended = b"1;" + b"x" * 9000 + b"\r\nx\r\n"
    yield "long chunk extensions", chunked + extended * 2000 + b"0\r\n\r\n"
    yield "8000 header lines", ok + b"A: b\r\n" * 8000 + b"\r\n"
    yield "header lines without end", ok + b"A: b\r\n" * 100_000
    yield "a header line of 500 kB", ok + b"A: " + b"x" * 500_000 + b"\r\n\r\n"
    yield "a folded header", ok + b"A: b\r\n" + b" c\r\n" * 100_000 + b"\r\n"
    for name in (b"Content-Length", b"Transfer-Encoding", b"Content-Encoding", b"Connection"):
        yield f"a list in {name.decode()}", ok + name + b": " + b"1," * 250_000 + b"\r\n\r\nx"
    yield "100 informational responses", b"HTTP/1.1 103 x\r\n\r\n" * 100 + ok + b"\r\nx"
    yield "informational responses without end", b"HTTP/1.1 103 x\r\n\r\n" * 30_000
    yield "blank lines without end", b"\r\n" * _MEGABYTE
    yield "100,000 trailers", chunked + b"1\r\nx\r\n0\r\n" + b"A: b\r\n" * 100_000 + b"\r\n"
    yield "12 MB without a length", ok + b"\r\n" + bytes(12 * _MEGABYTE)


def _bombs() -> Iterator[tuple[str, bytes]]:
    """Give zeros as ten gigabytes, made of one megabyte repeated; with br, one gigabyte."""
    zeros = bytes(_MEGABYTE)
    packer = zlib.compressobj(9, wbits=-15)
    start = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    deflated = start + 10_239 * again
    gzipped = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + deflated
    yield "deflate", deflated
    yield "gzip", gzipped
    yield "gzip, gzip", gzip.compress(gzipped, 1)
    yield "gzip, gzip, gzip, gzip", gzip.compress(gzip.compress(gzip.compress(gzipped, 1), 1))
    yield "zstd", zstandard.compress(zeros) * 10_240
    yield "br", brotli.compress(bytes(1024 * _MEGABYTE), quality=1)


def pages() -> Iterator[tuple[str, str, bytes, int | None]]:
    """Give pages: name, Content-Type, bytes, and the number of links, or None if it may vary."""
    html, link = "text/html", b"<a href=/x>"
    many = b"".join(b"<a href=/%d>" % n for n in range(100_000))
    names = b" ".join(b"a%d=1" % n for n in range(100_000))
    noise = random.Random(2).randbytes(10 * _MEGABYTE)
    yield "a million divs", html, b"<div>" * 1_000_000 + link, 1
    yield "a million end tags", html, b"</p>" * 1_000_000 + link, 1
    yield "a tag with 100,000 attributes", html, b"<a " + names + b" href=/x>", 1
    yield "a tag of 8 MB of spaces", html, b"<a href=/x" + b" " * 8_000_000 + b">", 1
    yield "a tag of 8 MB of quotes", html, b"<a href=/x " + b"'" * 8_000_000 + b">", 1
    yield "a tag of 290,000 attributes", html, b"<a href=/x" + b" a=1" * 290_000 + b">", 1
    yield "100,000 links", html, many, 100_000
    yield "100,000 links in UTF-16", html, b"\xff\xfe" + many.decode().encode("utf-16-le"), 100_000
    yield "nothing closed", html, b"<table><tr><td><b><i><a href=/x>" * 50_000, 1
    yield "forms and tables, misnested", html, b"<table><form><p></table></form>" * 50_000 + link, 1
    yield "formatting, adopted", html, b"<b><p></b>" * 100_000 + link, 1
    yield "NUL bytes", html, bytes(3 * _MEGABYTE) + link, 1
    yield "a value that doesn't end", html, link + b'<a href="' + b"<p>" * 500_000, 1
    yield "quotes", html, link + b"<a href='\"" * 300_000, None
    yield "comments that don't end", html, link + b"<!--" * 500_000, 1
    yield "less-than signs", html, link + b"<" * 3_000_000, 1
    yield "references", html, b"&lt" * 1_000_000 + link, 1
    yield "one href of 3 MB", html, b'<a href="/' + b"x" * 3_000_000 + b'">' + link, None
    yield "a srcset of 100,000", html, b'<img srcset="' + b"/i 1x, " * 100_000 + b'">' + link, 1
    yield "10 MB of noise", html, noise, None
    yield "4 MB of Chinese", html, "\u4e2d\u6587".encode("gbk") * _MEGABYTE + link, 1
    yield "a wrong charset", "text/html; charset=iso-2022-jp", noise[:_MEGABYTE] + link, None
    yield "a script of <!--", html, b"<script>" + b"<!--" * 2_500_000, 0
    yield "scripts in a script", html, b"<script><!--<script>" * 500_000, 0
    yield "a comment of hyphens", html, b"<!--" + b"-" * (10 * _MEGABYTE), 0
    yield "a title that doesn't end", html, b"<title>" + b"</titl" * 1_500_000, 0
    base = b"<base href='http://b.example/%b/'>"
    short = b"".join(b"<a href='%d?'>" % n for n in range(100_000))
    climbing = short.replace(b"href='", b"href='../")
    yield "a base of 2 kB and 100,000 links", html, base % (b"a/" * 1000) + short, None
    yield "a base of 250 kB and 100,000 links", html, base % (b"a" * 250_000) + short, None
    yield "the same, and links that climb", html, base % (b"a" * 250_000) + climbing, None
    yield "a base of 1 MB and 100,000 links", html, base % (b"a" * _MEGABYTE) + short, 0
    long = [b"<a href='/%d " % n + b"\xc3\xa9" * 120_000 + b"'>" for n in range(39)]
    yield "39 hrefs of 240 kB", html, b"".join(long), 0
    escapes = [b"<a href='/%d" % n + b"%aa" * 5000 + b"'>" for n in range(600)]
    yield "escapes", html, b"".join(escapes), 600
    dots = [b"<a href='/%d" % n + b"/a/.." * 3000 + b"'>" for n in range(600)]
    yield "dots", html, b"".join(dots), 600
    wide = b"".join(b"<a href='/?q=\xe9%d'>" % n for n in range(100_000))
    yield "100,000 links in windows-1252", "text/html; charset=windows-1252", wide, 100_000
    queries = "\u4e2d".encode("gb18030") * 3000
    chinese = b"".join(b"<a href='/?q=%d" % n + queries + b"'>" for n in range(1300))
    yield "8 MB of queries in gb18030", "text/html; charset=gb18030", chinese, 1300
    for coding in ("gb18030", "shift_jis"):
        long_queries = "".join(f"<a href='/?{'日' * 250_000}{n}'>" for n in range(10))
        kind = f"text/html; charset={coding}"
        yield f"queries of 250 kB in {coding}", kind, long_queries.encode(coding), 0
    meta = b"<meta name=robots content='" + b"a," * 12_000 + b"'>"
    yield "meta elements for robots", html, meta * 400, 0
    yield from _xhtml_pages()
    yield "digits", html, (b"<a href='&#" + b"0" * 100_000 + b"65;'>") * 100, 1


def _xhtml_pages() -> Iterator[tuple[str, str, bytes, int | None]]:
    xhtml, link = "application/xhtml+xml", b"<a href='/x'/>"
    start = b"<html xmlns='http://www.w3.org/1999/xhtml'>"
    prefixes = b" ".join(b"xmlns:a%d='b'" % n for n in range(1000))
    pieces: list[tuple[str, bytes, int | None]] = [
        ("a million elements", link + b"<div>" * 1_000_000, 1),
        ("600,000 namespaces inside each other", link + b"<a xmlns='b'>" * 600_000, 1),
        ("1,000 prefixes a tag", (b"<a " + prefixes + b"/>") * 500 + link, 1),
        ("half declarations", b"<a " + b"xmlns= " * 200_000 + b"/>" + link, 1),
        ("blanks in declarations", b"<a " + (b"xmlns" + b" " * 1000) * 2000 + b"/>" + link, 1),
        ("a name of 8 MB", link + b"<" + b"a" * 8_000_000, 1),
        ("quotes", link + b"<a " + b"'" * 8_000_000, 1),
        ("CDATA that doesn't end", link + b"<![CDATA[" * 800_000, 1),
        ("CDATA of brackets", link + b"<![CDATA[" + b"]" * 10_000_000, 1),
        ("a tag of 8 MB of spaces", link + b"<a " + b" " * 8_000_000 + b"/>", 1),
        ("scripts", link + b"<script>" * 1_000_000, 1),
        ("instructions", link + b"<?" * 4_000_000, 1),
    ]
    for what, body, links in pieces:
        yield f"XHTML: {what}", xhtml, start + body, links


def headers() -> Iterator[tuple[str, list[tuple[bytes, bytes]]]]:
    """Give headers of pages, half a megabyte each."""
    yield "Link headers", [(b"Link", _times("<%d>;rel=next,", 500_000))]
    yield "a Link header of parameters", [(b"Link", b"<x>" + b";a=b" * 125_000 + b";rel=next")]
    yield "a Link header of quotes", [(b"Link", b'<x>;a="' + b"\\" * 499_000)]
    yield "a Link header with many relations", [(b"Link", b'<x>;rel="' + b"a " * 240_000)]
    yield "X-Robots-Tag headers", [(b"X-Robots-Tag", b"a," * 250_000)]
    yield "a Content-Type", [(b"Content-Type", b"text/html;" + b"charset=" * 62_000)]
    yield "8,000 headers", [(b"Link", b"<x>;rel=next")] * 8000


def robots_files() -> Iterator[tuple[str, bytes, str]]:
    """Give files of half a megabyte, each with a path of 2,000 characters that is hard to judge."""
    same, size = "/" + "a" * 2000, 512 << 10
    files = {
        "65,000 prefixes": "allow:/%d\n",
        "one wildcard, again and again": "allow:*aabaa\n",
        "40,000 wildcards": "allow:*aabaa%d\n",
        "wildcards of very many pieces": "allow:" + "*\xff" * 500 + "*%d\n",
        "pieces that all match but the last": "allow:" + "*a" * 990 + "*b%d\n",
        "40,000 ends": "allow:*%d$\n",
        "folders by their index": "allow:/%d/index.html\n",
        "bytes to escape": "allow:/" + "\xff" * 20_000 + "*%d\n",
        "40,000 sitemaps": "sitemap:/%d\n",
        "agents": "user-agent:*\n",
    }
    for what, line in files.items():
        yield what, b"User-agent: *\n" + _times(line, size - 14), same
    lengths = b"".join(b"allow:*" + b"a" * n + b"*b\n" for n in range(1, 1000))
    yield "wildcards of a thousand lengths", b"User-agent: *\n" + lengths, same


def sitemaps() -> Iterator[tuple[str, str, bytes]]:
    """Give sitemaps: name, URL, bytes."""
    here, long = "http://a.example/sitemap.xml", "http://a.example/" + "a" * 2000 + "/sitemap.xml"
    xml, entry = b"<?xml version='1.0'%b?><urlset>", b"<url><loc>%d</loc></url>"
    entries = b"".join(entry % n for n in range(50_000))
    noise = random.Random(3).randbytes(4 * _MEGABYTE)
    yield "an XML declaration of 40 MB", here, b"<?xml " + b" " * 40_000_000
    yield "a document type of 10 MB", here, b"<!DOCTYPE a [" + b"<!ENTITY a 'b'>" * 700_000
    yield "50,000 entries relative to a long URL", long, xml % b"" + entries
    yield "a loc of 10 MB", here, xml % b"" + b"<url><loc>" + b"a" * (10 * _MEGABYTE)
    yield "elements of 16 kB", here, xml % b"" + (b"<url><loc>" + b"&amp;" * 3200) * 600
    yield "a million open elements", here, xml % b"" + b"<url>" * 1_000_000
    yield "comments", here, xml % b"" + b"<!--" * 2_000_000
    for label in (b"punycode", b"iso-2022-jp", b"gb18030", b"utf-7"):
        declared = xml % (b" encoding='" + label + b"'")
        yield f"noise as {label.decode()}", here, declared + noise
    yield "200,000 members of gzip", here, gzip.compress(b"<urlset>") + gzip.compress(b"") * 200_000
    yield "blanks", here, b" " * 40_000_000
    yield "lines", here, b"http://a.example/\n" * 1_000_000
