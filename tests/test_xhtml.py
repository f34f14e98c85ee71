"""XHTML: links by namespace, in pages that are well-formed and in others."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.reading.parse import Form, finish
from crawler.reading.parse.links import reading
from crawler.reading.parse.tokens import attributes_of
from crawler.reading.parse.xhtml import tags

NAMES = frozenset({"a", "base", "iframe", "link", "meta"})
NS = 'xmlns="http://www.w3.org/1999/xhtml"'
NSH = 'xmlns:h="http://www.w3.org/1999/xhtml"'


def hrefs(text: str, *, default: bool = True) -> list[str]:
    found = [tag for tag in tags(text, NAMES, default=default) if tag]
    return [attributes_of(attributes).get("href", "") for _, attributes, _ in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<html {NS}><title/><script/><style/><textarea/><a href='1'/></html>", ["1"]),
        (f"<html {NS}><iframe/><noscript><a href='1'/></noscript></html>", ["", "1"]),
        (f"<x {NSH}><h:a href='1'/><a href='2'/></x><h:a href='3'/>", ["1"]),
        (f"<x><a href='1'/><y {NS}><a href='2'/></y><a href='3'/></x>", ["2"]),
        (f"<y {NS}><y><a href='1'/></y><a href='2'/></y><a href='3'/>", ["1", "2"]),
        (f"<html {NS}><b xmlns='other'><a href='1'/></b><a href='2'/></html>", ["2"]),
        (f"<html {NS}><b xmlns='other'/><a href='1'/></html>", ["1"]),
        (f"<html {NS}><svg xmlns='http://www.w3.org/2000/svg'><a href='1'/></svg></html>", ["1"]),
        (f"<html {NS}><A href='1'/></html>", []),
        (
            f"<html {NS}><!-- <a href='1'/> --><![CDATA[<a href='2'/>]]><?a <a href='3'/>?></html>",
            [],
        ),
        (f"<html {NS}><script>'<a href=1>'</script><a href='2'/></html>", ["2"]),
        (
            f"<html {NS}><script><![CDATA[</script><a href='1'/>]]></script><a href='2'/></html>",
            ["2"],
        ),
        (f"<html {NS}><template><a href='1'/></template><template/><a href='2'/></html>", ["2"]),
        (f"<html {NS} xml:base='/x/'><a xml:base='/y/' href='1'/></html>", ["1"]),
        ("<html><a href='1'/></html>", []),
        # what isn't well-formed is read on
        (f"<html {NS}><br><a href='1?x&y'>&nbsp;<p></b><a href=2>", ["1?x&y", "2"]),
        (f"<html {NS}><a href='1'/></html><a href='2'/>", ["1"]),
        (f"<html {NS}>< <> <: <a:> <a href='1'/><a href='2", ["1"]),
    ],
)
def test_links_by_namespace(text: str, expected: list[str]) -> None:
    assert hrefs(text, default=False) == expected


def test_without_a_namespace_the_header_decides() -> None:
    assert hrefs("<html><a href='1'/></html>") == ["1"]


@pytest.mark.parametrize(
    ("doctype", "href", "expected"),
    [
        ("<!DOCTYPE html [<!ENTITY b '/x'>]>", "&b;/1", "/x/1"),
        ("<!DOCTYPE html [<!-- ' --><!ENTITY b '&c;y'><!ENTITY c '/&#x78;'>]>", "&b;", "/xy"),
        ("<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0' 'x.dtd'>", "&b;&amp;&#x31;", "&b;&1"),
        ("<!DOCTYPE html [<!ENTITY b '&b;'>]>", "/&b;", "/"),
        ("<!DOCTYPE html [<!ENTITY b '\"x'>]>", "&b;", '"x'),
    ],
)
def test_entities_of_the_document(doctype: str, href: str, expected: str) -> None:
    assert hrefs(f"{doctype}<html {NS}><a href='{href}'/></html>") == [expected]


def test_entities_that_hold_each_other_stay_small() -> None:
    laughs = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 100}'>" for n in range(1, 50))
    text = f"<!DOCTYPE html [<!ENTITY e0 'ha'>{laughs}]><html {NS}>" + "<a href='&e2;'/>" * 10_000
    started = time.process_time()
    assert sum(map(len, hrefs(text))) < 1 << 23
    assert time.process_time() - started < 5


PIECES = [
    f"<x {NS}>",
    *[
        "<x>",
        "</x>",
        "<a href='1'/>",
        "<a ",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?",
        "<script>",
        "</script>",
    ],
    *["<!DOCTYPE ", "[", "]", "'", "<", ">", "<template>", "&e;"],
    '"',
]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_text_can_be_read(pieces: list[str]) -> None:
    hrefs("".join(pieces))


@pytest.mark.parametrize("piece", PIECES)
def test_time_grows_with_length(piece: str) -> None:
    started = time.process_time()
    hrefs(piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 5


def test_a_whole_page() -> None:
    text = f"<html {NS}><base href='/b/'/><iframe srcdoc='&lt;a href=1&gt;'/><a href='2'/></html>"
    elements = frozenset({"a", "iframe"})
    links = finish(reading(text, "http://a.example/p", "utf-8", elements, form=Form.XML)).targets
    assert links == {"http://a.example/b/1": 0, "http://a.example/b/2": 0}


def test_declarations_without_end_are_bounded() -> None:
    deep = f"<html {NS}><a href='1'/>" + "<b xmlns='other'>" * 20_000
    assert hrefs(deep + "<a href='2'/>") == ["1"]
    assert hrefs(deep + f"<h:a {NSH} href='3'/>") == ["1", "3"]  # an element itself counts
    late = f"<html {NS}><b {'x' * (1 << 16)} xmlns='other'><a href='1'/>"
    assert hrefs(late) == ["1"]
