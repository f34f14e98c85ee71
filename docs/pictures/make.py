"""Takes the pictures of docs/tutorial.md: `python docs/pictures/make.py`, after its commands.

It crawls the web of the demonstration as the tutorial does. It needs mpirun, chromium and
`pip install '.[test]'`, and takes two minutes.
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType
from rich.text import Text

from crawler.session import read_status
from crawler.watch.table import draw

FOLDER = Path(__file__).parent
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
CRAWLER = (sys.executable, "-m", "crawler")
LISTEN = "127.0.0.1:8080"
# Rich's pictures load a font. Without it, the reader's own font is taken.
PLAIN_SVG = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def terminal(name: str, title: str, *shown: RenderableType) -> None:
    """Draw what a terminal of 80 columns shows."""
    console = Console(width=80, record=True, file=io.StringIO(), highlight=False)
    for one in shown:
        console.print(one)
    console.save_svg(str(FOLDER / name), title=title, code_format=PLAIN_SVG)


def photograph(browser: Browser, address: str, name: str, height: int) -> None:
    """Take a picture of the top of a page."""
    page = browser.new_page(viewport={"width": 900, "height": height})
    page.goto(address)
    page.wait_for_timeout(3000)
    page.screenshot(path=FOLDER / name)
    page.close()


def crawl(session: str, *words: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a crawl as the tutorial does."""
    return subprocess.Popen(
        ["mpirun", "-n", "2", *CRAWLER, "crawl", "demo.toml", "--session", session, *words],
        cwd=folder,
    )


def run(*words: str, folder: Path) -> str:
    """What a command prints."""
    return subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def web(folder: Path) -> Iterator[None]:
    """Serve the web, and write the configuration."""
    command = [sys.executable, "-m", "crawler.demo.web", "--config", "demo.toml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as one:
        assert one.stdout
        one.stdout.readline()
        yield
        one.terminate()


def main() -> None:
    """Take all pictures."""
    with (
        tempfile.TemporaryDirectory() as name,
        web(folder := Path(name)),
        sync_playwright() as started,
        started.chromium.launch(executable_path=CHROMIUM) as browser,
    ):
        first = crawl("first", "--set", f"dashboard.listen={LISTEN}", folder=folder)
        while not (folder / "first/status.json").exists() or (
            read_status(folder / "first").pages < 1000
        ):
            time.sleep(0.2)
        photograph(browser, f"http://{LISTEN}/", "dashboard.png", 1200)
        terminal("watch.svg", "python -m crawler watch first", draw(read_status(folder / "first")))
        assert first.wait() == 0
        photograph(browser, (folder / "first/report/index.html").as_uri(), "report.png", 900)
        build = (sys.executable, "-m", "partition", "build", "first", "-k", "2")
        run(*build, "--out", "web.parts", folder=folder)
        vector = ("assignment.scheme=part-vector", "assignment.part_vector=web.parts")
        second = crawl("second", *(w for one in vector for w in ("--set", one)), folder=folder)
        assert second.wait() == 0
        words = ("report", "first", "second")
        told = run(*CRAWLER, *words, folder=folder).rstrip()
        terminal("compare.svg", f"python -m crawler {' '.join(words)}", Text(told))


if __name__ == "__main__":
    main()
