"""The values that the text of Parallel Crawlers states of its figures 4 to 11.

Its plots hold more values than its text. Those of figure 10 aren't in the text at all.
"""

from typing import Any, Final, NamedTuple


class Stated(NamedTuple):
    """A value on a line of a figure."""

    measure: str
    line: dict[str, Any]  # the fields that tell the line from others
    x: int | float
    value: float
    how: str = ""  # "<": less than the value; "≥": at least; "~": about

    @property
    def text(self) -> str:
        return f"{self.how}{self.value:g}"


_SITE: Final = {"scheme": "site-hash"}
_WHOLE: Final = _SITE | {"half": False}
_64: Final = _SITE | {"procs": 64}

STATED: Final = {
    4: (
        Stated("coverage", _WHOLE, 1, 0.9),
        Stated("coverage", _WHOLE, 4, 0.8, "≥"),
        Stated("coverage", _WHOLE, 16, 0.5, "~"),  # section 7
        Stated("coverage", _WHOLE, 64, 0.1, "<"),
    ),
    5: (Stated("coverage", _64, 64, 0.004), Stated("coverage", _64, 1024, 0.1)),
    # Of figure 6, x is a coverage.
    6: (
        Stated("overlap", _SITE | {"procs": 16}, 0.5, 0.0),
        Stated("overlap", _SITE | {"procs": 4}, 1.0, 2.5, "~"),  # "almost", at "close to 1"
    ),
    7: (
        Stated("inter_part_links", {"scheme": "url-hash"}, 2, 5.0),
        Stated("inter_part_links", _SITE, 2, 0.4),  # and "0.5" beside URL-hash
        Stated("inter_part_links", _SITE, 16, 0.8),
        Stated("inter_part_links", _SITE, 64, 0.86),  # section 8, of figure 8
    ),
    8: (
        Stated("inter_part_links", _SITE, 0, 0.86),
        Stated("inter_part_links", _SITE, 10_000, 0.52),
        Stated("inter_part_links", _SITE, 100_000, 0.42),
        Stated("inter_part_links", _SITE, 200_000, 0.40, "~"),  # "53 % reduction"
    ),
    9: (
        Stated("quality", _SITE | {"procs": 2}, 0, 0.12),
        Stated("quality", _64, 0, 0.025),
    ),
    11: (Stated("exchanged", _SITE | {"procs": 8}, 10, 0.17, "<"),),
}
