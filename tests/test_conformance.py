"""The public conformance tests: what must be passed, by the command that writes the table."""

import importlib
from pathlib import Path

import pytest
from cases import CASES, needs_cases

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

SLOW = {"HTTP", "HTML", "DNS"}  # the rooms have tests of their own for the same
# Area -> what: tests passed, of so many.
SCORES = {
    "URLs": {
        "http and https URLs parsed and joined": (247, 247),
        "references that must be refused": (199, 199),
        "hosts to ASCII": (87, 87),
        "IDNA, UTS #46 (IdnaTestV2)": (2670, 2670),
        "queries in the encoding of the page": (16, 16),
    },
    "Encodings": {"the encoding that a page declares": (82, 82)},
    "robots.txt": {
        "rules made for the test": (114, 117),
        "robots.txt files of the web": (199, 202),
        "both": (313, 319),
    },
    "HTTP": {
        "curl's replies: pages that curl gets, with the same body": (418, 418),
        "curl's replies that end in a page or an error class": (479, 479),
        "llhttp's replies: pages that curl gets, with the same body": (61, 61),
        "llhttp's replies that end in a page or an error class": (85, 85),
        "hostile replies that end in a page or an error class": (22, 22),
    },
    "HTML": {"hostile pages, all links found": (51, 51)},
    "DNS": {"names at once, every tenth of which doesn't exist": (25_000, 25_000)},
}


@needs_cases
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in SCORES],
)
def test_conformance(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    areas = importlib.import_module("conformance.areas")
    # What hostile files cost is for the table alone. In test_robots.py, the same kinds are bounded.
    monkeypatch.setattr(areas.hostile, "robots_files", lambda: iter(()))
    area = areas.AREAS[name](CASES)
    passed = {test.what: (test.right, test.total) for test in area.tests}
    assert passed == SCORES[name]
    assert "?" not in dict(area.differences).values()
