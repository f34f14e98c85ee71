"""What users say to start a crawl: templates, seeds on the command line, in files, and lists."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S
from crawls import crawl_here, metrics_of, page_rows, run_here, sets
from servers import Page, PageServer

from crawler.templates import TEMPLATES


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_run_as_they_stand_once_a_seed_is_given(template: str, tmp_path: Path) -> None:
    page = b"<a href='/2'>2</a>"
    with PageServer({"/": Page(page), "/2": Page(b"")}) as server:
        file = tmp_path / "configs" / f"{template}.toml"
        file.parent.mkdir()
        file.write_text(run_here("config", template).stdout)
        session = tmp_path / "s"
        words = [str(file), f"{server.url}/", *sets("politeness.delay_s=0", "traps.max_depth=9")]
        done = crawl_here(session, *words)
    assert done.returncode == 0, done.stderr
    assert metrics_of(session)["pages"] == 2


def test_a_list_and_no_more(tmp_path: Path) -> None:
    pages = {"/": Page(b"<a href='/no'>no</a>"), "/moved": Page(b"", 301, {"Location": "/end"})}
    pages |= {"/end": Page(b"<a href='/no'>no</a>"), "/no": Page(b"")}
    with PageServer(pages) as server:
        urls = tmp_path / "list.txt"
        urls.write_text(f"{server.url}/\n{server.url}/moved # a redirect is followed\n")
        session = tmp_path / "s"
        done = crawl_here(session, "-i", str(urls), *sets("scope.max_hops=0"))
    assert done.returncode == 0, done.stderr
    assert {row["url"].removeprefix(server.url) for row in page_rows(session)} == {
        "/",
        "/moved",
        "/end",
    }


def test_seeds_on_the_command_line_take_the_place_of_those_in_the_file(tmp_path: Path) -> None:
    with PageServer({f"/{name}": Page(b"") for name in "abcd"}) as server:
        (tmp_path / "list.txt").write_text(f"{server.url}/b\n")
        file = tmp_path / "c.toml"
        file.write_text(f'[session]\nseeds = ["{server.url}/a"]\nseeds_file = "list.txt"\n')

        def fetched(name: str, *words: str) -> set[str]:
            done = crawl_here(tmp_path / name, str(file), *words, *sets("politeness.delay_s=0"))
            assert done.returncode == 0, done.stderr
            return {row["url"].removeprefix(server.url) for row in page_rows(tmp_path / name)}

        assert fetched("1") == {"/a", "/b"}
        assert fetched("2", f"{server.url}/c") == {"/c"}
        (tmp_path / "other.txt").write_text(f"{server.url}/d\n")
        assert fetched("3", "-i", str(tmp_path / "other.txt")) == {"/d"}
        assert fetched("4", f"{server.url}/c", "-i", str(tmp_path / "other.txt")) == {"/c", "/d"}


def test_a_rank_imports_only_what_it_needs() -> None:
    """Each of these takes long to import. Rank 0 imports some of them, when it makes the report."""
    needless = [
        "aiodns",
        "aiohttp",
        "crawler.reading.parse.anchors",
        "crawler.reading.parse.requisites",
        "crawler.reading.parse.xhtml",
        "crawler.simulate",
        "difflib",
        "email.utils",
        "importlib.metadata",
        "jinja2",
        "numba",
        "pydantic",
        "prometheus_client",
        "pyarrow",
        "rich",
        "selectolax",
        "tempfile",
        "tomllib",
        "urllib.request",
        "zipfile",
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, crawler.__main__, crawler.mpi, crawler.commands.crawling as _;"
            " print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(needless) & set(done.stdout.split())


CRAWL_AND_TELL = """
import sys
from pathlib import Path
from crawler.__main__ import main
folder, *words = sys.argv[1:]
code = main(words)
from mpi4py import MPI
Path(folder, str(MPI.COMM_WORLD.rank)).write_text(" ".join(sys.modules))
sys.exit(code)
"""


def test_only_rank_0_imports_what_makes_the_page(
    tmp_path: Path, start_mpirun: Callable[..., "subprocess.Popen[str]"]
) -> None:
    """(The ranks of `mpirun` are forks, which have all modules.)"""
    with PageServer({"/": Page(b"<a href='/2'>2</a>"), "/2": Page(b"")}) as server:
        words = ["crawl", f"{server.url}/", "--session", str(tmp_path / "s")]
        words += sets("fetch.allow_private_addresses=true", "politeness.delay_s=0")
        with start_mpirun(2, "-c", CRAWL_AND_TELL, str(tmp_path), *words) as process:
            errors = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 0, errors
    first, second = (set((tmp_path / rank).read_text().split()) for rank in "01")
    needless = {"crawler.report.findings", "importlib.metadata", "jinja2"}
    assert first >= needless
    assert "pydantic" not in first
    assert not second & needless
    assert "pyarrow" in second
    slow = {"numpy.ma", "pyarrow.acero", "pyarrow.compute", "pyarrow.dataset"}
    assert not (first | second) & slow
