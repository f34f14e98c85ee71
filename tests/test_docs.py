"""The documentation: its site builds, and its reference says what the code has."""

import fnmatch
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crawls import metrics_of, run_here, sets
from servers import PageServer

from crawler.ports import EXIT_CODES
from crawler.report.meanings import LIVE, MEASURES
from crawler.session import described

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says(generator: Any) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.iterdir()}
    assert written == generator.pages(), "run: python docs/reference.py"


def test_each_column_is_described(generator: Any) -> None:
    for schema, words in (
        (generator.columns.PAGES, described.PAGES),
        (generator.columns.LINKS, described.LINKS),
        (generator.columns.SITES, described.SITES),
    ):
        assert set(schema.names) == set(words), "describe columns in session/described.py"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("docs") / "first"
    pages = {"/": b"<a href=/a>a</a> <a href=/gone>gone</a>", "/a": b"a"}
    with PageServer(pages) as server:
        settings = sets(
            "fetch.allow_private_addresses=true", "politeness.delay_s=0", "storage.sync=close"
        )
        words = ("crawl", f"{server.url}/", "--session", str(directory), "--max-pages", "2")
        assert run_here(*words, *settings).returncode == 0
    return directory


def test_each_file_of_a_session_is_described(session: Path) -> None:
    found = {str(path.relative_to(session)) for path in session.rglob("*") if path.is_file()}
    assert {"session.toml", "tables/pages.parquet", "rank-00000/crawl.log"} <= found
    unknown = {
        path for path in found if not any(fnmatch.fnmatch(path, one) for one in described.FILES)
    }
    assert not unknown, "describe files in session/described.py"


def test_each_measure_is_described(session: Path) -> None:
    assert set(metrics_of(session)) == set(MEASURES), "describe measures in report/meanings.py"
    assert set(MEASURES) >= LIVE


def test_exit_codes_stand_in_the_help() -> None:
    from crawler.arguments import make_parser

    told = re.findall(r"\b(\d+): ", str(make_parser().epilog))
    assert list(map(int, told)) == list(EXIT_CODES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A link or an anchor that leads nowhere fails, and a page without a place."""
    pytest.importorskip("material", reason="no mkdocs-material: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return folder


LOADED = re.compile(
    r"<(?:script|img|iframe|source|object)\b[^>]*\b(?:src|data)=\"(?:https?:)?//[^\"]*\""
    r"|<link\b[^>]*\brel=\"(?!canonical)[^>]*href=\"(?:https?:)?//[^\"]*\""
    r"|(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\s]*"
)


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://a.example/x.js">', True),
        ('<link rel="stylesheet" href="//a.example/x.css">', True),
        ("@import 'https://a.example/x.css'", True),
        ("a{background:url(https://a.example/x.png)}", True),
        ('<a href="https://a.example/">', False),
        ('<img src="pictures/x.png">', False),
    ],
)
def test_what_loads_something_from_elsewhere(text: str, loads: bool) -> None:
    assert bool(LOADED.search(text)) is loads


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 40
    found = {
        (path.name, hit[0])
        for path in pages
        for hit in LOADED.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_each_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert not {page for page in pages if not (site / page).with_suffix(".html").exists()}
