"""The table of plans, as text and as a page."""

from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser
from test_graph import directory

from partition.__main__ import main

GIANT = "<script>alert(1)</script>"


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """8 of 10 pages are of one site."""
    pages = {"id": list(range(10)), "site": [GIANT] * 8 + ["y", "z"]}
    return directory(tmp_path / "web", pages, {"src": [0, 0], "dst": [9, 1]})


def test_page(web: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    words = f"evaluate {web} -k 2,5 --models site-graph,hybrid --html {page}"
    assert main(words.split()) == 0
    text = capsys.readouterr().out.splitlines()
    tree = LexborHTMLParser(page.read_text())
    assert tree.css_first("h1").text() == f"Partitions of {web}"
    assert not tree.css("script")
    models = tree.css_first("section")
    rows = [[cell.text().strip() for cell in row.css("td, th")] for row in models.css("tr")]
    assert [row[:2] for row in rows] == [
        ["model", "k"],
        *([model, k] for k in "25" for model in ("site-graph", "hybrid")),
    ]
    above, below, *lines = (line.split() for line in text[:6])
    assert max(map(len, text[:6])) <= 80
    assert sorted(" ".join(rows[0]).split()) == sorted([*above, *below])
    assert rows[1:] == lines
    over = [row.css_first("td").text() for row in tree.css("tr.over")]
    assert over == ["site-graph"]  # of 5 parts; in 2, the giant has one and the others have one
    notes = [note.text().strip() for note in models.css("li")]
    assert notes == text[6:]
    assert notes[0].endswith(f"site {GIANT} alone has 1.60 times the average load")


@pytest.mark.parametrize("place", ["", "no/page.html"])
def test_a_page_that_can_not_be_written(
    web: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    assert main(["evaluate", str(web), "-k", "2", "--html", str(tmp_path / place)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("must be a file in a folder that exists")
