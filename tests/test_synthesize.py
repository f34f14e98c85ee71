"""Random webs: their shape, which is fitted to the google data set of the papers."""

from pathlib import Path

import numpy as np
import pytest

from partition import evaluate, graph, importers, planning, synthesize, webgraph
from partition.__main__ import main
from partition.arrays import Ints, distinct
from partition.synthesize import Bools
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

    The messages are up to 10 % more. Pairs of sites with links are fewer, because communities are
    small in a small web, so their sites choose the same sites again.
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
    assert len(pairs) == pytest.approx(16_545 * 0.63, rel=0.05)
    for parts, messages in GOOGLE_MESSAGES.items():
        assert site_messages(web, parts) == pytest.approx(messages / 10 * 1.05, rel=0.06), parts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_all_of_google(seed: int) -> None:
    web = google_like(*GOOGLE, seed)
    for parts, expected in GOOGLE_MESSAGES.items():
        assert site_messages(web, parts) == pytest.approx(expected, rel=0.1), parts


# Table 6.5 of the thesis: how many times less volume the site graph has than site-hash.
GOOGLE_SAVED = {2: 7.76, 4: 7.61, 8: 7.31, 16: 7.11, 32: 6.05, 64: 4.58}


@pytest.mark.slow
def test_a_site_graph_saves_as_much_volume_as_in_the_thesis(tmp_path: Path) -> None:
    importers.write(tmp_path / "web", *synthesize.google_like(*GOOGLE, 0))
    web = graph.read([tmp_path / "web"])
    assert web.url_bytes[web.adj].mean() == pytest.approx(45.34, rel=0.02)
    heaviest = web.loads(web.site, len(web.sites))[:, 0].max()
    assert heaviest == pytest.approx(90_586 * 1024, rel=0.05)
    for parts, expected in GOOGLE_SAVED.items():
        hashed = evaluate.evaluate(web, evaluate.site_hash(web, parts), parts)
        planned = planning.plan(web, "site-graph", parts).counts
        saved = hashed.volume_bytes / planned.volume_bytes
        assert saved == pytest.approx(expected, rel=0.15), parts


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
    assert planning.plan(web, "site-graph", 4).counts.messages_page_part > 0


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


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> list[Ints]:
    """Return the list that gets the communities of each web, without guests in their sites."""
    drawn: list[Ints] = []
    draw = synthesize._communities

    def noting(random: np.random.Generator, sites: int) -> Ints:
        drawn.append(draw(random, sites))
        return drawn[-1]

    monkeypatch.setattr(synthesize, "_communities", noting)
    monkeypatch.setattr(synthesize, "_GUESTS", 0.0)
    return drawn


def within(bounds: Ints, source: Ints, target: Ints) -> Bools:
    """Return of each pair of sites whether they are of one community."""
    first, second = (np.searchsorted(bounds, site, side="right") for site in (source, target))
    same: Bools = first == second
    return same


def chosen_sites(share: float) -> tuple[Ints, Ints, int]:
    """Return the distinct (page, other site) pairs, as sites, and the number of links."""
    table, src, dst = synthesize.google_like(40_000, 700, 1, share)
    site = table["site"].combine_chunks().indices.to_numpy()
    chosen = distinct(src.astype(np.int64) * 700 + site[dst])
    source, target = site[chosen // 700], chosen % 700
    between = source != target
    return source[between], target[between], len(src)


def test_sites_of_a_community_link_to_one_another(bounds: list[Ints]) -> None:
    """With communities, that share of the pages' choices, and what chance adds; and no fewer links.

    No choice is lost to the page's own site, however much of its community links to it.
    """
    links, inward = [], []
    for share in (0.0, 0.5, 1.0):
        source, target, count = chosen_sites(share)
        links.append(count)
        inward.append(float(within(bounds[-1], source, target).mean()))
    assert inward[0] < 0.1
    assert inward[1] == pytest.approx(0.5 + 0.5 * inward[0], abs=0.06)
    assert inward[2] == 1
    assert links == pytest.approx([links[0]] * 3, rel=0.01)


def test_guests_link_to_communities_of_their_own(
    bounds: list[Ints], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesize, "_GUESTS", 0.3)
    source, target, _ = chosen_sites(1.0)
    assert 0.5 < within(bounds[-1], source, target).mean() < 0.9


def test_communities_are_of_uneven_sizes(bounds: list[Ints]) -> None:
    synthesize.google_like(30_000, 15_000, 0)
    sizes = np.diff(bounds[-1])
    assert sizes.sum() == 15_000
    assert sizes.max() > 0.9 * 0.03 * 15_000
    assert np.median(sizes) < sizes.mean() / 2


@pytest.mark.parametrize("sites", [1, 2, 41])
def test_a_community_of_one_site_links_to_nobody(bounds: list[Ints], sites: int) -> None:
    table, src, dst = synthesize.google_like(3000, sites, 0, communities=1)
    site = table["site"].combine_chunks().indices.to_numpy()
    source, target = site[src], site[dst]
    between = source != target
    if sites == 1:
        assert not between.any()
        return
    assert within(bounds[-1], source, target).all()
    alone = np.flatnonzero(np.diff(bounds[-1]) == 1)
    assert not np.isin(source[between], bounds[-1][alone]).any()
