"""The baseline `hierarchical` by a table of suffixes."""

import json
from pathlib import Path

import pytest
from test_graph import directory

from partition import UserError, evaluate, planning, suffixes, webgraph
from partition.__main__ import main
from partition.settings import Settings
from partition.webgraph import WebGraph

TABLE = {"uk": 1, "ac.uk": 2, "www.ac.uk": 3, ".COM.": 4, "10.0.0.1": 5}


def web_of(*sites: str) -> WebGraph:
    return webgraph.from_arrays([], [], site=list(range(len(sites))), sites=sites)


@pytest.mark.parametrize(
    ("site", "part"),
    [
        ("www.example.co.uk", 1),
        ("cs.example.ac.uk:8080", 2),
        ("www.ac.uk", 3),
        ("a.www.ac.uk", 3),
        ("ac.uk", 2),
        ("b.example.com/~user", 4),
        ("10.0.0.1", 5),
    ],
)
def test_the_longest_suffix_wins(site: str, part: int) -> None:
    assert suffixes.by_suffix(web_of(site), 8, TABLE).tolist() == [part]


def test_hosts_that_none_covers_go_by_site_hash() -> None:
    """A suffix begins at a dot: xac.uk is no ac.uk, and xcom no com."""
    web = web_of("example.de", "example.xcom", "[::1]", "xac.uk", "uk2")
    expected = evaluate.site_hash(web, 8)
    expected[3] = 1
    assert suffixes.by_suffix(web, 8, TABLE).tolist() == expected.tolist()


def test_without_a_table_it_goes_by_top_level_domain() -> None:
    web = web_of("a.uk", "b.ac.uk", "c.de")
    for table, expected in (
        (None, evaluate.hierarchical(web, 8)),
        (TABLE, suffixes.by_suffix(web, 8, TABLE)),
    ):
        plan = planning.plan(web, "hierarchical", 8, Settings(suffixes=table))
        assert plan.part.tolist() == expected.tolist()
        assert plan.constraints == 0


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sites a.de, b.de and c.at, a page each; the first links to the others."""
    pages = {"id": [0, 1, 2], "site": ["a.de", "b.de", "c.at"]}
    path = str(directory(tmp_path, pages, {"src": [0, 0], "dst": [1, 2]}))
    table = tmp_path / "table.toml"
    table.write_text("de = 1\nat = 0\n")
    words = ["evaluate", path, "--models", "hierarchical", "--suffixes", str(table)]
    assert main([*words, "-k", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["loads_requests"] == [1, 2]
    assert row["messages_page_part"] == 1
    # Refused before any work, for whichever K.
    assert main([*words, "-k", "2,1"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "partition: suffixes: de = 1: must be a part from 0 to 0\n")
    words[3] = "site-hash"
    assert main([*words, "-k", "2"]) == 2
    assert "--suffixes: only for the model hierarchical" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no suffixes; must be TOML, suffix = part, like de = 0 or "),
        ("ac.uk = 1", "ac; must be .* in quotes if it has dots"),
        ("[suffixes]\nde = 1", "suffixes; must be"),
        ("de = -1", "de; must be"),
        ("de = true", "de; must be"),
        ("de = 1.0", "de; must be"),
        ('"." = 1', r"\.; must be"),
        ("de", "must be TOML, "),
        ("de = 1\nde = 2", "must be TOML, "),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "table.toml"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        suffixes.read_suffixes(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="No such file"):
        suffixes.read_suffixes(tmp_path / "nowhere")
