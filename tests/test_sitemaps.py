"""Sitemaps of all forms, good and broken; numbers to count by hand."""

import gzip

import pytest
from cases import CASES, needs_cases
from hypothesis import given
from hypothesis import strategies as st

from crawler.reading.sitemaps import Entry, belongs, entries, is_sitemap
from crawler.url import normalise

SITEMAP = "http://a.example/dir/sitemap.xml"


def read(body: bytes | str, **limits: int) -> list[Entry]:
    body = body if isinstance(body, bytes) else body.encode()
    return [entry for entry in entries(body, SITEMAP, **limits) if entry]


def urls(body: bytes | str, **limits: int) -> list[str]:
    return [entry.url for entry in read(body, **limits)]


def urlset(*locations: str) -> str:
    inside = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inside}</urlset>'


A, B = "http://a.example/1", "http://a.example/2"


def test_everything_that_an_entry_says() -> None:
    body = f"""<?xml version="1.0" encoding="UTF-8"?>
    <!-- <url><loc>http://a.example/no</loc></url> -->
    <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="x">
      <url><loc>{A}?a=1&amp;b=&#x32;</loc><lastmod>2024-05-06</lastmod><priority>0.8</priority>
        <image:image><image:loc>http://a.example/i.png</image:loc></image:image>
        <changefreq>daily</changefreq></url>
      <url><priority>7</priority><lastmod/><loc><![CDATA[{B}?x&y]]></loc></url>
      <url><lastmod>2024</lastmod></url><loc>http://a.example/outside</loc>
    </urlset>"""
    assert read(body) == [
        Entry(A + "?a=1&b=2", False, "2024-05-06", 0.8),
        Entry(B + "?x&y", False, None, 1.0),
    ]


@pytest.mark.parametrize(
    "body",
    [
        urlset(f"\n  {A}\n  ", f"\t{B}"),
        "\n\n<?xml version='1.0'?>" + urlset(A, B),
        b"\xef\xbb\xbf" + urlset(A, B).encode(),
        b"\xff\xfe"
        + ("<?xml version='1.0' encoding='utf-16'?>" + urlset(A, B)).encode("utf-16-le"),
        urlset("http://a.example/\n   1", "http://a.\nexample/2"),
        urlset(A, B).replace("http://www.sitemaps", "https://www.sitemaps"),
        urlset(A, B).replace("http://www.sitemaps.org/schemas/sitemap/0.9", "http://x/"),
        urlset(A, B).replace(' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"', ""),
        urlset(A, B).replace("<", "<s:").replace("<s:/", "</s:"),
        urlset(A, "mailto:x", "", B),
        urlset(A, B) + "<urlset>",
        "<!DOCTYPE urlset [<!ENTITY a 'b'>]>" + urlset(A, B),
        urlset(A, B, "http://a.example/3").removesuffix("</loc></url></urlset>"),
        urlset(A, B).replace("</url>", ""),
        gzip.compress(urlset(A, B).encode()),
        gzip.compress(gzip.compress(urlset(A, B).encode())),
        gzip.compress(urlset(A).encode()[:-20]) + gzip.compress(f"<url><loc>{B}</loc>".encode()),
        f"{A}\r\n{B}\r",
        f"\ufeff\n  {A}  \nno URL\n# {A}\n{B}",
        gzip.compress(f"{A}\n{B}\n".encode()),
        f"<rss><channel><link>http://a.example/</link><item><link>{A}</link></item>"
        f"<item><description><![CDATA[<item><link>x]]></description><link>{B}</link></item>",
        f"<rdf:RDF><item rdf:about='x'><link>{A}</link></item><item><link>{B}</link></item>",
        f"<feed><link href='/'/><entry><link rel='self' href='x'/><link href='{A}'/></entry>"
        f'<entry><link rel="alternate" href="../2"/><link href=\'3\'/></entry></feed>',
    ],
)
def test_forms(body: bytes | str) -> None:
    assert urls(body) == [A, B]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (urlset(A, B), True),
        ("\n<?xml version='1.0'?>\n<!-- by x --><?xml-stylesheet href='x'?>" + urlset(A), True),
        ("<!DOCTYPE urlset>" + urlset(A), True),
        (urlset(A).replace("<", "<s:").replace("<s:/", "</s:"), True),
        (urlset(A).encode("utf-16"), True),
        ("<sitemapindex><sitemap><loc>x</loc></sitemap></sitemapindex>", True),
        (gzip.compress(urlset(*[A] * 9999).encode()), True),
        (gzip.compress(gzip.compress(f"{A}\n{B}\n".encode())), True),
        (f"\ufeff{A}\r\n{B}\r\n", True),
        ("\n".join([f"http://a.example/{number}" for number in range(9999)]), True),
        ("", False),
        ("hello\n" + A, False),
        (f"{A} is a page\nof mine", False),
        ("<html><pre><urlset></pre>", False),
        ("<!-- <urlset> --><html>", False),
        ("<rss><channel><item><link>x</link></item></channel></rss>", False),
        ("<urlsets>", False),
        (b"\x1f\x8b broken", False),
        ("<!--" * 1000 + "-->", False),
    ],
)
def test_a_sitemap_is_known_by_what_it_is(body: bytes | str, expected: bool) -> None:
    assert is_sitemap(body if isinstance(body, bytes) else body.encode()) is expected


def test_dates_of_feeds() -> None:
    rss = (
        f"<rss><item><link>{A}</link><pubDate>Mon, 06 May 2024 00:00:00 GMT</pubDate></item></rss>"
    )
    assert read(rss) == [Entry(A, False, "Mon, 06 May 2024 00:00:00 GMT")]
    atom = (
        f"<feed><updated>1</updated><entry><link href='{A}'/><updated>2024-05-06</updated></entry>"
    )
    assert read(atom) == [Entry(A, False, "2024-05-06")]


@pytest.mark.parametrize("date", ["x" * 41, "2024\x1b[2J", "\x07"])
def test_a_date_that_is_none_is_left_out(date: str) -> None:
    body = f"<urlset><url><loc>{A}</loc><lastmod>{date}</lastmod></url></urlset>"
    assert read(body) == [Entry(A, False)]


def test_an_index_names_sitemaps() -> None:
    body = f"""<sitemapindex><sitemap><loc>{A}</loc><lastmod>2024-05-06</lastmod></sitemap>
    <sitemap> {B} </sitemap></sitemapindex>"""
    assert read(body) == [Entry(A, True, "2024-05-06"), Entry(B, True)]


@pytest.mark.parametrize(
    "body",
    [
        "<!DOCTYPE html><html><url><loc>http://a.example/</loc></url></html>",
        "<urlsets><url><loc>http://a.example/</loc></url></urlsets>",
        "<urlset><url><loc>http://a.example/half",
        b"\x1f\x8bnot gzip",
        b"\x1f\x8b\x08",
        b"\0\xff",
        "",
    ],
)
def test_what_is_no_sitemap_is_empty(body: bytes | str) -> None:
    assert read(body) == []


def test_limits() -> None:
    body = urlset(*(f"http://a.example/{number}" for number in range(5000)))
    assert len(read(body)) == 5000
    assert len(read(body, max_entries=7)) == 7
    # 60 bytes of head, 40 bytes an entry: 10 entries and a half.
    assert len(read(body, max_bytes=60 + 10 * 40 + 20)) == 10
    assert len(read(gzip.compress(body.encode()), max_bytes=60 + 10 * 40 + 20)) == 10


def test_a_cut_gzip_file_gives_what_it_has() -> None:
    body = gzip.compress(urlset(*(f"{A}{number * 7919}" for number in range(1000))).encode())
    assert 100 < len(read(body[: len(body) // 2])) < 1000


def test_bombs_are_harmless() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "lol">{entities}]>' + urlset("&e9;", A)
    assert A in urls(bomb)
    assert max(map(len, urls(bomb))) < 100
    assert read(gzip.compress(b" " * 100_000_000), max_bytes=1_000_000) == []


@pytest.mark.parametrize(
    "piece",
    [
        "<url><loc>", "<url", "<", "<![CDATA[", "<loc><![CDATA[x]]>", "<!--", '<url a="', "<url '",
        " ", "\n ", "&", "<loc>&#x41;", "</url>", "]]>",
    ],
)  # fmt: skip
def test_hostile_files_take_a_time_that_grows_with_their_length(piece: str) -> None:
    for start in ("", "<urlset>", "<urlset><url><loc>", "<!DOCTYPE x [", "<feed><entry><link "):
        assert len(read(start + piece * 100_000)) < 2


@pytest.mark.parametrize(
    "body",
    [
        urlset(*[A] * 9_000).encode(),
        gzip.compress(urlset(*[A] * 9_000).encode()),
        b"\xff\xfe" + urlset(*[A] * 9_000).encode("utf-16-le"),
        b"<urlset>" + b"<" * 2_000_000,
        gzip.compress(b"x") * 100_000,
        gzip.compress(b"x\n" * 1_000_000),
        b"x" * 3_000_000,
    ],
)
def test_work_comes_in_steps(body: bytes) -> None:
    assert sum(entry is None for entry in entries(body, SITEMAP)) > 5


def test_a_line_that_is_too_long_is_none() -> None:
    assert urls(f"{A}{'x' * 40_000}\n{B}\n{'x' * 16_384}{A}\n") == [B]


@pytest.mark.parametrize("filler", ["x", " ", "<b>", "<!---->", "<![CDATA[]]>", "<", "&amp;", "]]"])
@pytest.mark.parametrize("length", [0, 1, 50, 300_000])
def test_an_entry_is_found_wherever_it_stands(filler: str, length: int) -> None:
    """Also across the windows in which a file is read."""
    around = filler * (length // len(filler))
    entry = f"<url><loc>{A}</loc></url>"
    assert urls(f"<urlset>{around}{entry}{around}{entry}<b/>{around}") == [A, A]


@pytest.mark.parametrize("shift", range(-70, 30))
def test_an_entry_is_found_across_the_end_of_a_window(shift: int) -> None:
    around = "<b/>" * ((1 << 16) - 20) + " " * (60 + shift)
    assert urls(f"<urlset>{around}<url><loc><![CDATA[{A}]]></loc></url><b/>{around}") == [A]


@pytest.mark.parametrize(
    ("start", "end"), [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<url a='", "'>")]
)
def test_what_is_longer_than_a_window_is_left_out_as_a_whole(start: str, end: str) -> None:
    inside = f"<url><loc>{A}</loc></url>" if start.startswith("<!") else "x"
    hidden = f"{start}{inside * (600_000 // len(inside))}{end}"
    assert urls(f"<urlset>{hidden}<url><loc>{B}</loc></url>") == [B]


@given(st.binary(max_size=300), st.sampled_from(["", "<urlset><url><loc>", "<feed><entry><link "]))
def test_any_bytes_are_harmless(body: bytes, start: str) -> None:
    for entry in read(start.encode() + body) + read(gzip.compress(body)[: len(body)]):
        assert normalise(entry.url) == entry.url


@pytest.mark.parametrize(
    ("sitemap", "entry", "declared_by", "allowed"),
    [
        ("http://a.example/s.xml", "http://a.example/x/y", None, True),
        ("http://a.example/dir/s.xml?x=/y/", "http://a.example/dir/x", None, True),
        ("http://a.example/dir/s.xml", "http://a.example/directory", None, False),
        ("http://a.example/dir/s.xml", "http://a.example/x", "http://a.example", True),
        ("http://a.example/s.xml", "https://a.example/x", None, False),
        ("http://a.example/s.xml", "http://a.example:81/x", None, False),
        ("http://a.example/s.xml", "http://b.example/x", None, False),
        ("http://a.example/s.xml", "http://b.example/x", "http://b.example", True),
        ("http://a.example/s.xml", "http://c.example/x", "http://b.example", False),
    ],
)
def test_of_whom_a_sitemap_may_speak(
    sitemap: str, entry: str, declared_by: str | None, allowed: bool
) -> None:
    assert belongs(sitemap, entry, declared_by) is allowed


# File of crawler-commons -> number of entries in it.
COUNTS = {
    "atom.xml": 1, "do-not-visit.txt": 1, "sitemap-with-bom.txt": 2, "sitemap.badns.xml": 2,
    "sitemap.index.xml": 15, "sitemap.ns.xml": 2, "sitemap.txt": 2, "sitemap.txt.gz": 5,
    "xmlSitemap.gz": 5,
}  # fmt: skip


@needs_cases
@pytest.mark.parametrize("name", COUNTS)
def test_conformance(name: str) -> None:
    body = (CASES / "conformance" / "sitemaps" / name).read_bytes()
    assert len(read(body)) == COUNTS[name]
    assert all(entry.is_sitemap is (name == "sitemap.index.xml") for entry in read(body))
