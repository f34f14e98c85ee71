"""Tables of our runs beside those of the thesis and of the site paper, for each K."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness import Row, markdown

from . import paper
from .tables import HASH_OF, Key, Summary, ratio

Cells = dict[int, str]  # K -> what the table shows
Line = tuple[str, Cells]

_GOOGLE: Final = "google"  # the webs beside which values stand, not only ratios


def beside_papers(summaries: Mapping[Key, Summary], webs: Sequence[Row]) -> list[str]:
    """Return the lines of all tables."""
    graphs = list(dict.fromkeys(at[0] for at in summaries))
    text = ["", "## Beside the papers", "", *_properties(webs)]
    text += [
        "",
        "### How many times less than hashing",
        "",
        "† means that an imbalance of ours is over 5 %. The thesis and the site paper both have",
        "the web google. The thesis's messages on sites compare two different counts.",
    ]
    for model in ("site-graph", "page-graph"):
        hashed = HASH_OF[model]
        head = f"volume, {model} against {hashed}"
        thesis = paper.VOLUME_BYTES
        lines = [("google, thesis", _times(thesis[hashed], thesis[model], paper.K_PAGE))]
        lines += _ratios(summaries, graphs, model, "volume_bytes")
        text += _by_k(head, lines)
    mixed = _times(paper.MESSAGES["site-hash"], paper.MESSAGES["site-hypergraph"], paper.K_SITE)
    for measure, counted in (
        ("messages_site_part", "(site, part)"),
        ("messages_page_part", "(page, part)"),
    ):
        lines = []
        if measure == "messages_site_part":
            for web, values in paper.PAPER_MESSAGES.items():
                own = _times(values["site-hash"], values["site-hypergraph"], paper.K_PAPER)
                lines.append((f"{web}, site paper", own))
        lines.append(("google, thesis", mixed))
        lines += _ratios(summaries, graphs, "site-hypergraph", measure)
        text += _by_k(f"{counted} messages, site-hypergraph against site-hash", lines)
    thesis = paper.MESSAGES
    own = _times(thesis["url-hash"], thesis["page-hypergraph"], paper.K_PAGE)
    lines = [("google, thesis", own)]
    lines += _ratios(summaries, graphs, "page-hypergraph", "messages_page_part")
    text += _by_k("(page, part) messages, page-hypergraph against url-hash", lines)
    one, two = "page-hypergraph", "site-hypergraph"
    lines = [("google, thesis", _times(thesis[one], thesis[two], paper.K_SITE))]
    lines += [(graph, _against(summaries, graph, one, two)) for graph in graphs]
    text += _by_k(f"(page, part) messages of {one} for each of {two}", lines)
    for graph in graphs:
        if graph.startswith(_GOOGLE):
            text += _values(summaries, graph)
    return text


def _properties(webs: Sequence[Row]) -> list[str]:
    heads = ["web", "pages", "sites", "links", "within sites", "nets", "pins"]
    rows = [[f"{name}, site paper", *_counts(counts)] for name, counts in paper.PAPER_WEBS.items()]
    names = ("pages", "sites", "links", "within", "nets", "pins")
    rows += [[web["graph"], *_counts([web[name] for name in names])] for web in webs]
    text = [
        "### Properties of the webs",
        "",
        "As in table 1 of the site paper. Nets are pages with links to other sites. A net's pins",
        "are the page's site and the other sites.",
        "",
        *markdown(heads, rows),
    ]
    for web in webs:
        if not web["graph"].startswith(_GOOGLE):
            continue
        heads = ["property", "pages: thesis", web["graph"], "sites: thesis", web["graph"]]
        rows = [
            [name, *(_number(value) for value in (first[0], own[0], first[1], own[1]))]
            for name, first in paper.THESIS_WEB.items()
            for own in [web["table"][name]]
        ]
        text += ["", "As in table 6.1 of the thesis:", "", *markdown(heads, rows)]
    return text


def _values(summaries: Mapping[Key, Summary], graph: str) -> list[str]:
    """Return the values of tables 6.2 to 6.5 and 2, each line beside ours."""
    text = ["", f"### {graph}, value by value"]
    tables: list[tuple[str, str, float, paper.Values]] = [
        ("volume, MB", "volume_bytes", 1e6, paper.VOLUME_BYTES),
        ("imbalance of bytes, %", "imbalance_bytes", 0.01, paper.IMBALANCE_BYTES),
        ("imbalance of requests, %", "imbalance_requests", 0.01, paper.IMBALANCE_REQUESTS),
    ]
    for head, measure, unit, values in tables:
        lines: list[Line] = []
        for model, own in values.items():
            scale = unit if measure == "volume_bytes" else 1.0
            lines.append((f"{model}, thesis", _cells(own, paper.K_PAGE, scale)))
            of_paper = paper.PAPER_IMBALANCE["google"].get(model)
            if of_paper and measure == "imbalance_requests":
                lines.append((f"{model}, site paper", _cells(of_paper, paper.K_PAPER, 1)))
            lines.append((f"{model}, ours", _ours(summaries, graph, model, measure, unit)))
        text += _by_k(head, lines)
    lines = []
    for model, own in paper.MESSAGES.items():
        lines.append((f"{model}, thesis", _cells(own, paper.K_PAGE, 1000)))
        of_paper = paper.PAPER_MESSAGES["google"].get(model)
        if of_paper:
            lines.append((f"{model}, site paper", _cells(of_paper, paper.K_PAPER, 1000)))
        for measure, counted in (
            ("messages_page_part", "(page, part)"),
            ("messages_site_part", "(site, part)"),
        ):
            if measure == "messages_page_part" or of_paper:
                cells = _ours(summaries, graph, model, measure, 1000)
                lines.append((f"{model}, ours, {counted}", cells))
    return text + _by_k("messages, thousands", lines)


def _ours(
    summaries: Mapping[Key, Summary], graph: str, model: str, measure: str, unit: float
) -> Cells:
    found = {k: summaries.get((graph, model, k)) for k in paper.K_PAGE}
    return {
        k: _number(one.mean[measure] / unit) + _mark(one)
        for k, one in found.items()
        if one and one.mean
    }


def _ratios(
    summaries: Mapping[Key, Summary], graphs: Iterable[str], model: str, measure: str
) -> list[Line]:
    """Return for each web how many times less the model has than its hashing."""
    lines = []
    for graph in graphs:
        cells = {
            k: _number(times) + _mark(summaries[graph, model, k])
            for k in paper.K_PAGE
            if (times := ratio(summaries, (graph, model, k), measure))
        }
        if cells:
            lines.append((graph, cells))
    return lines


def _against(summaries: Mapping[Key, Summary], graph: str, one: str, two: str) -> Cells:
    """Return how many (page, part) messages a model has for each of another one."""
    cells = {}
    for k in paper.K_SITE:
        first, second = summaries.get((graph, one, k)), summaries.get((graph, two, k))
        if first and second and first.mean and second.mean.get("messages_page_part"):
            times = first.mean["messages_page_part"] / second.mean["messages_page_part"]
            cells[k] = _number(times) + (_mark(first) or _mark(second))
    return cells


def _times(hashed: Sequence[float], own: Sequence[float], ks: Sequence[int]) -> Cells:
    return {k: _number(a / b) for k, a, b in zip(ks, hashed, own, strict=False)}


def _cells(values: Sequence[float], ks: Sequence[int], unit: float) -> Cells:
    return {k: _number(value / unit) for k, value in zip(ks, values, strict=False)}


def _by_k(head: str, lines: Sequence[Line]) -> list[str]:
    """Return a table with a column for each K that some line has."""
    ks = [k for k in paper.K_PAGE if any(k in cells for _, cells in lines)]
    rows = [[name, *(cells.get(k, "") for k in ks)] for name, cells in lines if cells]
    return ["", *markdown([head, *(f"K = {k}" for k in ks)], rows)]


def _counts(counts: Sequence[float]) -> list[str]:
    return [f"{value:.2f} %" if isinstance(value, float) else f"{value:,}" for value in counts]


def _number(value: float) -> str:
    """Return a count in full, and a fraction with at least three digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"


def _mark(one: Summary) -> str:
    return "" if one.balanced else " †"
