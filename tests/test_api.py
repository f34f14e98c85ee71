"""The crawler in a script."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import MpiRun
from crawls import assert_sound, crawl_here, sets
from servers import Page, PageServer

import crawler
from crawler.ports import UserError
from crawler.url import BadUrlError

HTML = {"Content-Type": "text/html"}
PAGES = {
    "/": Page(b"<a href=/2>2</a> <a href=/3>3</a> <a href=/gone>gone</a>", headers=HTML),
    "/2": Page(b"same", headers=HTML),
    "/3": Page(b"same", headers=HTML),
}
SCRIPT = """
import json, sys, crawler
from crawler.ports import UserError

settings = json.loads(sys.argv[1])
session = crawler.run(settings)
print(json.dumps([str(session.directory), session.complete, session.metrics["pages"]]))
try:
    crawler.run(settings)
except UserError as error:
    print(error)
del settings["session"]["max_pages"]
again = crawler.run(settings, resume=True)
print(json.dumps([str(again.directory), again.complete, again.metrics["pages"]]))
"""


@pytest.fixture(scope="module")
def served() -> Iterator[PageServer]:
    with PageServer(PAGES) as server:
        yield server


@pytest.fixture(scope="module")
def crawled(served: PageServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("api") / "s"
    done = crawl_here(directory, f"{served.url}/", *sets("politeness.delay_s=0"))
    assert done.returncode == 0, done.stderr
    return directory


def settings_for(
    served: PageServer, directory: Path, **limits: int
) -> dict[str, dict[str, object]]:
    return {
        "session": {"directory": str(directory), "seeds": [f"{served.url}/"], **limits},
        "politeness": {"delay_s": 0},
        "fetch": {"allow_private_addresses": True},
    }


def test_a_script_crawls_and_goes_on(served: PageServer, tmp_path: Path) -> None:
    settings = json.dumps(settings_for(served, tmp_path / "s", max_pages=2))
    words = [sys.executable, "-c", SCRIPT, settings]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, refused, second = done.stdout.splitlines()
    assert json.loads(first) == [str(tmp_path / "s"), False, 2]
    assert refused.startswith(f"{tmp_path / 's'}: holds a session already")
    assert json.loads(second) == [str(tmp_path / "s"), True, 4]
    assert done.stderr == ""
    assert_sound(tmp_path / "s")


def test_a_script_crawls_on_all_its_ranks(
    served: PageServer, tmp_path: Path, mpirun: MpiRun
) -> None:
    settings = json.dumps(settings_for(served, tmp_path / "s"))
    # Each rank writes its line at once: `print` may write the end of the line by itself.
    program = (
        "import json, sys, crawler;"
        " sys.stdout.write(f'{crawler.run(json.loads(sys.argv[1])).complete}\\n')"
    )
    done = mpirun(2, "-c", program, settings)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr
    assert_sound(tmp_path / "s")
    assert len(crawler.Session(tmp_path / "s").metrics["ranks"]) == 2


def test_rows_of_tables(served: PageServer, crawled: Path) -> None:
    first = crawler.Session(crawled)
    assert first.complete
    assert first.config.session.seeds == (f"{served.url}/",)
    assert {page["url"]: page["status"] for page in first.pages()} == {
        f"{served.url}/": 200,
        f"{served.url}/2": 200,
        f"{served.url}/3": 200,
        f"{served.url}/gone": 404,
    }
    assert set(next(first.pages("url", "bytes"))) == {"url", "bytes"}
    assert sorted(link["target_url"] for link in first.links("target_url")) == [
        f"{served.url}{path}" for path in ("/2", "/3", "/gone")
    ]
    assert [site["pages"] for site in first.sites()] == [4]
    assert list(first.anchors()) == []


def test_columns_that_an_earlier_version_lacked_are_null(crawled: Path, tmp_path: Path) -> None:
    shutil.copytree(crawled, tmp_path / "old")
    path = tmp_path / "old" / "tables" / "pages" / "00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["title", "language"]), path)
    rows = list(crawler.Session(tmp_path / "old").pages("title", "status"))
    assert len(rows) == 4
    assert {row["title"] for row in rows} == {None}
    assert {row["status"] for row in rows} == {200, 404}


def test_stored_responses(served: PageServer, crawled: Path) -> None:
    first = crawler.Session(str(crawled))
    home = first.open(f"{served.url}")  # normalised here
    assert (home.url, home.status) == (f"{served.url}/", 200)
    assert home.body == PAGES["/"].body
    assert ("Content-Type", "text/html") in home.headers
    assert first.open(f"{served.url}/gone").status == 404
    for page in first.pages():  # one of /2 and /3 is a revisit of the other
        if page["status"] == 200:
            assert first.open(page).body == PAGES[page["url"].removeprefix(served.url)].body


def test_pages_that_have_not_changed_are_read_from_the_session_before(
    tmp_path: Path, crawled: Path, served: PageServer
) -> None:
    words = sets("politeness.delay_s=0", f"session.previous={crawled}")
    assert crawl_here(tmp_path / "second", f"{served.url}/", *words).returncode == 0
    second = crawler.Session(tmp_path / "second")
    assert all(page["duplicate"] for page in second.pages() if page["status"] == 200)
    assert second.open(f"{served.url}/").body == PAGES["/"].body
    assert second.open(f"{served.url}/3").body == b"same"


def test_mistakes(tmp_path: Path, served: PageServer, crawled: Path) -> None:
    with pytest.raises(UserError, match=r"session\.toml: No such file"):
        crawler.Session(tmp_path)
    first = crawler.Session(crawled)
    with pytest.raises(UserError, match="pages: no column colour; url, key, "):
        first.pages("url", "colour")
    with pytest.raises(LookupError, match="the session has no page of this URL"):
        first.open(f"{served.url}/other")
    with pytest.raises(BadUrlError):
        first.open("no URL")
    with pytest.raises(UserError, match=r"fetch\.speed: unknown key"):
        crawler.run({"fetch": {"speed": 9}})
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        crawler.walk  # noqa: B018
