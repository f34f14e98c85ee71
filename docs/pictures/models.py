"""Draws the pictures of docs/models.md: `python docs/pictures/models.py` (a test compares them).

Each picture has its own ground, and follows the reader's light or dark theme.
"""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
STYLE = """
text{font:14px sans-serif;fill:#1c1e21;text-anchor:middle}
.title{font-weight:bold}.left{text-anchor:start}
.ground{fill:#fff}.rank{fill:#f1f3f5;stroke:#6b7280}
.a{fill:#cfe3f7;stroke:#1f5f9f}.b{fill:#fbe3c5;stroke:#9a5b08}
.line{stroke:#4b5563;stroke-width:1.5;fill:none}.cut{stroke:#c02d2d;stroke-width:2.5;fill:none}
.net{fill:#c02d2d;fill-opacity:.13;stroke:#c02d2d;stroke-width:2}
.dashed{stroke-dasharray:5 4}
#head path{fill:#4b5563}#red path{fill:#c02d2d}
@media(prefers-color-scheme:dark){
text{fill:#e6e8ec}.ground{fill:#1e2129}.rank{fill:#2a2e38;stroke:#9aa1ad}
.a{fill:#1d3f60;stroke:#7fb3e6}.b{fill:#5a3d14;stroke:#e0a55a}
.line{stroke:#b3b9c4}.cut{stroke:#ff8585}.net{fill:#ff8585;stroke:#ff8585}
#head path{fill:#b3b9c4}#red path{fill:#ff8585}}
"""
HEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
    ' orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker>'
    for name in ("head", "red")
)


class Picture:
    """A drawing in pixels, from the left upper corner."""

    def __init__(self, width: int, height: int, about: str) -> None:
        self._size = (width, height)
        self._about = about
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write a line of words, centred at x."""
        self._parts.append(f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "rank") -> None:
        """Draw a rectangle with round corners."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{kind}"/>'
        )

    def page(self, x: float, y: float, name: str, kind: str) -> None:
        """Draw a circle with a name."""
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="17" class="{kind}"/>')
        self.text(x, y + 5, name)

    def line(self, *points: tuple[float, float], kind: str = "line", head: str = "head") -> None:
        """Draw a line with an arrow head, or without one if `head` is empty."""
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        end = f' marker-end="url(#{head})"' if head else ""
        self._parts.append(f'<path d="{path}" class="{kind}"{end}/>')

    def svg(self) -> str:
        """The picture as SVG."""
        width, height = self._size
        parts = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
            f"<title>{escape(self._about)}</title>\n<style>{STYLE}</style>\n<defs>{HEADS}</defs>\n"
            f'<rect width="{width}" height="{height}" rx="10" class="ground"/>\n{parts}\n</svg>\n'
        )


def modes() -> Picture:
    """The four modes: what rank 0 does with a link from its page a to page b of rank 1."""
    picture = Picture(760, 400, "What each mode does with a link to a page of another rank")
    what = {
        "exchange": "rank 0 sends the URL to its owner",
        "firewall": "rank 0 drops the link",
        "cross-over": "rank 0 fetches b itself, when it is idle",
        "independent": "no owners: each fetches all that it finds",
    }
    for number, (name, words) in enumerate(what.items()):
        x, y = 20 + 370 * (number % 2), 20 + 190 * (number // 2)
        picture.text(x + 175, y + 14, name, "title")
        for rank in (0, 1):
            picture.box(x + 190 * rank, y + 26, 160, 96)
            picture.text(x + 190 * rank + 80, y + 44, f"rank {rank}")
        picture.page(x + 40, y + 80, "a", "a")
        picture.page(x + 290, y + 80, "b", "b")
        if name == "exchange":
            picture.line((x + 58, y + 80), (x + 271, y + 80))
        elif name == "firewall":
            picture.line((x + 58, y + 80), (x + 168, y + 80), kind="cut", head="")
            picture.line((x + 168, y + 70), (x + 182, y + 90), kind="cut", head="")
            picture.line((x + 182, y + 70), (x + 168, y + 90), kind="cut", head="")
        else:
            later = " dashed" if name == "cross-over" else ""
            picture.line((x + 58, y + 80), (x + 101, y + 80), kind=f"line{later}")
            picture.page(x + 120, y + 80, "b", f"b{later}")
        picture.text(x + 175, y + 146, words)
    return picture


def nets() -> Picture:
    """A graph counts links that are cut, a hypergraph counts messages."""
    picture = Picture(760, 270, "A page with three links into another part, in both models")
    titles = ("page graph: 3 links are cut", "page hypergraph: 1 message is sent")
    for number, title in enumerate(titles):
        x = 20 + 370 * number
        picture.text(x + 175, 34, title, "title")
        for part in (0, 1):
            picture.box(x + 190 * part, 48, 160, 200)
            picture.text(x + 190 * part + 80, 238, f"part {part}")
        if number:
            picture.box(x + 32, 60, 300, 164, "net")
        for row in range(3):
            y = 88 + 54 * row
            if not number:
                picture.line((x + 92, 142), (x + 252, y), kind="cut", head="red")
            picture.page(x + 270, y, f"q{row + 1}", "b")
        picture.page(x + 74, 142, "p", "a")
    return picture


def tree() -> Picture:
    """A seed server and its clients."""
    picture = Picture(760, 290, "A seed server hands out URLs, and clients report links")
    picture.box(230, 20, 300, 84, "a")
    picture.text(380, 46, "rank 0: seed server", "title")
    picture.text(380, 68, "registry: every URL, its links,")
    picture.text(380, 88, "and whether it was fetched")
    for number in range(3):
        x = 40 + 240 * number
        picture.box(x, 210, 200, 60, "b")
        picture.text(x + 100, 236, f"rank {number + 1}: client", "title")
        picture.text(x + 100, 257, "fetches, finds links")
        middle = 300 + 80 * number
        picture.line((middle - 10, 104), (x + 88, 209))
        picture.line((x + 112, 210), (middle + 10, 105), kind="line dashed")
    picture.text(110, 150, "the best URLs", "")
    picture.text(110, 168, "go down (solid)", "")
    picture.text(650, 150, "links go up", "")
    picture.text(650, 168, "(dashed)", "")
    return picture


def stores() -> Picture:
    """DRUM merges all buckets with one repository, VEUNIQ one repository at a time."""
    picture = Picture(760, 330, "How DRUM and VEUNIQ find new URLs on disk")
    titles = ("DRUM: one repository", "VEUNIQ: repositories by site")
    for number, title in enumerate(titles):
        x = 20 + 370 * number
        picture.text(x + 175, 34, title, "title")
        picture.text(x + 175, 62, "links that the crawl has found")
        for bucket in range(4):
            left = x + 10 + 88 * bucket
            is_full = number == 0 or bucket == 2
            picture.line((x + 175, 70), (left + 33, 104))
            fill = 56 if bucket == 2 else (20, 34, 0, 26)[bucket]
            picture.box(left, 106, 66, 62)
            picture.box(left + 3, 165 - fill, 60, fill, "b")
            if is_full:
                end = 225 if number else x + 175
                target = (left + 33, end) if number else (x + 100 + 50 * bucket, 225)
                picture.line((left + 33, 169), target, kind="cut", head="red")
            if number:
                picture.box(left, 228, 66, 48, "a")
                picture.text(left + 33, 257, "keys")
        if not number:
            picture.box(x + 10, 228, 330, 48, "a")
            picture.text(x + 175, 257, "all known keys, sorted")
        words = "only the fullest is merged" if number else "a bucket is full: all are merged"
        picture.text(x + 175, 304, words)
    return picture


def pictures() -> Mapping[str, str]:
    """All pictures, by the names of their files."""
    each = {"modes": modes(), "nets": nets(), "tree": tree(), "stores": stores()}
    return {f"{name}.svg": picture.svg() for name, picture in each.items()}


def main() -> None:
    """Write all pictures."""
    for name, content in pictures().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
