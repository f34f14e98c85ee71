"""A small documentation site whose pages need style sheets, fonts, scripts and images to be shown.

Some of them are on other hosts, as on the real web.
"""

import struct
import zlib
from collections.abc import Mapping

from servers import Page

DOCS, CDN, FONTS, OTHER = "docs.test", "cdn.test", "fonts.test", "other.test"
HOSTS = (DOCS, CDN, FONTS, OTHER)
SEED = f"http://{DOCS}/"
_NAMES = ("install", "tutorial", "reference", "faq")
PAGES = {SEED, *(f"{SEED}{name}.html" for name in _NAMES), f"{SEED}img/plan.png"}


def _picture(red: int, green: int, blue: int, side: int = 48) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes((red, green, blue)) * side) * side
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


_SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><symbol id="star"
viewBox="0 0 10 10"><circle cx="5" cy="5" r="4" fill="orange"/></symbol></svg>"""


def _document(name: str) -> bytes:
    links = "".join(f'<li><a href="/{other}.html">{other}</a></li>' for other in _NAMES)
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<link rel="stylesheet" href="/css/main.css"><link rel="icon" href="/img/icon.png">
<link rel="preload" as="image" href="/img/late.png">
<style>.note {{ background: #eef url("/img/note.png") no-repeat }}</style>
<script src="/js/menu.js"></script></head>
<body><nav><ul>{links}</ul></nav><h1>{name}</h1>
<p class="note">See <a href="http://{OTHER}/">another site</a>.</p>
<p><a href="/img/plan.png"><img id="plan" src="/img/plan.png" alt="a plan"></a>
<img id="logo" src="http://{CDN}/logo.png" alt="a logo">
<img id="sized" srcset="/img/small.png 1x, /img/large.png 2x" src="/img/old.png" alt="a size">
<svg width="20" height="20"><use xlink:href="/img/sprite.svg#star"/></svg>
<span style="background-image: url('/img/{name}.png')">{name}</span></p>
<video poster="/img/poster.png" src="/film.webm"></video>
<object data="/img/drawing.svg" type="image/svg+xml"></object></body></html>""".encode()


def _page(body: bytes, media: str) -> Page:
    return Page(body, headers={"Content-Type": media})


def _sheet(text: str) -> Page:
    return _page(text.encode(), "text/css")


_DOCS: Mapping[str, Page] = {
    "/": _page(_document("start"), "text/html"),
    **{f"/{name}.html": _page(_document(name), "text/html") for name in _NAMES},
    "/css/main.css": _sheet(
        '@import "theme/colours.css";\n@import url(print.css) print;\n'
        "body { font-family: Hand, sans-serif } h1 { background: url(../img/head.png) }"
    ),
    "/css/print.css": _sheet("/* url(never.png) */ nav { display: none }"),
    "/css/theme/colours.css": _sheet(
        f"@import '../main.css'; @import url('http://{FONTS}/hand.css');"
        " h1 { color: rgb(200, 0, 0) } nav { background: url(\"leaf.png\") }"
    ),
    "/js/menu.js": _page(b"document.documentElement.dataset.menu = 'ready'", "text/javascript"),
    "/img/sprite.svg": _page(_SVG, "image/svg+xml"),
    "/img/drawing.svg": _page(_SVG, "image/svg+xml"),
    "/film.webm": _page(b"\x1aE\xdf\xa3", "video/webm"),
    "/img/late.png": Page(status=302, headers={"Location": "/img/early.png"}),
    **{
        f"{path}.png": _page(_picture(*colour), "image/png")
        for path, colour in {
            "/img/icon": (0, 0, 90), "/img/note": (200, 200, 255), "/img/plan": (0, 120, 0),
            "/img/small": (9, 9, 9), "/img/large": (8, 8, 8), "/img/old": (7, 7, 7),
            "/img/head": (255, 230, 230), "/img/poster": (1, 1, 1), "/img/early": (2, 2, 2),
            "/img/start": (3, 3, 3), "/img/install": (4, 4, 4), "/img/tutorial": (5, 5, 5),
            "/img/reference": (6, 6, 6), "/css/theme/leaf": (220, 255, 220),
        }.items()
    },
}  # fmt: skip
WEB: Mapping[str, Mapping[str, Page]] = {
    DOCS: _DOCS,
    CDN: {"/logo.png": _page(_picture(120, 0, 120), "image/png")},
    FONTS: {
        "/hand.css": _sheet(
            "@font-face { font-family: Hand; src: url(hand.woff2), url(hand.ttf) }"
        ),
        "/hand.woff2": _page(b"wOF2", "font/woff2"),
        "/hand.ttf": _page(b"\0\1\0\0", "font/ttf"),
    },
    OTHER: {"/": _page(b"<img src=never.png>", "text/html")},
}
# What the pages need, except what is a page itself.
REQUISITES = {
    *(f"http://{host}{path}" for host in (DOCS, CDN, FONTS) for path in WEB[host]),
    f"http://{DOCS}/img/faq.png",  # is missing
} - PAGES
