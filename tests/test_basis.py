"""A snapshot is used only as long as all that it depends on is the same."""

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from crawls import demo_config, page_rows
from pydantic.fields import FieldInfo
from test_resume import resumed_from_snapshot

from crawler import config, session
from crawler.config import ASIDE, Config, Table, what_is_named
from crawler.demo.web import serve

KEYS = [
    (name, key)
    for name, table in Config.model_fields.items()
    for key in table.annotation.model_fields  # type: ignore[union-attr]
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "session"
    directory.mkdir()
    (directory / "seeds.txt").write_text("http://a.example/\n")
    return directory


def basis(directory: Path, settings: Config, ranks: int = 2) -> str:
    return session.basis(directory, settings, ranks)


def with_value(table: str, key: str, value: object) -> Config:
    """The defaults with another value, whatever a validator would say of it."""
    defaults = Config()
    changed = getattr(defaults, table).model_copy(update={key: value})
    return defaults.model_copy(update={table: changed})


def another(value: object) -> object:
    """A value of the same type that isn't equal."""
    others: dict[type, Any] = {
        bool: lambda v: not v,
        str: lambda v: v + "x",
        dict: lambda v: {"x": 1},
    }
    for kind, change in others.items():
        if isinstance(value, kind):
            return change(value)
    if isinstance(value, int | float):
        return value + 1
    assert isinstance(value, tuple), value
    return (*value, "x")


def field(table: str, key: str) -> FieldInfo:
    kind = Config.model_fields[table].annotation
    assert isinstance(kind, type)
    assert issubclass(kind, Table)
    return kind.model_fields[key]


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_every_key_changes_the_basis_or_is_marked(directory: Path, table: str, key: str) -> None:
    changed = with_value(table, key, another(getattr(getattr(Config(), table), key)))
    same = basis(directory, changed) == basis(directory, Config())
    assert same == (field(table, key).json_schema_extra is ASIDE)


@pytest.mark.parametrize(
    ("table", "key"), [one for one in KEYS if "file" in one[1] or "vector" in one[1]]
)
def test_every_file_that_is_named_counts_with_its_content_or_is_marked(
    directory: Path, tmp_path: Path, table: str, key: str
) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    value: object = str(path) if field(table, key).annotation is str else (str(path),)
    settings = with_value(table, key, value)
    before = basis(directory, settings)
    path.write_text("b")
    changes = basis(directory, settings) != before
    assert what_is_named(field(table, key)) == "file"
    assert changes != (field(table, key).json_schema_extra is ASIDE)
    path.unlink()
    assert basis(directory, settings) != before or not changes


def test_only_what_can_not_matter_is_marked() -> None:
    marked = {(table, key) for table, key in KEYS if field(table, key).json_schema_extra is ASIDE}
    assert {table for table, _ in marked} == {
        "session", "frontier", "politeness", "dns", "fetch", "storage",
    }  # fmt: skip
    named = {key for table, key in marked if table in {"session", "frontier", "politeness"}}
    assert named == {
        "directory", "max_pages", "max_time", "stop_grace", "memory",
        "delay_s", "connections_per_site", "max_crawl_delay_s",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["seeds.txt", "replicated.txt"])
def test_the_urls_of_the_session_count(directory: Path, name: str) -> None:
    before = basis(directory, Config())
    with (directory / name).open("a") as file:
        file.write("http://b.example/\n")
    assert basis(directory, Config()) != before


def test_the_ranks_the_program_and_its_tables_count(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = basis(directory, Config())
    assert basis(directory, Config(), ranks=3) != before
    assert basis(directory, Config()) == before
    versions = session.basis.__globals__["metadata"]
    with monkeypatch.context() as patch:
        patch.setattr(versions, "version", lambda name: f"{name} 99")
        assert basis(directory, Config()) != before
    for part in ("_program", "_suffix_list"):
        files = list(session.basis.__globals__[part]())
        assert files
        assert all(file.is_file() for file in files)
        copy = tmp_path / "changed"
        copy.write_bytes(files[-1].read_bytes() + b"\n")
        with monkeypatch.context() as patch:
            patch.setitem(session.basis.__globals__, part, lambda new=[*files[:-1], copy]: new)
            assert basis(directory, Config()) != before


def test_the_source_of_a_users_order_counts(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "my_order_for_basis.py"
    module.write_text("def first(found): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = config.load(None, ["frontier.order=my_order_for_basis:first"])
    before = basis(directory, settings)
    assert "my_order_for_basis" not in sys.modules
    module.write_text("def first(found): return 2\n")
    assert basis(directory, settings) != before


def test_a_table_of_suffixes_that_is_edited_between_runs(tmp_path: Path, mpirun: MpiRun) -> None:
    """URLs have other owners then. No rank goes by what it owned before."""
    with serve(7, 60, 4) as (web, port):
        table = tmp_path / "table.txt"
        half = len(web.hosts) // 2

        def write(part: int) -> None:
            table.write_text("".join(f"{h} {part ^ (i < half)}\n" for i, h in enumerate(web.hosts)))

        write(0)
        options = {"scheme": "hierarchical", "suffixes_file": str(table)}
        settings = demo_config(tmp_path / "c.toml", web, port, **options)
        directory = tmp_path / "s"
        crawl = [
            "-m",
            "crawler",
            "crawl",
            str(settings),
            "--session",
            str(directory),
            "--max-pages",
        ]
        assert mpirun(2, *crawl, "20").returncode == 0
        assert mpirun(2, *crawl, "30", "--resume").returncode == 0
        assert resumed_from_snapshot(directory, 0)
        write(1)
        done = mpirun(2, "-m", "crawler", "resume", str(directory), "--max-pages", "0")
        assert done.returncode == 0, done.stderr
        assert not resumed_from_snapshot(directory, 0)
        fetched = [row["url"] for row in page_rows(directory) if row["status"] is not None]
        assert sorted(fetched) == sorted(web.requests)
