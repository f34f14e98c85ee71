"""Random webs: their shape, which is fitted to the google data set of the site paper."""

from pathlib import Path

import numpy as np
import pytest

from partition import evaluate, graph, job, synthesize, webgraph
from partition.__main__ import main
from partition.arrays import distinct
from partition.webgraph import WebGraph

# The data set: pages, sites, and (site, part) messages of site-hash for some K.
GOOGLE = (913_569, 15_819)
GOOGLE_MESSAGES = {4: 24_000, 16: 56_400, 64: 84_700}


def google_like(pages: int, sites: int, seed: int) -> WebGraph:
    table, src, dst = synthesize.google_like(pages, sites, seed)
    site = table["site"].combine_chunks()
    return webgraph.from_arrays(
        src, dst, site=site.indices.to_numpy(), sites=site.dictionary.to_pylist()
    )


def site_messages(web: WebGraph, parts: int) -> int:
    return evaluate.evaluate(web, evaluate.site_hash(web, parts), parts).messages_site_part


@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_of_google(seed: int) -> None:
    """All that grows with the number of pages or sites is a tenth of the data set's.

    The messages for few parts too; those for many parts are more than that, because no site is
    then large enough to link to the same sites again and again.
    """
    web = google_like(91_357, 1_582, seed)
    source, target = web.site[web.sources()], web.site[web.adj]
    outside = source != target
    nets = distinct(web.sources()[outside].astype(np.int64))
    assert web.links == pytest.approx(448_022, rel=0.01)
    assert 1 - outside.mean() == pytest.approx(0.8742, abs=0.001)
    assert np.bincount(web.site).max() == 806
    assert len(nets) == pytest.approx(8_655, rel=0.01)
    pairs = distinct(source[outside].astype(np.int64) * len(web.sites) + target[outside])
    assert len(pairs) == pytest.approx(16_545, rel=0.1)
    for parts, more in ((4, 1.1), (16, 1.15), (64, 1.3)):
        expected = GOOGLE_MESSAGES[parts] / 10 * more
        assert site_messages(web, parts) == pytest.approx(expected, rel=0.06), parts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_all_of_google(seed: int) -> None:
    web = google_like(*GOOGLE, seed)
    for parts, expected in GOOGLE_MESSAGES.items():
        assert site_messages(web, parts) == pytest.approx(expected, rel=0.1), parts


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A small web has the shape of the large one: 4.9 links a page, 87 % of them within sites."""
    out = tmp_path / "graph"
    words = ["synthesize", "--pages", "9000", "--sites", "150", "--seed", "3", "--out", str(out)]
    assert main(words) == 0
    assert "links within sites      8" in capsys.readouterr().err
    web = graph.read([out])
    assert (web.pages, len(web.sites)) == (9000, 150)
    assert 4.5 < web.links / web.pages < 5.3
    inside = web.site[web.sources()] == web.site[web.adj]
    assert 0.85 < inside.mean() < 0.9
    assert web.texts
    texts = web.texts(np.arange(9000, dtype=np.int32))
    assert len(set(texts)) == 9000
    for text, site in zip(texts, web.site, strict=True):
        assert text.startswith(f"http://{web.sites[site]}/")
    assert job.plan(web, "site-graph", 4).counts.messages_page_part > 0


def test_equal_seeds_give_equal_webs() -> None:
    one, same, other = (synthesize.google_like(500, 20, seed) for seed in (1, 1, 2))
    assert one[0].equals(same[0])
    assert one[1].tolist() == same[1].tolist() != other[1].tolist()


@pytest.mark.parametrize(("pages", "sites"), [(1, 1), (2, 2), (50, 1), (50, 50), (100, 3)])
def test_webs_of_any_size(pages: int, sites: int) -> None:
    table, src, dst = synthesize.google_like(pages, sites, 0)
    assert len(table) == pages
    assert len(set(table["site"].to_pylist())) == sites
    assert ((src >= 0) & (src < pages) & (dst >= 0) & (dst < pages)).all()


def test_sites_of_a_community_link_to_one_another() -> None:
    """With communities, that share of the pages' choices, and what chance adds; and no fewer links.

    No choice is lost to the page's own site, however much of its community links to it.
    """
    links, inward = [], []
    for share in (0.0, 0.5, 1.0):
        table, src, dst = synthesize.google_like(40_000, 700, 1, share)
        site = table["site"].combine_chunks().indices.to_numpy()
        chosen = distinct(src.astype(np.int64) * 700 + site[dst])
        source, target = site[chosen // 700], chosen % 700
        between = source != target
        links.append(len(src))
        inward.append(float((source // 40 == target // 40)[between].mean()))
    assert inward[0] < 0.1
    assert inward[1] == pytest.approx(0.5, abs=0.06)
    assert inward[2] == 1
    assert links == pytest.approx([links[0]] * 3, rel=0.01)


@pytest.mark.parametrize("sites", [1, 2, 41])
def test_a_community_of_one_site_links_to_nobody(sites: int) -> None:
    table, src, dst = synthesize.google_like(3000, sites, 0, communities=1)
    site = table["site"].combine_chunks().indices.to_numpy()
    source, target = site[src], site[dst]
    between = source != target
    assert (source // 40 == target // 40).all()
    assert between.any() == (sites > 1)
    assert not between[source == 40].any()
