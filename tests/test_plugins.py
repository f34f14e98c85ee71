"""Plug-ins: what may be installed, what a user may get wrong, and what their errors cost."""

import json
import logging
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from crawls import metrics_of, page_rows, run_here, sets, verify_crawl
from hypothesis import example as example_options
from hypothesis import given
from hypothesis import settings as thrifty
from hypothesis import strategies as st
from plugged import Install
from servers import Page, PageServer

import crawler
from crawler import config
from crawler.agent.planning import _plugin_mistake
from crawler.core.order import make_order
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash, make_scheme
from crawler.extensions import FILTER, KINDS, Plugin, load
from crawler.ports import CrawlUrl, UserError
from crawler.reading.reader import make_scope
from crawler.session import read_status
from crawler.watch.words import head

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs" / "example-plugin"
HTML = {"Content-Type": "text/html"}
HOSTS = ("a.org", "b.org", "c.com", "d.net")
START = "".join(
    f'<a href="http://{host}/{path}">{path}</a>' for host in HOSTS for path in ("one", "print/one")
)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH, into which the example package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run(
        [*command, "--no-build-isolation", "--no-deps", "--no-index", str(EXAMPLE)], check=True
    )
    return folder


@pytest.fixture(scope="module")
def served() -> Iterator[PageServer]:
    with PageServer(
        {
            "/": Page(START.encode(), headers=HTML),
            "/one": Page(b"<h2>No.\n one</h2><h3>more</h3>", headers=HTML),
            "/print/one": Page(b"print", headers=HTML),
        }
    ) as server:
        yield server


def settings(served: PageServer) -> list[str]:
    hosts = dict.fromkeys(HOSTS, f"127.0.0.1:{served.port}")
    return sets(
        f"scope.hosts={json.dumps(HOSTS)}",
        f"dns.hosts={config.toml_value(hosts)}",
        "politeness.delay_s=0",
        "fetch.allow_private_addresses=true",
    )


def run(*words: str, path: Path) -> "subprocess.CompletedProcess[str]":
    """A command by one rank, with plug-ins in `path`. What it crawled isn't verified."""
    return subprocess.run(
        [sys.executable, "-m", "crawler", *words],
        env={**os.environ, "PYTHONPATH": f"{path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


# --- the example package ----------------------------------------------------------------------


def test_the_example_package_on_two_ranks(
    example: Path,
    served: PageServer,
    tmp_path: Path,
    mpirun: MpiRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(example)  # `verify` judges the links again
    session = tmp_path / "s"
    plugins = sets(
        'scope.filters=["no-words"]',
        'plugins.no-words={words = ["print"]}',
        "frontier.order=short-first",
        "assignment.scheme=by-suffix",
        'extract.handlers=["headings"]',
    )
    words = ["-m", "crawler", "crawl", "http://a.org/", "--session", str(session), "--json"]
    done = mpirun(
        2, *words, *settings(served), *plugins, PYTHONPATH=f"{example}:{ROOT}", timeout=100
    )
    assert done.returncode == 0, done.stderr
    rows = page_rows(session)
    assert {row["url"] for row in rows} == {"http://a.org/", *(f"http://{h}/one" for h in HOSTS)}
    ranks = {row["site"]: row["rank"] for row in rows}
    assert ranks["a.org"] == ranks["b.org"]
    assert set(ranks.values()) == {0, 1}
    assert metrics_of(session)["plugin_errors"] == {}
    headings = [row for row in crawler.Session(session).rows("headings") if row.pop("fetched_at")]
    assert sorted(headings, key=itemgetter("url")) == [
        {"url": f"http://{host}/one", "tag": "h2", "text": "No. one"} for host in HOSTS
    ]
    assert '"scope.filters no-words" = "abc-example 1.0"' in (session / "session.toml").read_text()


def test_the_example_imports_only_what_plug_ins_may(example: Path) -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--config", EXAMPLE / "pyproject.toml", "--no-cache"],
        env={**os.environ, "PYTHONPATH": f"{EXAMPLE}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- mistakes of the user ---------------------------------------------------------------------

CLASS = """
class mine:
    def __init__(self, words, most=3):
        if most > 9:
            raise ValueError("most: at most 9")
    def __call__(self, url):
        return True
"""


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("raise RuntimeError('no licence')", "", "can't be imported: RuntimeError: no licence"),
        ("import sys; sys.exit(1)", "", "can't be imported: SystemExit: 1"),
        ("import not_there_at_all", "", "No module named 'not_there_at_all'"),
        ("yours = 1", "", "has no mine"),
        ("mine = 1", "", r"can't be called; a function of \(url\) is needed"),
        ("def mine(): pass", "", r"too many positional arguments; a function of \(url\) is needed"),
        ("def mine(url, depth): pass", "", r"missing a required argument: 'depth'; a function"),
        ("def mine(url): return True", "{most = 1}", "takes no options, because it is no class"),
        (CLASS, "", "plugins.mine: missing a required argument: 'words'"),
        (
            CLASS,
            "{words = 1, least = 2}",
            "plugins.mine: got an unexpected keyword argument 'least'",
        ),
        (CLASS, "{words = 1, most = 10}", "ValueError: most: at most 9"),
    ],
)
def test_a_plugin_that_cannot_be_used(
    install: Install, source: str, options: str, words: str
) -> None:
    install("filters", "mine", source)
    chosen = ['scope.filters=["mine"]', *([f"plugins.mine={options}"] if options else [])]
    with pytest.raises(UserError, match=words) as error:
        make_scope(config.load(None, chosen), (), 2027)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ('scope.filters=["mane"]', "did you mean mine?"),
        ("frontier.order=brigth", "did you mean bright?"),
        ("assignment.scheme=site-hush", "did you mean site-hash?"),
    ],
)
def test_a_name_that_is_not_installed(install: Install, chosen: str, words: str) -> None:
    install("filters", "mine", "def mine(url): return True")
    install("orderings", "bright", "def bright(found): return 1")
    loaded = config.load(None, [chosen])
    makers = {
        "scope": lambda: make_scope(loaded, (), 2027),
        "assig": lambda: make_scheme(loaded, 2),
    }
    make = makers.get(chosen[:5], lambda: make_order(loaded.frontier))
    with pytest.raises(UserError, match="no plug-in of this name is installed") as error:
        make()
    assert words in str(error.value)


def test_a_name_that_two_packages_have(install: Install) -> None:
    install("filters", "mine", "def mine(url): return True")
    install("filters", "mine", "def mine(url): return False", package="yours")
    with pytest.raises(UserError, match=r"(mine 1 and yours 1|yours 1 and mine 1) both have it"):
        load(FILTER, "mine", {})


def test_an_option_without_a_value_is_refused() -> None:
    tables = {"scope": {"filters": ["mine"]}, "plugins": {"mine": {"most": [1, None]}}}
    with pytest.raises(UserError, match=r"plugins\.mine.*must not be None"):
        config.load(None, values=tables)


def test_options_of_a_plugin_that_is_not_used() -> None:
    with pytest.raises(UserError, match=r"plugins\.mine: options of a plug-in that isn't used"):
        config.load(None, ["plugins.mine={most = 1}"])


values = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=3,
)


@example_options({"most": 3, 'say "x"': [{"a": 1.5}]})
@given(st.dictionaries(st.text(), values, max_size=2))
@thrifty(max_examples=50)
def test_options_survive_session_toml(options: dict[str, Any]) -> None:
    tables = {"scope": {"filters": ["a.b-c"]}, "plugins": {"a.b-c": options}}
    loaded = config.load(None, values=tables)
    again = config.load(None, values=tomllib.loads(config.as_toml(loaded)))
    assert again.options_of("a.b-c") == options


# --- errors of plug-ins -----------------------------------------------------------------------


def test_a_url_on_which_a_filter_fails_is_out_of_scope(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """And the error is logged as that of the plug-in, with its traceback."""
    source = (
        "def mine(url):\n"
        "    if 'exit' in url: raise SystemExit\n"
        "    if 'none' in url: return None\n"
        "    return 1 / len(url[len('http://a.example/'):]) > 0\n"
    )
    install("filters", "mine", source)
    chosen = config.load(None, ['scope.filters=["mine"]', 'scope.hosts=["a.example"]'])
    scope = make_scope(chosen, (), 2027)
    with caplog.at_level(logging.ERROR, "crawler"):
        verdicts = [
            scope.judge(f"http://a.example/{path}").allowed for path in ("", "exit", "none", "one")
        ]
    assert verdicts == [False, False, False, True]
    assert [plugin.errors.count for plugin in scope.filters] == [3]
    assert ["Traceback" in record.about["traceback"] for record in caplog.records] == [True] * 3
    first, _, third = caplog.messages
    assert first == (
        "plug-in mine (scope.filters) failed on http://a.example/: ZeroDivisionError: division by"
        " zero"
    )
    assert third.endswith("TypeError: returned None, not True or False")


def test_what_comes_from_outside_is_no_error_of_a_plugin() -> None:
    def mine(url: str) -> bool:
        raise KeyboardInterrupt

    plugin = Plugin(FILTER, "mine", mine)
    with pytest.raises(KeyboardInterrupt):
        plugin.ask("http://a.example/", "http://a.example/")
    assert not plugin.errors.count


def test_a_site_on_which_a_scheme_fails_goes_by_its_hash(install: Install) -> None:
    """On all ranks alike, so the site still has one owner."""
    source = "def mine(site, parts):\n    return {'a': 2, 'b': 3, 'c': -1, 'd': 1.5}[site[0]]\n"
    install("schemes", "mine", source)
    chosen = config.load(None, ["assignment.scheme=mine"])
    scheme = make_scheme(chosen, 3)
    hashed = SiteHash(3)
    for site in ("b.example", "c.example", "d.example", "e.example"):
        assert scheme.part(0, site) == hashed.part(0, site)
    assert scheme.part(0, "a.example") == 2
    ownership = Ownership(1, scheme, [0, 1, 2])
    assert [plugin.errors.count for plugin in ownership.plugins] == [4]
    kept = Ownership(1, make_scheme(chosen, 3, {"a.example": 0}), [0, 1, 2])
    assert len(kept.plugins) == 1
    assert not kept.shares_sites


def test_an_ordering_with_options(install: Install) -> None:
    install(
        "orderings",
        "mine",
        "class mine:\n"
        "    def __init__(self, factor): self.factor = factor\n"
        "    def __call__(self, found): return self.factor * found.hops\n",
    )
    order = make_order(config.Frontier(order="mine"), options={"factor": -2})
    url = CrawlUrl(1, "http://a.example/", "a.example", 3)
    assert order.first(url, 1) == (-6.0, True)  # type: ignore[attr-defined]


def test_a_slow_plugin_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    def mine(url: str) -> bool:
        time.sleep(0.06)
        return True

    plugin = Plugin(FILTER, "mine", mine)
    with caplog.at_level(logging.WARNING, "crawler"):
        assert all(plugin.ask("http://a.example/", "http://a.example/") for _ in range(5))
    assert [message.partition(":")[0] for message in caplog.messages] == ["plug-in mine is slow"]


def test_a_failing_plugin_ends_no_crawl(
    install: Install, served: PageServer, tmp_path: Path
) -> None:
    """Its errors are in the log of the rank, in the status, and in the report."""
    path = install(
        "filters", "mine", "def mine(url):\n    assert 'print' not in url\n    return True\n"
    )
    session = tmp_path / "s"
    chosen = [*settings(served), *sets('scope.filters=["mine"]')]
    done = run("crawl", "http://a.org/", "--session", str(session), *chosen, path=path)
    assert done.returncode == 0, done.stderr
    assert "rank 0: plug-in mine (scope.filters) failed on http://a.org/print/one" in done.stderr
    assert "Plug-ins failed: mine 4" in " ".join(done.stdout.split())
    verify_crawl(("crawl", "--session", str(session)), 0)
    assert len(page_rows(session)) == 5
    assert metrics_of(session)["plugin_errors"] == {"mine": 4}
    status = read_status(session)
    assert status.plugin_errors == {"mine": 4}
    assert ("plug-ins", "errors: mine 4") in head(status)
    assert any("mine 4" in one["title"] for one in metrics_of(session)["findings"])
    log = [json.loads(line) for line in (session / "rank-00000" / "agent.log").open()]
    assert "AssertionError" in next(line for line in log if line.get("plugin"))["traceback"]


def test_a_resume_without_the_plugin(install: Install, served: PageServer, tmp_path: Path) -> None:
    path = install("filters", "mine", "def mine(url): return True")
    session = str(tmp_path / "s")
    chosen = [*settings(served), *sets('scope.filters=["mine"]', "session.max_pages=1")]
    done = run("crawl", "http://a.org/", "--session", session, *chosen, path=path)
    assert done.returncode == 0, done.stderr
    for file in path.glob("*/entry_points.txt"):
        file.unlink()
    again = ["resume", session, *sets("session.max_pages=0")]
    done = run_here(*again)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "scope.filters = 'mine': this plug-in isn't installed" in done.stderr
    assert "of mine 1" in done.stderr
    assert run_here(*again, *sets("scope.filters=[]")).returncode == 0
    assert len(page_rows(Path(session))) == 9


def test_all_ranks_hear_of_a_plugin_that_one_of_them_lacks(
    install: Install, served: PageServer, tmp_path: Path, mpirun: MpiRun
) -> None:
    path = install(
        "filters",
        "mine",
        "import os\n"
        "if '1' in {os.environ.get('PMI_RANK'), os.environ.get('OMPI_COMM_WORLD_RANK')}:\n"
        "    raise ImportError('not on this host')\n"
        "def mine(url): return True\n",
    )
    words = ["-m", "crawler", "crawl", "http://a.org/", "--session", str(tmp_path / "s")]
    chosen = [*settings(served), *sets('scope.filters=["mine"]')]
    done = mpirun(2, *words, *chosen, PYTHONPATH=f"{path}:{ROOT}")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if "mine" in line]
    assert len(lines) == 1
    assert "error: rank 1 on " in lines[0]
    assert "can't be imported: ImportError: not on this host" in lines[0]
    done = run_here("resume", str(tmp_path / "s"))  # there is no rank 1
    assert done.returncode == 0, done.stderr
    assert len(page_rows(tmp_path / "s")) == 9


def test_all_ranks_need_the_same_versions() -> None:
    same = ["mine of mine 1", "yours of yours 2"]
    told = [("rank 0 on a", same, ""), ("rank 1 on b", same, "")]
    assert _plugin_mistake(told) is None
    told.append(("rank 2 on c", ["mine of mine 1", "yours of yours 3"], ""))
    words = "rank 2 on c: plug-in yours of yours 3; rank 0 has yours of yours 2: install the same"
    assert _plugin_mistake(told) == f"{words} on all hosts"


def test_every_kind_has_a_key_and_a_group() -> None:
    text = (ROOT / "docs" / "extend.md").read_text()
    for kind in KINDS.values():
        assert f"`{kind.key}`" in text
        assert f"`{kind.group}`" in text
