"""Pages are made with and without a folder that keeps compiled templates."""

from pathlib import Path

import pytest
from jinja2 import Environment

from crawler.pages import rendering


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the templates' folder. Nothing is compiled there yet."""
    for file in rendering._FOLDER.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(rendering, "_FOLDER", tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    return tmp_path


def environment() -> Environment:
    """As a new process makes it."""
    return rendering._environment.__wrapped__()


def test_a_template_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment().get_template("base.html")
    [kept] = (folder / "__pycache__").iterdir()
    with monkeypatch.context() as patch:
        patch.delattr(Environment, "_parse")
        environment().get_template("base.html")
    (folder / "base.html").write_text("other")
    assert environment().get_template("base.html").render() == "other"
    assert [*(folder / "__pycache__").iterdir()] == [kept]


def test_without_a_place_for_compiled_templates_pages_are_made_all_the_same(folder: Path) -> None:
    (folder / "__pycache__").touch()  # a file where a folder would have to be
    (folder / "base.html").write_text("{{ 1 + 1 }}")
    assert environment().get_template("base.html").render() == "2"
