"""The recipes of docs/corpus.md: each is run as it stands there, against a small session."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from crawls import crawl_here, run_here, sets
from servers import Page, PageServer

PAGE = Path(__file__).parent.parent / "docs" / "corpus.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HTML = {"Content-Type": "text/html"}
LONG = "Crawlers fetch pages, follow their links, and store what they find for later readers. " * 5


def html(title: str, language: str, links: str, text: str = LONG) -> Page:
    return Page(
        f"<html lang={language}><title>{title}</title><body><nav>{links}</nav>"
        f"<main><h1>{title}</h1><p>{text}</p><p>{text}</p></main></body></html>".encode(),
        headers=HTML,
    )


HOME = html("Home", "en", "<a href=/a>a</a> <a href=/b>b</a> <a href=http://de.example/>de</a>")
EN = {
    "/": HOME,
    "/a": html("Page A", "en", "<a href=/>home</a> <a href=/gone>gone</a>"),
    "/b": html("Page B", "en", "<a href=/a>a</a> <a href=/again>again</a>"),
    "/again": HOME,
}
DE = {"/": html("Übersicht", "de", "<a href=http://en.example/a>en</a>")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the session `first`."""
    folder = tmp_path_factory.mktemp("recipes")
    with PageServer({}, {"en.example": EN, "de.example": DE}) as server:
        hosts = ", ".join(f"'{host}.example'='127.0.0.1:{server.port}'" for host in ("en", "de"))
        settings = sets(
            "politeness.delay_s=0",
            "extract.anchors=true",
            f"dns.hosts={{{hosts}}}",
            'scope.domains=["example"]',
        )
        done = crawl_here(folder / "first", "http://en.example/", *settings)
    assert done.returncode == 0, done.stderr
    return folder


def sections() -> dict[str, list[tuple[str, str]]]:
    """The blocks of each section of the page, by its heading."""
    parts = re.split(r"^#+ (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {
        title: BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: blocks for title, blocks in found.items() if blocks}


def sites(output: str, folder: Path) -> None:
    rows = [re.findall(r"[\w.]+", line) for line in output.splitlines() if ".example" in line]
    assert rows == [["en.example", "de.example", "2"], ["de.example", "en.example", "1"]]


def broken(output: str, folder: Path) -> None:
    assert output == "404 http://en.example/gone linked from http://en.example/a\n"


def languages(output: str, folder: Path) -> None:
    assert re.search(r"en\W+4\b", output)
    assert re.search(r"de\W+1\b", output)


def most_linked(output: str, folder: Path) -> None:
    assert output.splitlines()[1].split() == ["4", "Page", "A", "http://en.example/a"]


def texts(output: str, folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    pages = {line["url"]: line for line in lines}
    homes = {"http://en.example/", "http://en.example/again"}  # have the same content
    assert len(pages) == len(lines) == 4
    assert len(homes & set(pages)) == 1
    german = pages["http://de.example/"]
    assert (german["title"], german["language"]) == ("Übersicht", "de")
    assert "store what they find" in german["text"]
    assert output.count(" characters\n") == 4


def graph(output: str, folder: Path) -> None:
    with gzip.open(folder / "edges.tsv.gz", "rt") as file:
        assert len(file.readlines()) == 11
    assert "DiGraph with 6 nodes and 11 edges" in output
    assert "5 pages can reach each other" in output
    assert output.endswith("most linked to: http://en.example/a\n")


def link_texts(output: str, folder: Path) -> None:
    assert re.search(r"http://en.example/a\W+a\W+3\b", output)
    assert re.search(r"http://de.example/\W+de\W+2\b", output)


CHECKS: dict[str, Callable[[str, Path], None]] = {
    "Corpora: use what a crawl has left": sites,
    "DuckDB": broken,
    "polars": languages,
    "pandas": most_linked,
    "trafilatura": texts,
    "networkx": graph,
    "The texts of links": link_texts,
}


def test_each_recipe_is_checked() -> None:
    assert list(sections()) == list(CHECKS)


@pytest.mark.parametrize("title", CHECKS)
def test_recipe(title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, code in sections()[title]:
        for package in re.findall(r"^import (\w+)", code, re.MULTILINE):
            if find_spec(package) is None:
                pytest.skip(f"no {package}: pip install '.[test]'")
    monkeypatch.chdir(folder)
    output = ""
    for language, code in sections()[title]:
        if language == "sh":
            program, module, name, *words = code.split()
            assert (program, module, name) == ("python", "-m", "crawler")
            done = run_here(*words)
        else:
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        output += done.stdout if language == "python" else ""
    CHECKS[title](output, folder)
