"""The texts of links: from the page into the log, the table, and a later session."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fetches import fetched, link, put, response
from hypothesis import given
from hypothesis import strategies as st
from tabled import check_tables, write_tables
from test_reading import PAGE, read, reader
from test_session import A, B, C, open_store

from crawler import url
from crawler.ports import Anchor, Earlier, Fetched, PageRow
from crawler.reading.parse import Form, extract, finish
from crawler.reading.parse.anchors import reading_anchors
from crawler.reading.parse.links import MAX_LINKS, reading

ALL = frozenset({"a", "area", "frame", "iframe", "img", "link", "refresh"})
BASE = "http://a.example/"
NS = 'xmlns="http://www.w3.org/1999/xhtml"'


def anchors(html: str, form: Form = Form.HTML, most: int = MAX_LINKS) -> list[tuple[str, str, str]]:
    """Each anchor as the rest of its target, the element and the text."""
    meant: dict[str, str] = {}
    links = list(
        finish(reading(html, BASE, "utf-8", ALL, max_links=most, form=form, meant=meant)).targets
    )
    found = finish(reading_anchors(html, form, ALL, most, meant, links))
    return [(links[one.number].removeprefix(BASE), one.element, one.text) for one in found]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<a href=x>One <b>t</b>wo\n three</a>", [("x", "a", "One two three")]),
        ("<a href=x>A &amp; B<br>C<div>D</div>E</a>", [("x", "a", "A & B C D E")]),
        ("<a href=x>1</a><a href='/x#y'>2</a><a href=x>1</a>", [("x", "a", "1"), ("x", "a", "2")]),
        ("<a href=x><img alt='a &lt; b'>c</a>", [("x", "a", "a < b c")]),
        ("<a href=x></a>", [("x", "a", "")]),
        ("<a href=x>1<A HREF=y>2</A >", [("x", "a", "1"), ("y", "a", "2")]),
        ("<a href=x>1<!-- </a> -->2", [("x", "a", "1")]),
        ("<a href=x>1<!-- 2 -->3<script>4</script>5</a>", [("x", "a", "135")]),
        ("<a href=x>" + "ab " * 900 + "</a>", [("x", "a", ("ab " * 86)[:256].rstrip())]),
        ("<base href=/d/><a href=x>1</a><link rel='next' href=y>",
         [("d/x", "a", "1"), ("d/y", "link", "next")]),
        ("<area href=x alt='Map'><area href=y>", [("x", "area", "Map"), ("y", "area", "")]),
        ("<img src=x alt=X srcset='y 1x, z 2x'>",
         [("x", "img", "X"), ("y", "img", "X"), ("z", "img", "X")]),
        ("<picture><source srcset=y><img src=x></picture>",
         [("y", "source", ""), ("x", "img", "")]),
        ("<iframe src=x title='Ad'></iframe>", [("x", "iframe", "Ad")]),
        # no link, so no anchor: the page itself, another scheme, a style sheet, no href
        ("<a href=#top>1</a><a href=mailto:x>2</a><link rel=stylesheet href=s><a>3</a>", []),
        ("<!-- <a href=x>1</a> --><script>'<a href=x>2</a>'</script>", []),
    ],
)  # fmt: skip
def test_what_an_element_says(html: str, expected: list[tuple[str, str, str]]) -> None:
    assert anchors(html) == expected


def test_xhtml() -> None:
    page = (
        f"<html {NS}><a href='x'>1 <br/>2</a><a href='y'/>3<h:a xmlns:h='h' href='z'>4</h:a></html>"
    )
    assert anchors(page, Form.XHTML) == [("x", "a", "1 2"), ("y", "a", "")]
    prefixed = "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:a href='x'>1</h:a>2</h:html>"
    assert anchors(prefixed, Form.XHTML) == [("x", "a", "1")]


def test_bounds() -> None:
    assert len(anchors("".join(f"<a href=x>{n}</a>" for n in range(9)), most=5)) == 5
    page = "<a href=x>" * 3000 + "<img src=y srcset='" + "y 1x," * 3000 + "'>"
    meant: dict[str, str] = {}
    links = finish(reading(page, BASE, "utf-8", ALL, meant=meant)).targets
    steps = sum(1 for _ in reading_anchors(page, Form.HTML, ALL, MAX_LINKS, meant, links))
    assert steps > 6000 // 256


PIECES = st.lists(
    st.sampled_from(
        ["<a href=x>", "<a href='y#z'>", "</a>", "t ", "<img src=i alt=u>", "<area href=' x '>",
         "<link rel=next href=n>", "<!--", "-->", "<base href=/d/>", "<iframe src=f>", "</iframe>",
         "<script>", "</script>", "<b>", "&lt;"]
    )
)  # fmt: skip


@given(PIECES)
def test_each_link_of_a_page_has_an_anchor(pieces: list[str]) -> None:
    """Wherever the two readers agree on the tags, which they do but for markup without its end."""
    html = "".join(pieces) + "--></script></iframe>"
    found = extract(html, BASE, ALL)
    said = anchors(html)
    assert {BASE + target for target, _, _ in said} == {target for target, _ in found}


# --- from the page to the tables


def test_a_page_has_anchors_if_they_are_wanted() -> None:
    page = response(PAGE, b"<a href=/b>one</a><a href=/c>two</a>")
    assert read(reader(), page).anchors == ()
    wanted = read(reader("extract.anchors=true"), page)
    assert wanted.anchors == [Anchor(0, "a", "one"), Anchor(1, "a", "two")]
    assert [one.url[-1] for one in wanted.links] == ["b", "c"]


def test_an_unchanged_page_says_what_it_said() -> None:
    row = PageRow(PAGE, url.key(PAGE), "a.example", 0, 0, 0, 0.0, 0.0, status=200)
    earlier = Earlier(row, [("http://a.example/b", 0)], Path("x"), anchors=[Anchor(0, "a", "b")])
    for wanted, expected in ((True, [Anchor(0, "a", "b")]), (False, ())):
        one = Fetched(fetched(response(PAGE)).found, 0.0, response(PAGE, b"", status=304))
        one.earlier = earlier
        list(reader(f"extract.anchors={str(wanted).lower()}").read(one))
        assert one.anchors == expected


def test_the_table_of_anchors_is_there_if_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "anchors" / "00000.parquet"
    store = open_store(tmp_path)
    put(store, fetched(response(A), [link(B)]), 0)
    write_tables(tmp_path)
    assert not path.exists()
    page = fetched(response(B), [link(A), link(C)])
    page.anchors = [Anchor(1, "a", "see"), Anchor(0, "img", "Übung"), Anchor(1, "a", "look")]
    put(store, page, 0)
    lost = fetched(response(C))  # its links were dropped, so its anchors are, too
    lost.anchors = [Anchor(0, "a", "gone")]
    put(store, lost, 0)
    store.close()
    assert list(check_tables(tmp_path))
    write_tables(tmp_path)
    assert list(check_tables(tmp_path)) == []
    rows = [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
    keys = {name: url.key(name) for name in (A, B, C)}
    assert rows == [
        (keys[B], keys[C], "a", "see"),
        (keys[B], keys[A], "img", "Übung"),
        (keys[B], keys[C], "a", "look"),
    ]
    path.unlink()
    assert list(check_tables(tmp_path)) == ["anchors/00000.parquet: is missing"]
    (tmp_path / "rank-00000" / "log" / "00000.log").unlink()
    path.write_bytes(b"old")
    write_tables(tmp_path)
    assert not path.parent.exists()
