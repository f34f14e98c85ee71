"""Tables 6.1 to 6.5 of Türk's thesis, and tables 1 and 2 of the site paper.

Values stand in the order of K. The thesis calls its volumes KB, but they are bytes: 4,480,218 links
of 45.34 bytes are 203.1 MB, and its url-hash with 256 parts has 202,417,736.
"""

from collections.abc import Mapping
from typing import Final

K_PAGE: Final = (2, 4, 8, 16, 32, 64, 128, 256)
K_SITE: Final = K_PAGE[:6]
K_PAPER: Final = K_SITE[1:]

Values = Mapping[str, tuple[float, ...]]  # model -> value for each K

# Tables 6.4 and 6.5.
VOLUME_BYTES: Final[Values] = {
    "url-hash": (
        *(101_525_422, 152_337_986, 177_796_646, 190_489_244),
        *(196_846_038, 200_033_019, 201_627_972, 202_417_736),
    ),
    "page-graph": (
        *(1_036_283, 1_678_582, 1_962_202, 2_273_460),
        *(2_445_155, 2_971_509, 5_237_738, 9_090_080),
    ),
    "site-hash": (13_475_898, 19_986_309, 23_046_239, 24_645_513, 25_582_315, 26_205_765),
    "site-graph": (1_735_560, 2_625_363, 3_152_428, 3_464_325, 4_229_328, 5_723_167),
}
MESSAGES: Final[Values] = {
    "url-hash": (
        *(583_151, 1_387_089, 2_298_673, 3_108_535),
        *(3_687_317, 4_047_882, 4_251_617, 4_362_796),
    ),
    "page-hypergraph": (
        *(55_352, 102_085, 133_260, 163_817),
        *(190_847, 210_704, 223_107, 245_029),
    ),
    "site-hash": (10_725, 25_681, 44_791, 67_022, 89_547, 110_535),
    "site-hypergraph": (14_002, 23_872, 33_687, 41_698, 51_958, 83_590),
}
# Tables 6.2 and 6.3, in percent.
IMBALANCE_BYTES: Final[Values] = {
    "url-hash": (0.237, 0.567, 1.298, 1.751, 2.972, 5.299, 6.982, 8.981),
    "page-graph": (0.378, 1.231, 3.472, 4.663, 4.708, 4.762, 4.763, 4.765),
    "page-hypergraph": (0.015, 0.255, 0.414, 0.538, 0.796, 4.091, 7.857, 9.966),
    "site-hash": (9.140, 12.687, 17.137, 18.185, 41.309, 56.777),
    "site-graph": (2.910, 3.740, 4.487, 4.749, 4.755, 4.761),
    "site-hypergraph": (0.005, 0.313, 3.031, 3.856, 7.499, 11.406),
}
IMBALANCE_REQUESTS: Final[Values] = {
    "url-hash": (0.433, 0.530, 0.751, 0.900, 1.580, 2.346, 3.006, 5.215),
    "page-graph": (0.393, 1.271, 3.507, 4.593, 4.715, 4.763, 4.763, 4.777),
    "page-hypergraph": (0.025, 0.230, 0.446, 0.564, 0.663, 4.448, 4.816, 8.247),
    "site-hash": (2.001, 2.718, 3.101, 3.740, 8.611, 15.442),
    "site-graph": (3.133, 3.725, 4.483, 4.724, 4.754, 4.763),
    "site-hypergraph": (0.005, 0.331, 3.022, 3.708, 7.735, 10.530),
}

# Table 2 of the site paper, of K from 4 on: imbalances of requests in percent, and messages, which
# must be (site, part) pairs. Web -> site-hash, site hypergraph.
PAPER_IMBALANCE: Final[Mapping[str, Values]] = {
    "google": {
        "site-hash": (14.57, 20.79, 22.34, 70.18, 131.46),
        "site-hypergraph": (4.99, 4.99, 4.99, 4.99, 4.79),
    },
    "in-2004": {
        "site-hash": (11.69, 25.00, 40.58, 73.47, 142.86),
        "site-hypergraph": (4.84, 4.29, 8.20, 9.54, 10.80),
    },
    "de-fr": {
        "site-hash": (12.75, 34.51, 58.62, 81.95, 203.39),
        "site-hypergraph": (5.00, 5.00, 5.00, 10.33, 91.61),
    },
    "indochina": {
        "site-hash": (3.71, 9.91, 21.77, 41.97, 51.91),
        "site-hypergraph": (5.00, 5.00, 5.00, 5.00, 8.62),
    },
}
PAPER_MESSAGES: Final[Mapping[str, Values]] = {
    "google": {
        "site-hash": (24_000, 40_000, 56_400, 71_700, 84_700),
        "site-hypergraph": (8400, 9300, 10_900, 12_300, 13_700),
    },
    "in-2004": {
        "site-hash": (5300, 8900, 12_800, 16_600, 19_900),
        "site-hypergraph": (1400, 1900, 2500, 3100, 3600),
    },
    "de-fr": {
        "site-hash": (52_600, 86_800, 128_800, 177_800, 231_900),
        "site-hypergraph": (9500, 10_900, 10_700, 12_400, 14_100),
    },
    "indochina": {
        "site-hash": (18_400, 33_700, 54_500, 80_000, 109_800),
        "site-hypergraph": (4100, 5200, 6400, 7600, 8100),
    },
}
# Table 1: pages, sites, links, percent of them within sites, nets, pins.
PAPER_WEBS: Final = {
    "google": (913_569, 15_819, 4_480_218, 87.42, 86_552, 277_805),
    "in-2004": (1_382_908, 4_380, 16_917_053, 95.92, 205_106, 555_195),
    "de-fr": (8_212_782, 38_741, 39_330_882, 75.06, 2_091_986, 4_968_036),
    "indochina": (7_414_866, 18_984, 194_109_311, 92.80, 250_931, 799_783),
}
# Table 6.1: of pages, of sites. Names are those of `properties`.
THESIS_WEB: Final[Mapping[str, tuple[float, float]]] = {
    "vertices": (913_569, 15_819),
    "mean degree, in and out": (4.90, 10.46),
    "largest in-degree": (5989, 999),
    "largest out-degree": (618, 528),
    "mean weight of a vertex, KB": (9.89, 542.71),
    "largest weight of a vertex, KB": (513, 90_586),
    "edges": (4_480_218, 165_450),
    "mean weight of an edge, bytes": (45.34, 177.50),
    "largest weight of an edge, bytes": (182, 401_456),
    "connected components": (67_759, 243),
    "vertices of the largest component": (805_153, 15_576),
    "nets": (913_569, 913_569),
    "mean pins of a net": (5.90, 2.79),
    "most pins of a net": (619, 149),
    "pins": (5_393_787, 1_350_121),
    "most nets of a vertex": (5990, 8855),
}
