"""Text files of users, as editors of all systems save them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import config, textfile
from crawler.core.schemes import make_scheme

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff\r\n\0")))
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_in_every_encoding(encoding: str, end: str, line: str) -> None:
    text = textfile.decode(f"{line}{end}{line}".encode(encoding))
    assert list(textfile.lines(text)) == [(1, line), (2, line)]


@given(st.binary())
def test_bytes_that_are_no_utf_8_are_kept(data: bytes) -> None:
    data = b"x" + data  # no byte-order mark
    assert textfile.decode(data).encode("utf-8", "surrogateescape") == data


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_of_suffixes(tmp_path: Path, encoding: str, end: str) -> None:
    file = tmp_path / "suffixes.txt"
    file.write_bytes(f"uk 0{end}# more{end}de 1 # Germany{end}".encode(encoding))
    words = ["assignment.scheme=hierarchical", f"assignment.suffixes_file={file}"]
    scheme = make_scheme(config.load(None, words), 2)
    assert [scheme.part(0, site) for site in ("a.uk", "a.de")] == [0, 1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_configuration(tmp_path: Path, encoding: str, end: str) -> None:
    file = tmp_path / "crawl.toml"
    file.write_bytes(f"[fetch]{end}contact = 'me@a.example'{end}".encode(encoding))
    assert config.load(file).fetch.contact == "me@a.example"
