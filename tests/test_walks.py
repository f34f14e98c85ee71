"""ARCHITECTURE.md is true: its walks lead to names that exist, and it names every file."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALKS = TEXT.partition("## Seven walks")[2].partition("\n## ")[0]
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


def test_there_are_seven_walks() -> None:
    assert len(re.findall(r"^### .+$", WALKS, re.MULTILINE)) == 7
    assert len(STEPS) >= 24


@pytest.mark.parametrize(("path", "name"), STEPS, ids=[":".join(step) for step in STEPS])
def test_each_step_of_a_walk_exists(path: str, name: str) -> None:
    body = ast.parse((ROOT / "crawler" / path).read_text(encoding="utf-8")).body
    for part in name.split("."):
        assert part in names_in(body), f"{path} has no {name}"
        body = names_in(body)[part]


def rooms() -> list[Path]:
    """The packages of the crawler that have a table of their own."""
    return sorted(one.parent for one in (ROOT / "crawler").glob("*/__init__.py"))


@pytest.mark.parametrize("room", rooms(), ids=lambda room: f"{room.name}/")
def test_each_file_of_a_room_has_a_row(room: Path) -> None:
    table = TEXT.partition(f"### {room.name}/\n")[2].partition("\n#")[0]
    files = {one.stem for one in room.glob("*.py") if not one.stem.startswith("__")}
    files |= {f"{one.parent.name}/" for one in room.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == files
