"""The public conformance tests: what must be passed, by the command that writes the table."""

import runpy
from pathlib import Path

import pytest
from cases import CASES, needs_cases

COMMAND = Path(__file__).parents[1] / "benchmarks" / "conformance.py"

# Area -> what: tests passed, of so many.
SCORES = {
    "URLs": {
        "http and https URLs parsed and joined": (247, 247),
        "what must be refused": (199, 199),
        "hosts to ASCII": (87, 87),
        "IDNA, UTS #46 (IdnaTestV2)": (2670, 2670),
        "queries in the encoding of the page": (16, 16),
    },
    "Encodings": {"the encoding that a page declares": (82, 82)},
    "robots.txt": {
        "rules, made for the test": (114, 117),
        "robots.txt files of the web": (199, 202),
        "both": (313, 319),
    },
}


@needs_cases
@pytest.mark.parametrize("name", SCORES)
def test_conformance(name: str) -> None:
    areas = [function(CASES) for function in runpy.run_path(str(COMMAND))["AREAS"]]
    (area,) = (area for area in areas if area.name == name)
    passed = {test.what: (test.right, test.total) for test in area.tests}
    assert passed == SCORES[name]
    assert "?" not in dict(area.differences).values()
