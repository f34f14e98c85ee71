"""How many of the public conformance tests the crawler passes, and what hostile input costs.

    python benchmarks conformance CASES [--write]

CASES is a folder with the test files of WPT, html5lib, Google, curl and llhttp under
`conformance/`. `--write` writes docs/conformance.md. The exit code is 1 if a difference has no
explanation, or if input costs more than its limit. Servers run on loopback, and the test
extras are needed (`pip install '.[test]'`).
"""

import textwrap
from pathlib import Path
from typing import Annotated

from harness import markdown

from . import hostile
from .areas import AREAS, Area

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def page(areas: list[Area]) -> str:
    scores = [
        (area.name, area.source, test.what, test.score) for area in areas for test in area.tests
    ]
    costs = [(what, cost.time, cost.memory) for area in areas for what, cost in area.costs]
    lines = [
        "# Conformance",
        "",
        "This page lists the public conformance tests that the crawler passes, and what hostile",
        "input costs. `python benchmarks conformance CASES --write` writes it. CASES is a folder",
        "with the test files under `conformance/`, and `pip install '.[test]'` is needed.",
        "",
        *markdown(["area", "tests", "what", "passed"], scores, left=4),
        "",
        "The next table shows the greatest cost of input that was measured. The longest break is",
        "the longest CPU time in which the event loop runs no other task; the limit is"
        f" {hostile.MOST_SECONDS * 1000:.0f} ms.",
        "Memory is what the process takes in addition; the limit is"
        f" {hostile.MOST_BYTES >> 20} MiB.",
        "",
        *markdown(["input", "longest break", "memory"], costs, left=3),
    ]
    for area in areas:
        notes = textwrap.wrap(area.notes, 100, break_long_words=False, break_on_hyphens=False)
        lines += ["", f"## {area.name}", "", *notes]
        if area.differences:
            lines += ["", *markdown(["difference", "reason"], area.differences, left=2)]
    return "\n".join(lines) + "\n"


def run(cases: Path, *, write: Annotated[bool, f"to {PAGE.name}"] = False) -> int:
    areas = [area(cases) for area in AREAS.values()]
    text = page(areas)
    print(text, end="")
    if write:
        PAGE.write_text(text, "utf-8")
    unexplained = any(reason == "?" for area in areas for _, reason in area.differences)
    return unexplained or not all(cost.bearable for area in areas for _, cost in area.costs)
