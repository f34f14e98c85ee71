"""A snapshot is used only as long as all that it depends on is the same."""

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from crawls import demo_config, page_rows
from test_resume import resumed_from_snapshot

from crawler import config, session
from crawler.config import Config, Key, Site, Table, what_is_named
from crawler.demo.web import serve

KEYS = [(name, key) for name, table in Config() if isinstance(table, Table) for key in dict(table)]


def field(table: str, key: str) -> Key:
    found: Key = getattr(Config(), table).all_keys[key]
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "session"
    directory.mkdir()
    (directory / "seeds.txt").write_text("http://a.example/\n")
    return directory


def fingerprint(directory: Path, settings: Config, ranks: int = 2) -> str:
    return session.fingerprint(directory, settings, ranks)


def with_value(table: str, key: str, value: object) -> Config:
    """The defaults with another value, whatever a check would say of it."""
    defaults = Config()
    changed = getattr(defaults, table).replace(**{key: value})
    return defaults.replace(**{table: changed})


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


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_every_key_changes_the_fingerprint_or_is_marked(
    directory: Path, table: str, key: str
) -> None:
    changed = with_value(table, key, another(getattr(getattr(Config(), table), key)))
    same = fingerprint(directory, changed) == fingerprint(directory, Config())
    assert same == (field(table, key).aside)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("match", "b.example"),
        ("delay_s", 3),
        ("connections", 3),
        ("robots", False),
        ("max_urls", 3),
        ("max_bytes", 3),
        ("priority", 3),
        ("headers", {"A": "b"}),
    ],
)
def test_every_key_for_some_sites_changes_it_or_is_marked(
    directory: Path, key: str, value: object
) -> None:
    before, after = (
        config.load(values={"sites": [{"match": "a.example", **more}]})
        for more in ({}, {key: value})
    )
    same = fingerprint(directory, before) == fingerprint(directory, after)
    assert same == (Site.all_keys[key].aside)
    assert fingerprint(directory, before) != fingerprint(directory, Config())


def test_the_keys_for_some_sites_are_all_tried() -> None:
    marked = {key for key, info in Site.all_keys.items() if info.aside}
    assert marked == {"delay_s", "connections", "priority", "headers"}
    assert marked | {"match", "robots", "max_urls", "max_bytes"} == set(Site.all_keys)


# Words in the names of keys that name something.
NAMING = {"file": "file", "files": "file", "vector": "file", "previous": "session"}


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_the_type_of_a_key_says_what_its_value_names(table: str, key: str) -> None:
    expected = next((NAMING[word] for word in key.split("_") if word in NAMING), None)
    assert what_is_named(field(table, key).kind) == expected


@pytest.mark.parametrize(
    ("table", "key"), [one for one in KEYS if what_is_named(field(*one).kind) == "file"]
)
def test_every_file_that_is_named_counts_with_its_content_or_is_marked(
    directory: Path, tmp_path: Path, table: str, key: str
) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    value: object = str(path) if isinstance(field(table, key).default, str) else (str(path),)
    settings = with_value(table, key, value)
    before = fingerprint(directory, settings)
    path.write_text("b")
    changes = fingerprint(directory, settings) != before
    assert changes != (field(table, key).aside)
    path.unlink()
    assert fingerprint(directory, settings) != before or not changes


def test_an_earlier_session_counts_with_its_runs_and_logs(directory: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    settings = with_value("session", "previous", str(earlier))
    seen = [fingerprint(directory, settings)]
    (earlier / "rank-00000" / "log").mkdir(parents=True)
    (earlier / "session.toml").write_text("[[run]]\n")
    seen.append(fingerprint(directory, settings))
    (earlier / "rank-00000" / "log" / "00000.log").write_bytes(b"log")
    seen.append(fingerprint(directory, settings))
    (earlier / "session.toml").write_text("[[run]]\n[[run]]\n")
    seen.append(fingerprint(directory, settings))
    assert len(set(seen)) == len(seen)
    (earlier / "tables").mkdir()  # they are made of the logs
    (earlier / "tables" / "pages.parquet").write_bytes(b"new")
    assert fingerprint(directory, settings) == seen[-1]


def test_only_what_can_not_matter_is_marked() -> None:
    marked = {(table, key) for table, key in KEYS if field(table, key).aside}
    assert {table for table, _ in marked} == {
        "session", "dynamic", "frontier", "politeness", "dns", "fetch", "seen", "storage",
        "dashboard", "extract",
    }  # fmt: skip
    assert {key for table, key in marked if table == "extract"} == {"anchors", "handlers"}
    # What a server gives to whom counts, and its pace doesn't.
    counts = {key for table, key in KEYS if table == "dynamic"} - {
        k for t, k in marked if t == "dynamic"
    }
    assert counts == {"granularity", "follow", "servers", "dsets"}
    named = {key for table, key in marked if table in {"session", "frontier", "politeness"}}
    assert named == {
        "directory", "max_pages", "max_time", "stop_grace", "checkpoint", "memory",
        "delay_s", "connections_per_site", "max_crawl_delay_s",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["seeds.txt", "replicated.txt"])
def test_the_urls_of_the_session_count(directory: Path, name: str) -> None:
    before = fingerprint(directory, Config())
    with (directory / name).open("a") as file:
        file.write("http://b.example/\n")
    assert fingerprint(directory, Config()) != before


def test_the_ranks_the_program_and_its_tables_count(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(directory, Config())
    assert fingerprint(directory, Config(), ranks=3) != before
    assert fingerprint(directory, Config()) == before
    with monkeypatch.context() as patch:
        patch.setattr(metadata, "version", lambda name: f"{name} 99")
        assert fingerprint(directory, Config()) != before
    names = {file.name for file in session.fingerprint.__globals__["_program"]()}
    assert {"reader.py", "placing.py", "old.py"} <= names  # of a part vector
    for part in ("_program", "_suffix_list"):
        files = list(session.fingerprint.__globals__[part]())
        assert files
        assert all(file.is_file() for file in files)
        copy = tmp_path / "changed"
        copy.write_bytes(files[-1].read_bytes() + b"\n")
        with monkeypatch.context() as patch:
            patch.setitem(
                session.fingerprint.__globals__, part, lambda new=[*files[:-1], copy]: new
            )
            assert fingerprint(directory, Config()) != before


@pytest.mark.parametrize(
    ("edited", "counts"),
    [
        ("orders/mine.py", True),
        ("orders/__init__.py", True),
        ("orders/near.py", True),  # imported relatively
        ("orders/deep/er.py", True),  # inside a function
        ("helper.py", True),
        ("helper_of_helper.py", True),
        ("stranger.py", False),
    ],
)
def test_the_sources_of_a_users_order_count(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, counts: bool
) -> None:
    """The module, and all modules of the user's that it imports. None of them is run."""
    package = tmp_path / "orders"
    (package / "deep").mkdir(parents=True)
    sources = {
        "orders/mine.py": "from . import near\nimport helper, numpy as np, json.decoder\n"
        "def first(found):\n from orders.deep import er\n return 1\n",
        "orders/__init__.py": "raise ValueError\n",
        "orders/near.py": "from math import sqrt\n",
        "orders/deep/__init__.py": "",
        "orders/deep/er.py": "no Python at all\n",
        "helper.py": "import helper_of_helper, orders.mine, no_such_module\n",
        "helper_of_helper.py": "raise ValueError\n",
        "stranger.py": "raise ValueError\n",
    }
    for name, source in sources.items():
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    settings = config.load(None, ["frontier.order=orders.mine:first"])
    before = fingerprint(directory, settings)
    (tmp_path / edited).write_text(sources[edited] + "# edited\n")
    assert (fingerprint(directory, settings) != before) == counts
    assert "orders" not in sys.modules


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
