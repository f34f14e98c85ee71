"""The walks through the code in ARCHITECTURE.md lead to names that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALKS = TEXT.partition("## Six walks")[2].partition("\n## ")[0]
STEPS = re.findall(r"`([a-z_/]+\.py):([A-Za-z_.]+)`", WALKS)


def names_in(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """What a module or class defines, each with its own body."""
    found: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node.body
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = []
        elif isinstance(node, ast.Assign):
            found |= {target.id: [] for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_there_are_six_walks() -> None:
    assert len(re.findall(r"^### .+$", WALKS, re.MULTILINE)) == 6
    assert len(STEPS) >= 24


@pytest.mark.parametrize(("path", "name"), STEPS, ids=[":".join(step) for step in STEPS])
def test_each_step_of_a_walk_exists(path: str, name: str) -> None:
    body = ast.parse((ROOT / "crawler" / path).read_text(encoding="utf-8")).body
    for part in name.split("."):
        assert part in names_in(body), f"{path} has no {name}"
        body = names_in(body)[part]
