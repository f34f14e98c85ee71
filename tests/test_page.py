"""The page about plans: loads beside limits, messages from part to part, and the largest sites."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from browser import BROWSER, browsing
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from partition import picture, planning, webgraph
from partition.page import page
from partition.settings import Settings
from partition.webgraph import WebGraph

TITLE = "<script>alert(1)</script>"


def web_of(sizes: list[int], seed: int = 0) -> WebGraph:
    """Sites of these sizes; the names are markup, and each page has two links."""
    site = np.repeat(np.arange(len(sizes)), sizes)
    random = np.random.default_rng(seed)
    ends = random.integers(0, max(len(site), 1), (2, 2 * len(site)))
    names = [f"<b>{number}</b>" for number in range(len(sizes))]
    return webgraph.from_arrays(*ends, site=site, sites=names)


def sections(web: WebGraph, *plans: planning.Plan) -> list[LexborNode]:
    html = page(TITLE, "about", web, plans)
    tree = LexborHTMLParser(html)
    assert not tree.css("script, b, link, style[src], img")
    return tree.css("details")


def test_a_part_has_its_own_limit() -> None:
    """Of 4 parts, one has a giant of 70 of 100 pages; 3 share 30. 5 % over 10, and of 25."""
    web = web_of([70, *[1] * 30])
    plan = planning.plan(web, "site-hypergraph", 4)
    assert sorted(plan.limits[:, 1].tolist()) == pytest.approx([10.5, 10.5, 10.5, 71.25])
    (shown,) = sections(web, plan)
    pages = shown.css("dl.loads")[1]
    assert [part.text() for part in pages.css("dt")] == [f"part {part}" for part in range(4)]
    loads = [part.text().split()[0] for part in pages.css("dd.number")]
    assert loads == [str(load) for load in plan.counts.loads[:, 1].tolist()]
    bounds = [float(line.attributes["x1"] or "") for line in pages.css("line.bound")]
    widest = plan.limits[:, 1].max() * 1.02
    limits = (100 * plan.limits[:, 1] / widest).tolist()
    assert bounds == pytest.approx(limits, abs=0.01)
    assert not pages.css("rect.over")


def test_a_part_over_its_limit_is_marked() -> None:
    web = web_of([10, 10])
    plan = planning.plan(web, "url-hash", 4)
    (shown,) = sections(web, plan)
    over = int((plan.counts.loads[:, 1] > 1.05 * 5).sum())
    assert len(shown.css("dl.loads")[1].css("rect.over")) == over > 0


@pytest.mark.parametrize("parts", [3, 24, 50])
def test_the_matrix_has_all_messages(parts: int) -> None:
    web = web_of([5] * 60)
    plan = planning.plan(web, "url-hash", parts)
    (shown,) = sections(web, plan)
    rows = [
        [cell.text() for cell in row.css("td, th")] for row in shown.css("table.matrix tbody tr")
    ]
    assert len(rows) == len(rows[0]) - 2 == {3: 3, 24: 24, 50: 17}[parts]
    assert rows[-1][0] == {3: "from 2", 24: "from 23", 50: "from 48-49"}[parts]
    cells = [int(cell.replace(",", "")) for row in rows for cell in row[1:-1] if cell != "·"]
    assert sum(cells) == plan.counts.messages_page_part
    assert sum(int(row[-1].replace(",", "")) for row in rows) == plan.counts.messages_page_part


def test_a_divided_site_has_sectors() -> None:
    """Site 0 lies in parts 1 (3 pages) and 0 (1 page), site 1 in part 0."""
    web = web_of([4, 2])
    plan = planning.plan(web, "url-hash", 2)
    part = np.array([1, 1, 0, 1, 0, 0], np.int32)
    plan = planning.judged(web, "url-hash", 2, planning.Partition(part), 0.0, Settings())
    (shown,) = sections(web, plan)
    titles = [title.text() for title in shown.css("figure title")]
    assert titles == [
        "<b>0</b>: 4 pages in 2 parts: 3 in part 1, 1 in part 0",
        "<b>1</b>: 2 pages in part 0",
    ]
    first, second = shown.css("figure g")
    one, other = (path.attributes for path in first.css("path"))
    assert "0 1 1 " in str(one["d"])  # more than half of the circle
    assert "0 0 1 " in str(other["d"])
    circle = second.css_first("circle").attributes
    assert circle["fill"] == other["fill"] != one["fill"]
    listed = [[cell.text() for cell in row.css("td")] for row in shown.css("table tbody tr")][-2:]
    assert [": ".join(row) for row in listed] == titles


@settings(max_examples=15)
@given(st.lists(st.integers(0, 60), max_size=80), st.integers(0, 9))
def test_circles_are_in_the_picture(sizes: list[int], seed: int) -> None:
    web = web_of(sizes, seed)
    drawn = picture.draw(web)
    kept = [size for size in sorted(sizes, reverse=True) if size][: picture.SITES]
    assert drawn.pages.tolist() == kept
    edge = drawn.radius[:, np.newaxis]
    assert (drawn.places >= edge).all()
    assert (drawn.places <= np.array([picture.WIDTH, picture.HEIGHT]) - edge).all()
    assert all(0 <= line.start < line.end < len(kept) for line in drawn.lines)
    again = picture.draw(web)
    assert np.array_equal(drawn.places, again.places)


def test_linked_sites_stand_together() -> None:
    """Two groups of sites, each with links among themselves alone."""
    site = np.repeat(np.arange(12), 10)
    random = np.random.default_rng(1)
    source = random.integers(0, 120, 2000)
    target = random.integers(0, 60, 2000) + 60 * (source >= 60)
    drawn = picture.draw(webgraph.from_arrays(source, target, site=site))
    group = drawn.sites >= 6
    apart = np.hypot(*(drawn.places[:, np.newaxis] - drawn.places).transpose(2, 0, 1))
    same = group[:, np.newaxis] == group
    assert apart[same].mean() < 0.6 * apart[~same].mean()


@pytest.mark.skipif(not BROWSER, reason="needs chromium-headless-shell")
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_a_browser_shows_the_page(tmp_path: Path, theme: str, width: int) -> None:
    """It is accessible, fits, keeps to its policy, and is read with the keyboard."""
    web = web_of([70, 25, *[3] * 60])
    plans = [planning.plan(web, "url-hash", 3), planning.plan(web, "site-hash", 60)]
    target = tmp_path / "page.html"
    target.write_text(page(TITLE, "about", web, plans))

    async def scenario() -> None:
        async with browsing(tmp_path) as browser:
            await browser.open(target.as_uri(), width, theme)
            await browser.until("document.readyState === 'complete'")
            assert await browser.evaluate("document.querySelectorAll('details[open]').length") == 1
            await browser.evaluate("document.querySelector('details:not([open]) summary').focus()")
            await browser.press_enter()
            await browser.until("document.querySelectorAll('details[open]').length === 2")
            assert await browser.evaluate("document.documentElement.scrollWidth") <= width
            regions = "[...document.querySelectorAll('.scroll')].every(one => one.tabIndex === 0)"
            assert await browser.evaluate(regions)
            links = "document.querySelector('figure use').getBoundingClientRect().width > 100"
            assert await browser.evaluate(links)
            colour = "getComputedStyle(document.body).backgroundColor"
            assert (await browser.evaluate(colour) == "rgb(18, 21, 24)") is (theme == "dark")
            assert not browser.complaints
            found = await browser.accessibility()
            assert not found["violations"], json.dumps(found["violations"], indent=1)[:5000]
            assert len(found["passes"]) > 10

    asyncio.run(scenario())
