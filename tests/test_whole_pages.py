"""Whole pages: a real browser shows what pywb replays from the WARC files of a crawl.

pywb needs older packages than the crawler (and another `brotli`), so it gets an environment of its
own.
"""

import asyncio
import base64
import contextlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, Browser, browsing
from crawls import run_here
from doc_web import CDN, DOCS, FONTS, SEED, WEB
from servers import PageServer
from test_docs import free_address
from test_requisites import configure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium"),
    pytest.mark.timeout(900),
]

# pywb shows a page in a frame. Its own style sheets and pictures are outside of that frame.
_PAGE = "document.querySelector('iframe').contentDocument"
_SHOWN = f"""(() => {{
    const page = {_PAGE};
    const bare = address => address.replace(/.*_\\//, '');
    const sheets = new Set();
    const walk = sheet => {{
        if (sheet.href && sheet.cssRules.length) sheets.add(bare(sheet.href));
        for (const rule of sheet.cssRules) if (rule.styleSheet) walk(rule.styleSheet);
    }};
    for (const sheet of page.styleSheets) walk(sheet);
    return {{
        sheets: [...sheets].sort(),
        colour: page.defaultView.getComputedStyle(page.querySelector('h1')).color,
        images: Object.fromEntries([...page.images].map(one => [one.id, one.naturalWidth])),
        menu: page.documentElement.dataset.menu || '',
        loaded: page.defaultView.performance.getEntriesByType('resource')
            .filter(one => one.responseStatus == 200)
            .map(one => bare(one.name))
    }}
}})()"""


@pytest.fixture(scope="module")
def pywb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of pywb, in an environment of their own."""
    folder = tmp_path_factory.mktemp("pywb")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    programs = folder / "bin"
    packages = "pywb>=2.10,<2.11", "setuptools<81"  # it imports pkg_resources
    done = subprocess.run([programs / "pip", "install", "-q", *packages], check=False)
    if done.returncode:
        pytest.skip("pywb can't be installed")
    return programs


@contextlib.contextmanager
def replaying(pywb: Path, folder: Path, session: Path) -> Iterator[str]:
    """Serve the WARC files of a session. Gives the address under which each URL is replayed."""
    folder.mkdir()
    files = sorted(session.glob("rank-*/*.warc.gz"))
    for words in (["init", "docs"], ["add", "docs", *files]):
        subprocess.run([pywb / "wb-manager", *words], cwd=folder, check=True, capture_output=True)
    where = free_address()
    address, port = where.split(":")
    with subprocess.Popen(
        [pywb / "wayback", "-b", address, "-p", port],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://{where}/docs/", timeout=30).close()
                    break
                time.sleep(0.1)
            yield f"http://{where}/docs/"
        finally:
            server.kill()


async def look(address: str, folder: Path) -> dict[str, Any]:
    """What a browser shows of a replayed page. A picture of it is left in the folder."""
    async with browsing(folder) as browser:
        await browser.open(address, 900, "light")
        await browser.until(f"{_PAGE}.readyState == 'complete' && !!{_PAGE}.querySelector('h1')")
        await _until_quiet(browser)
        taken = await browser.call("Page.captureScreenshot")
        (folder / "page.png").write_bytes(base64.b64decode(taken["data"]))
        shown: dict[str, Any] = await browser.evaluate(_SHOWN)
        return shown


async def _until_quiet(browser: Browser) -> None:
    """Wait until the page has asked for nothing more for a while."""
    count, quiet = -1, 0
    while quiet < 10:
        await asyncio.sleep(0.1)
        now = await browser.evaluate(
            f"{_PAGE}.defaultView.performance.getEntriesByType('resource').length"
        )
        quiet, count = (quiet + 1, count) if now == count else (0, now)


@pytest.mark.parametrize("requisites", [True, False])
def test_a_page_is_replayed_as_it_was(tmp_path: Path, pywb: Path, *, requisites: bool) -> None:
    directory = tmp_path / "s"
    with PageServer({}, WEB) as server:
        words = "crawl", str(configure(tmp_path, server.port, requisites=requisites))
        assert run_here(*words, "--session", str(directory)).returncode == 0
    # The server of the pages is gone: what is shown now comes from the WARC files.
    with replaying(pywb, tmp_path / "pywb", directory) as replayed:
        shown = asyncio.run(look(f"{replayed}{SEED}", tmp_path))
    if not requisites:  # only what a link leads to
        assert shown["sheets"] == []
        assert shown["images"] == {"plan": 48, "logo": 0, "sized": 0}
        assert shown["menu"] == ""
        return
    assert shown["sheets"] == [
        f"http://{DOCS}/css/main.css",
        f"http://{DOCS}/css/print.css",
        f"http://{DOCS}/css/theme/colours.css",
        f"http://{FONTS}/hand.css",
    ]
    assert shown["colour"] == "rgb(200, 0, 0)"
    assert shown["images"] == {"plan": 48, "logo": 48, "sized": 48}
    assert shown["menu"] == "ready"
    for path in ("css/theme/leaf.png", "img/note.png", "img/head.png", "img/start.png"):
        assert f"http://{DOCS}/{path}" in shown["loaded"]
    assert f"http://{CDN}/logo.png" in shown["loaded"]
