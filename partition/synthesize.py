"""Makes random webs that resemble the google data set of the site paper and of Türk's thesis.

The texts say of that web: 913,569 pages, 15,819 sites, 4.48 million links, 87.4 % of them within
sites, 86,552 pages with links to other sites, to 2.2 sites on average, 45 bytes a link. They also
say how much volume a partition of its sites and of its pages saves. The constants below come from
these figures. For other numbers of pages and sites, shares and distributions stay the same. The
constants were fitted by hand, so an agreement with these figures proves nothing.

A partition saves as much as in the thesis only if sites link in *communities*. A community is a
group of sites, as the hosts of one university. Communities have very uneven sizes. The last pages
of a large site are divided into sections, each of which links to a community of its own, as the
pages of a guest do. And few pairs of sites have most of the links between sites.

The sizes of sites follow a very uneven power law. The mean of a random sample of them would be
wrong by a third, and the whole web would differ from seed to seed. So the sizes are drawn evenly
over the quantiles, and so are the sizes of communities.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partition import UserError, importers
from partition.arrays import Ints, distinct
from partition.evaluate import evaluate, site_hash
from partition.webgraph import WebGraph

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Random = np.random.Generator

_LARGEST_SITE: Final = 8066 / 913_569  # share of all pages
_ISOLATED: Final = 0.09  # share of pages without any link to or from them
_SILENT: Final = 0.14  # share of other pages that link to no page of their site
_LINKS_INSIDE: Final = 4.287  # mean links of a page within its site
_LINKS_SPREAD: Final = 1.05  # sigma of the lognormal distribution of these links
_MOST_LINKS: Final = 618  # of a page within its site
_TO_HUBS: Final = 0.05  # share of links within a site that go to its main pages
_NEARNESS: Final = 4.0  # mean distance of the targets of the other links within a site
_OUTWARD: Final = 0.0947  # share of pages with links to other sites
_HOMES_OUTWARD: Final = 0.96  # share of home pages with links to other sites
_OUTWARD_SPREAD: Final = 1.6  # sigma between sites of how many other pages link outward
_OUTWARD_SIZE: Final = 0.43  # power of the site's size by which fewer of its pages link outward
_SITES_LINKED: Final = 2.24  # mean number of sites that such a page links to (power law)
_MOST_SITES: Final = 148  # the most sites that a page links to
_NEW_SITES: Final = 600  # links of a site to other sites; all later ones repeat an earlier one
_POPULARITY_SPREAD: Final = 1.15  # sigma of the popularity of sites
_POPULARITY_SIZE: Final = 0.45  # power of the site's size in its popularity
_LINKS_PER_SITE: Final = 2.95  # mean links of a page to one other site, before scaling
_LINKS_OUTSIDE: Final = 0.1258  # share of all links
_LINKS: Final = 4.904  # mean links of a page
_PAIR_SPREAD: Final = 2.0  # sigma of the links of a page to one other site, between pairs of sites
NEAR: Final = 0.955  # share of choices of another site that fall on the page's community
_COMMUNITY: Final = 100.0  # mean sites of a community (power law)
_LARGEST_COMMUNITY: Final = 0.03  # share of all sites
_NEAR_POWER: Final = 0.3  # power of a site's popularity in choices within a community
_FAR_POWER: Final = 2.0  # the same, in other choices
_GUESTS: Final = 0.1  # share of a large site's pages that are in sections of other communities
_PER_SECTION: Final = 60  # mean pages of such a section
_TO_HOME: Final = 0.35  # share of links to other sites that lead to the home page
_PAGE_BYTES: Final = (8.64, 1.0, 0.42, 525_312)  # mu, sigma in a site, sigma between sites, most
_HEAVIEST_SITE: Final = 90_586 / (913_569 * 9.89)  # share of all bytes
_WORD: Final = (1.32, 0.7, 78)  # letters of a word in a URL: mu, sigma, most
_PER_FOLDER: Final = 40  # mean pages of a folder; folders appear only in URLs


def google_like(pages: int, sites: int, seed: int, communities: float = NEAR) -> importers.Imported:
    """Return pages, ordered by site and folder, and links. Equal seeds give equal webs.

    `communities`: how often a link to another site chooses one of its community, as a share.
    Raises UserError for fewer pages than sites.
    """
    if pages < sites:
        raise UserError(f"--pages {pages}, --sites {sites}: a site needs at least one page")
    random = np.random.default_rng(seed)
    size = _site_sizes(random, pages, sites)
    first = np.cumsum(size) - size  # the home page of each site
    site = np.repeat(np.arange(sites), size)
    section = _sections(random, site, first, size)
    main = np.searchsorted(section, np.arange(section[-1] + 1))  # the first page of each section
    isolated = (random.random(pages) < _ISOLATED) & (np.arange(pages) != main[section])
    guest = main[main != first[site[main]]]
    host = first[site[guest]]
    links = [
        _inside(random, section, main, np.bincount(section), isolated),
        *(host * pages + guest, guest * pages + host),
        _outside(random, site, section, first, size, isolated, communities),
    ]
    numbers = distinct(np.concatenate(links))
    return _pages(random, site, first), numbers // pages, numbers % pages


def _site_sizes(random: Random, pages: int, sites: int) -> Ints:
    """Draw sizes by a power law of the right mean. The largest one and the sum are given."""
    most = max(int(_LARGEST_SITE * pages), -(-pages // sites) + 1) if sites > 1 else pages
    size = np.arange(1, most + 1)
    exponent = _exponent(size, pages / sites)
    below = np.cumsum(size**-exponent)
    quantiles = (random.permutation(sites) + random.random(sites)) / sites
    sizes: Ints = size[np.searchsorted(below, quantiles * below[-1])]
    sizes[sizes.argmax()] = most
    while missing := pages - int(sizes.sum()):
        step = 1 if missing > 0 else -1
        able = np.flatnonzero(sizes < most if step > 0 else sizes > 1)
        sizes[random.permutation(able)[: abs(missing)]] += step
    return sizes


def _sections(random: Random, site: Ints, first: Ints, size: Ints) -> Ints:
    """Return the section of each page. The first section of a site is the site's own."""
    place = np.arange(len(site)) - first[site]
    own = np.ceil(size * (1 - _GUESTS)).astype(np.int64)[site]
    begins = (place == 0) | (place == own)
    begins |= (place > own) & (random.random(len(site)) < 1 / _PER_SECTION)
    sections: Ints = np.cumsum(begins) - 1
    return sections


def _exponent(values: Ints, mean: float) -> float:
    """Return the exponent of the power law on these values with this mean, by bisection."""
    low, high = -5.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        chance = values**-middle
        if float((values * chance).sum()) > mean * float(chance.sum()):
            low = middle
        else:
            high = middle
    return middle


def _inside(random: Random, site: Ints, first: Ints, size: Ints, isolated: Bools) -> Ints:
    """Return links within sites, or sections of them, each as source * pages + target."""
    pages = len(site)
    page = np.arange(pages)
    speaks = ~isolated & (size[site] > 1) & (random.random(pages) >= _SILENT)
    wish = random.lognormal(0, _LINKS_SPREAD, pages) * speaks
    # The share of pages with a link to the home page differs from site to site.
    homewards = speaks & (random.random(pages) < random.beta(1.0, 1.1, len(size))[site])
    homewards &= page != first[site]
    to_home = page[homewards] * pages + first[site[homewards]]
    scale, links = 3.0, to_home
    for _ in range(6):  # repeated links are dropped, so the scale is found by trials
        degree = np.floor(wish * scale + random.random(pages)).astype(np.int64)
        degree = np.minimum(degree, np.minimum(_MOST_LINKS, size[site] - 1))
        source = np.repeat(page, degree)
        n = size[site[source]]
        hubs = np.ceil(n**0.75)
        hub = ((hubs**0.25 - 1) * random.random(len(source)) + 1) ** 4 - 1
        away = np.ceil(random.exponential(_NEARNESS, len(source)))
        away *= random.choice([-1, 1], len(source))
        away = np.sign(away) * np.ceil(np.abs(away) * np.maximum(degree[source] / 8, 1))
        near = (source - first[site[source]] + away) % n
        to_hub = random.random(len(source)) < _TO_HUBS
        target = first[site[source]] + np.minimum(np.where(to_hub, hub, near), n - 1).astype(int)
        kept = (source != target) & ~isolated[target]
        links = distinct(np.append(source[kept] * pages + target[kept], to_home))
        scale *= _LINKS_INSIDE * pages / max(len(links), 1)
    return links


def _outside(
    random: Random,
    site: Ints,
    section: Ints,
    first: Ints,
    size: Ints,
    isolated: Bools,
    communities: float,
) -> Ints:
    """Return links to other sites, each as source * pages + target."""
    pages, sites = len(site), len(size)
    if sites == 1:
        return np.empty(0, np.int64)
    homes = first[random.random(sites) < _HOMES_OUTWARD]
    able = np.flatnonzero(~isolated & (np.arange(pages) != first[site]))
    leaning = random.lognormal(0, _OUTWARD_SPREAD, sites) * size**-_OUTWARD_SIZE
    others = min(max(int(_OUTWARD * pages) - len(homes), 0), len(able))
    # The `others` largest of these: each page's chance is in proportion to its site's leaning.
    wish = leaning[site[able]] / random.exponential(1, len(able))
    source = np.append(homes, able[np.argsort(-wish, kind="stable")[:others]])

    number = np.arange(1, _MOST_SITES + 1)
    weight = number ** -_exponent(number, _SITES_LINKED)
    source = np.repeat(source, random.choice(number, len(source), p=weight / weight.sum()))
    source = source[np.argsort(site[source], kind="stable")]
    popularity = size**_POPULARITY_SIZE * random.lognormal(0, _POPULARITY_SPREAD, sites)
    far = np.cumsum(popularity**_FAR_POWER)
    target = np.searchsorted(far, random.random(len(source)) * far[-1])
    near = np.flatnonzero(random.random(len(source)) < communities)
    # The community of a section is that of its site, or of a random one if it is a guest's.
    member = site[np.searchsorted(section, np.arange(section[-1] + 1))]
    guest = np.append(False, member[1:] == member[:-1])
    member[guest] = random.integers(sites, size=int(guest.sum()))
    target[near] = _neighbours(
        random, site[source[near]], member[section[source[near]]], popularity**_NEAR_POWER
    )
    begin = np.searchsorted(site[source], site[source])  # the first link of the same site
    late = np.flatnonzero(np.arange(len(source)) - begin >= _NEW_SITES)
    target[late] = target[begin[late] + random.integers(_NEW_SITES, size=len(late))]

    pairs = distinct(source * sites + target)
    pairs = pairs[site[pairs // sites] != pairs % sites]
    source, target = pairs // sites, pairs % sites
    wanted = _LINKS_OUTSIDE * _LINKS * pages
    times = random.geometric(1 / _LINKS_PER_SITE, len(pairs)).astype(np.float64)
    of_sites, pair = np.unique(site[source] * sites + target, return_inverse=True)
    times *= random.lognormal(0, _PAIR_SPREAD, len(of_sites))[pair]
    for _ in range(12):
        scaled = np.floor(times * wanted / max(times.sum(), 1) + random.random(len(pairs)))
        times = np.clip(scaled, 1, size[target])
    number = times.astype(np.int64)
    start = (size[target] * random.random(len(pairs)) ** 2).astype(np.int64)
    start[random.random(len(pairs)) < _TO_HOME] = 0
    offset = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    place = (np.repeat(start, number) + offset) % np.repeat(size[target], number)
    links: Ints = np.repeat(source, number) * pages + np.repeat(first[target], number) + place
    return links


def _communities(random: Random, sites: int) -> Ints:
    """Draw how many sites each community has. Returns where communities begin, and `sites`."""
    most = max(int(_LARGEST_COMMUNITY * sites), 1)
    size = np.arange(1, most + 1)
    below = np.cumsum(size ** -_exponent(size, min(_COMMUNITY, (1 + most) / 2)))
    quantiles = (random.permutation(sites) + random.random(sites)) / sites
    ends = np.cumsum(size[np.searchsorted(below, quantiles * below[-1])])
    bounds: Ints = np.concatenate([[0], ends[ends < sites], [sites]])
    return bounds


def _neighbours(random: Random, site: Ints, member: Ints, popularity: Floats) -> Ints:
    """Choose for each link from `site` (ascending) another site of the community of `member`.

    The numbers drawn for the links of one site are spread evenly. So these links lead to as many
    sites as possible, which the number of pairs of sites with links demands.
    """
    bounds = _communities(random, len(popularity))
    community = np.searchsorted(bounds, member, side="right")
    sums = np.append(0.0, np.cumsum(popularity))
    start, end = sums[bounds[community - 1]], sums[bounds[community]]
    own = popularity[member]
    turn = np.arange(len(site)) - np.searchsorted(site, site)
    even = (random.random(len(popularity))[site] + turn * (5**0.5 - 1) / 2) % 1
    drawn = start + even * (end - start - own)
    drawn += np.where(drawn >= sums[member], own, 0.0)  # leaves out the member itself
    chosen: Ints = np.searchsorted(sums, drawn, side="right") - 1
    return np.clip(chosen, bounds[community - 1], bounds[community] - 1)  # sums are rounded


def _pages(random: Random, site: Ints, first: Ints) -> pa.Table:
    """Return the page columns. The pages of a site are in folders of neighbouring pages."""
    pages, sites = len(site), len(first)
    mean, spread, site_spread, most = _PAGE_BYTES
    word, word_spread, longest = _WORD
    factor = random.lognormal(0, site_spread, sites)
    share = np.bincount(site) / pages  # of a site; no site is heavier than the heaviest
    factor = np.minimum(factor, _HEAVIEST_SITE / share * np.exp(site_spread**2 / 2))
    size = random.lognormal(mean, spread, pages) * factor[site]
    home = np.zeros(pages, bool)
    home[first] = True
    folder = np.cumsum((random.random(pages) < 1 / _PER_FOLDER) | home, dtype=np.int64)
    letters = random.integers(ord("a"), ord("z") + 1, (1 << 12, longest), np.uint8)
    lengths = np.clip(random.lognormal(word, word_spread, len(letters)), 2, longest)
    words = pa.array(
        [bytes(row[: int(length)]).decode() for row, length in zip(letters, lengths, strict=True)]
    )

    def named(number: Ints) -> pa.Array:
        """Return a word for each number. It contains the number, so different numbers differ."""
        chosen = words.take(pa.array(number * 2654435761 % len(words)))
        return pc.binary_join_element_wise(chosen, pc.cast(pa.array(number), pa.string()), "")

    names = pc.binary_join_element_wise("www.", named(np.arange(sites)), ".example", "")
    site_column = pa.DictionaryArray.from_arrays(pa.array(site, pa.int32()), names)
    path = pc.binary_join_element_wise(
        "", named(folder), named(np.arange(pages) - first[site]), "/"
    )
    url = pc.binary_join_element_wise(
        "http://", site_column.cast(pa.string()), pc.if_else(pa.array(home), "/", path), ""
    )
    return pa.table(
        {
            "id": np.arange(pages),
            "url": url,
            "site": site_column,
            "bytes": np.clip(size, 1, most).astype(np.int64),
        }
    )


def statistics(web: WebGraph) -> dict[str, str]:
    """Return figures of a web by name, with those of the google data set in brackets."""
    source, target = web.site[web.sources()], web.site[web.adj]
    out = np.flatnonzero(source != target)
    nets = len(distinct(web.sources()[out].astype(np.int64)))
    pins = len(distinct(web.sources()[out].astype(np.int64) * len(web.sites) + target[out]))
    pairs = source[out].astype(np.int64) * len(web.sites) + target[out]
    linked, number = np.unique(pairs, return_counts=True)
    most = int(np.bincount(linked // len(web.sites), minlength=1).max())
    most_in = int(np.bincount(linked % len(web.sites), minlength=1).max())
    inside = 1 - len(out) / max(web.links, 1)
    largest = int(np.bincount(web.site).max())
    length = web.url_bytes[web.adj].mean() if web.links else 0.0
    heaviest = int(web.loads(web.site, len(web.sites))[:, 0].max())
    hashed = [evaluate(web, site_hash(web, k), k).messages_site_part for k in (4, 16, 64)]
    return {
        "pages": f"{web.pages:,} [913,569]",
        "sites": f"{len(web.sites):,} [15,819]",
        "links": f"{web.links:,} [4,480,218]",
        "bytes a link": f"{length:.2f} [45.34]",
        "links within sites": f"{inside:.2%} [87.42%]",
        "largest site": f"{largest:,} pages [8,066]",
        "heaviest site": f"{heaviest / 1024:,.0f} KB [90,586]",
        "nets on sites": f"{nets:,} [86,552]",
        "their pins": f"{nets + pins:,} [277,805]",
        "links between sites": f"{len(linked):,} pairs of sites [165,450]",
        "most out of one site": f"{most:,} [528]",
        "most into one site": f"{most_in:,} [999]",
        "most of one pair": f"{number.max(initial=0):,} links [8,854]",
        "messages by site-hash": " ".join(f"{n / 1000:.1f}" for n in hashed)
        + " thousand (site, part) pairs at K = 4, 16, 64 [24.0 56.4 84.7]",
    }
