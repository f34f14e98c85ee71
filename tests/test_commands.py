"""The commands of one process: config, fetch, explain, simulate, report."""

import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crawls import run_here, sets
from servers import Page, PageServer, RawServer, forever
from xxhash import xxh3_64_intdigest

from crawler import url
from crawler.__main__ import COMMANDS, main
from crawler.arguments import make_parser
from crawler.config import Config
from crawler.templates import TEMPLATES
from crawler.version import __version__
from partition import partvector

HTML = {"Content-Type": "text/html; charset=utf-8"}
LOCAL = ["--set", "fetch.allow_private_addresses=true"]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """`said(*words)`: what a command prints, which must succeed."""

    def run(*words: str, code: int = 0) -> str:
        assert main(words) == code
        return capsys.readouterr().out

    return run


# --- all


def test_each_command_has_a_function() -> None:
    parser = make_parser()
    (choices,) = [action.choices for action in parser._actions if action.dest == "command"]
    assert choices is not None
    assert {None, *choices} == set(COMMANDS)
    for name in COMMANDS.values():
        assert callable(pkgutil.resolve_name(f"crawler.commands.{name}"))


# --- config


def test_config_prints_all_keys_with_their_meaning(said: Any, tmp_path: Path) -> None:
    text = said("config", "--set", "fetch.concurrency=7")
    printed = Config(**tomllib.loads(text))
    assert printed.fetch.concurrency == 7
    assert printed.replace(fetch=Config().fetch) == Config()
    key = "how the rank that owns a URL is chosen"
    line = next(line for line in text.splitlines() if line.startswith(f"# {key}"))
    assert ": url-hash, site-hash, hierarchical, part-vector, dynamic, or a plug-in" in line
    file = tmp_path / "a.toml"
    file.write_text(text)
    assert said("config", str(file)) == text


# --- fetch


def test_fetch_says_what_the_agent_gets(said: Any) -> None:
    page = Page("<title>é</title><a href=/b rel=nofollow>b</a>".encode(), headers=HTML)
    pages = {"/a": page, "/old": Page(b"", 301, {"Location": "/a"}), "/loop": Page(b"", 302)}
    with PageServer(pages) as server, RawServer(forever(b"HTTP/1.1 200 OK\r\n\r\n", b"x")) as flood:
        urls = [f"{server.url}/old", f"{server.url}/none", "nonsense", f"{server.url}/loop"]
        words = [*LOCAL, "--set", "fetch.max_bytes=1000", "--json", *urls, flood.url]
        lines = said("fetch", *words).splitlines()
    moved, missing, nonsense, nowhere, cut = map(json.loads, lines)
    assert moved["url"] == f"{server.url}/old"
    assert moved["status"] == 200
    assert moved["redirects"] == [
        {"url": f"{server.url}/old", "status": 301, "location": f"{server.url}/a"}
    ]
    assert moved["encoding"] == "utf-8"
    assert moved["bytes"] == len(page.body)
    assert moved["truncated"] is None
    assert moved["digest"].startswith("sha1:")
    assert moved["links"] == [{"url": f"{server.url}/b", "flags": 1}]
    assert ["Content-Type", HTML["Content-Type"]] in moved["headers"]
    assert missing["status"] == 404
    assert nonsense["error"] == "bad-url"
    assert nowhere["error"] == "bad-redirect"
    assert (cut["error"], cut["truncated"], cut["bytes"]) == ("too-large", "length", 1000)


def test_fetch_fails_if_no_page_came_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PageServer({"/": b"here"}) as server:
        missing, here = f"{server.url}/gone", f"{server.url}/"
        assert main(["fetch", *LOCAL, "--json", missing, "http://127.0.0.1:1/"]) == 1
        output, errors = capsys.readouterr()
        assert len(list(map(json.loads, output.splitlines()))) == 2
        gone, refused = errors.splitlines()
        assert (
            gone
            == f"error: {missing}: status 404: there is no such page; check the path of the URL"
        )
        assert refused.startswith("error: http://127.0.0.1:1/: connection-refused: ")
        assert main(["fetch", *LOCAL, missing, here]) == 0  # a page came
        assert "status 404" in capsys.readouterr().err


def test_fetch_ends_loops_and_long_chains(said: Any) -> None:
    pages = {f"/{n}": Page(b"", 302, {"Location": f"/{n + 1}"}) for n in range(30)}
    pages |= {"/ping": Page(b"", 302, {"Location": "/pong"})}
    pages |= {"/pong": Page(b"", 302, {"Location": "/ping"})}
    with PageServer(pages) as server:
        urls = [f"{server.url}/{name}" for name in ("0", "ping")]
        chain, loop = map(json.loads, said("fetch", *LOCAL, "--json", *urls, code=1).splitlines())
    assert chain["error"] == "too-many-redirects"
    assert len(chain["redirects"]) == 20
    assert loop["error"] == "redirect-loop"


def test_fetch_for_people_lets_the_web_steer_no_terminal(said: Any) -> None:
    page = Page(b"x", headers={"X-Evil": "\x1b[2J"})
    with PageServer({"/": page}) as server:
        text = said("fetch", *LOCAL, f"{server.url}/")
    assert "status      200" in text
    assert "\x1b" not in text


# --- explain


def test_explain_names_the_rule_the_line_and_the_rank(said: Any, tmp_path: Path) -> None:
    robots = tmp_path / "robots.txt"
    robots.write_text("User-agent: *\nDisallow: /private\nAllow: /private/open\n")
    words = ["explain", "--robots-file", str(robots), "--ranks", "4", "--json"]

    allowed = json.loads(said(*words, "HTTP://A.example:80/private/open/./x#y"))
    assert allowed["normalised"] == "http://a.example/private/open/x"
    assert allowed["scope"] == {"allowed": True, "rule": "site of a seed: a.example"}
    assert allowed["robots"] == {"allowed": True, "line": "Allow: /private/open"}
    assert allowed["site"] == "a.example"
    assert allowed["key"] == f"{url.key('http://a.example/private/open/x'):016x}"
    part = partvector.jump_hash(xxh3_64_intdigest(b"a.example"), 4)
    assert allowed["part"] == allowed["rank"] == part

    denied = json.loads(said(*words, "http://a.example/private/x"))
    assert denied["robots"] == {"allowed": False, "line": "Disallow: /private"}
    assert denied["why"] == "not fetched: robots.txt forbids it"

    outside = json.loads(said(*words, "--set", 'scope.domains=["b.example"]', "http://a.example/"))
    assert outside["scope"]["allowed"] is False
    assert outside["why"].startswith("not fetched: no host, domain or suffix")


def test_explain_of_a_site_that_the_part_vector_lacks(said: Any, tmp_path: Path) -> None:
    vector = tmp_path / "v"
    partvector.write(vector, parts=2, sites={"a.example": 1}, model="site-graph")
    chosen = sets("assignment.scheme=part-vector", f"assignment.part_vector={vector}")
    words = ["explain", "--offline", "--ranks", "2", "--json", *chosen]
    known = json.loads(said(*words, "http://a.example/x"))
    assert (known["part"], known["rank"], known["robots"]) == (1, 1, None)
    unknown = json.loads(said(*words, "http://b.example/x"))
    assert unknown["part"] is None
    assert "registrar is rank" in unknown["why"]


@pytest.mark.parametrize(
    ("granularity", "follow", "rank", "why"),
    [
        ("page", "server", None, "at rank 0 hands it to one of its clients (ranks 1, 2)"),
        ("site", "own", None, "at rank 0 gives its site to one of its clients (ranks 1, 2)"),
        ("dset", "server", 2, "by rank 2, which holds DSet 1, handed out by rank 0"),
        ("dset", "own", 2, "by rank 2, which holds DSet 1, below rank 0"),
    ],
)
def test_explain_says_which_client_may_fetch_a_url(
    said: Any, granularity: str, follow: str, rank: int | None, why: str
) -> None:
    words = ["assignment.scheme=dynamic", f"dynamic.granularity={granularity}"]
    words += [f"dynamic.follow={follow}", 'dynamic.dsets=[["com"], ["example"]]']
    explained = json.loads(
        said("explain", "--offline", "--ranks", "3", "--json", *sets(*words), "http://a.example/x")
    )
    assert explained["rank"] == explained["part"] == rank
    assert explained["why"].endswith(why)


def test_explain_asks_the_site_unless_offline(said: Any) -> None:
    with PageServer({"/robots.txt": b"User-agent: *\nDisallow: /x\n"}) as server:
        words = ["explain", *LOCAL, "--json", f"{server.url}/x"]
        assert json.loads(said(*words))["robots"] == {"allowed": False, "line": "Disallow: /x"}
        assert json.loads(said(*words, "--offline"))["robots"] is None
        assert server.paths == ["/robots.txt"]


def test_both_take_a_url_as_a_crawl_takes_a_seed(said: Any, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("# ours\nhttp://www.a.example/\n")
    words = ["--set", "normalise.fold_www=true", "--set", f"session.seeds_file={seeds}", "--json"]
    explained = json.loads(said("explain", *words, "--offline", "http://www.a.example/b"))
    assert explained["normalised"] == "http://a.example/b"
    assert explained["scope"]["allowed"]
    other = json.loads(said("explain", *words, "--offline", "http://b.example/"))
    assert not other["scope"]["allowed"]
    with PageServer({"/a": b"here"}) as server:
        fold = ["--set", "normalise.fold_slash=true", "--json"]
        assert json.loads(said("fetch", *LOCAL, *fold, f"{server.url}/a/"))["bytes"] == 4


# --- simulate


def test_simulate_crawls_a_graph(said: Any, tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    graph.mkdir()
    ring = 40
    pages = pa.table({"id": range(ring), "site": [f"s{page % 5}.example" for page in range(ring)]})
    links = pa.table({"src": range(ring), "dst": [(page + 1) % ring for page in range(ring)]})
    pq.write_table(pages, graph / "pages.parquet")
    pq.write_table(links, graph / "links.parquet")
    words = ["simulate", str(graph), "--procs", "1,3", "--seeds", "1", "--repeat", "2"]
    outcomes = json.loads(said(*words, "--out", str(tmp_path / "out"), "--json"))
    assert [(one["procs"], one["repeat"]) for one in outcomes] == [(1, 0), (1, 1), (3, 0), (3, 1)]
    for one in outcomes:
        assert (one["mode"], one["scheme"]) == ("exchange", "site-hash")
        assert (one["coverage"], one["overlap"], one["pages"]) == (1.0, 0.0, ring)
        assert (one["messages_page_part"] > 0) == (one["procs"] > 1)
    assert json.loads((tmp_path / "out" / "simulate.json").read_text()) == outcomes
    assert "coverage" in said(*words)


# --- mistakes and help


@pytest.mark.parametrize(
    ("words", "said_in_error"),
    [
        (["report", "nowhere"], "nowhere/session.toml: No such file"),
        (["simulate", "nowhere"], "nowhere/pages.parquet; name a session, or a graph"),
        (["simulate", "x", "--procs", "1,0"], "whole numbers from 1"),
        (["simulate", "{graph}", "--modes", "telepathy"], "session.mode = 'telepathy'"),
        (["config", "--set", "fetch=1"], "--set fetch=1: must have the form table.key=value"),
        (["explain", "http://a.example/", "--robots-file", "nowhere"], "--robots-file nowhere"),
        (["juggle"], "invalid choice: 'juggle'"),
        (["repot", "x"], "; did you mean report? see python -m crawler --help"),
        (
            ["crawl", "x", "--max-pagez=3"],
            "; did you mean --max-pages? see python -m crawler crawl",
        ),
        (["report", "x", "y", "z"], "unrecognized arguments: z; see python -m crawler report"),
        (["config", "quik"], "quik: no such file or template; did you mean quick? the templates"),
        (["config", "quick", "--set", "fetch.concurrency=7"], "--set: quick is a template"),
        (["config", "quik.toml"], "quik.toml: No such file"),
        (["completion", "zhs"], "did you mean zsh? see python -m crawler completion --help"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said_in_error: str
) -> None:
    pq.write_table(pa.table({"id": [0]}), tmp_path / "pages.parquet")
    pq.write_table(
        pa.table({"src": pa.array([], pa.int32()), "dst": pa.array([], pa.int32())}),
        tmp_path / "links.parquet",
    )
    assert main([word.format(graph=tmp_path) for word in words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said_in_error in error


@pytest.mark.parametrize(
    "command", [[], ["crawl"], ["report"], ["config"], ["completion"], ["fetch"], ["simulate"]]
)
def test_help_everywhere(command: list[str]) -> None:
    assert run_here(*command, "--help").stdout.startswith("usage: python -m crawler")


@pytest.mark.parametrize("name", TEMPLATES)
def test_config_prints_a_template_as_it_is(name: str, said: Any) -> None:
    assert said("config", name).startswith("# ")


@pytest.mark.parametrize("module", ["crawler", "partition"])
def test_bash_completes_commands_and_options(module: str, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    done = subprocess.run(
        [sys.executable, "-m", module, "completion", "bash"],
        check=True,
        capture_output=True,
        text=True,
    )
    script.write_text(done.stdout)
    name, command, option = ("abc-crawl", "res", "--max-p")
    if module == "partition":
        name, command, option = ("abc-partition", "bui", "--mod")
    answers = []
    for words in ([name, command], [name, {"res": "resume", "bui": "build"}[command], option]):
        typed = " ".join(words)
        lines = [
            f"source {script}",
            f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'",
            "COMP_POINT=${#COMP_LINE}",
            "$(complete -p " + name + r" | sed -E 's/.*-F ([^ ]+) .*/\1/') " + name,
            'echo "${COMPREPLY[@]}"',
        ]
        answers += subprocess.run(
            ["bash", "-c", "\n".join(lines)], check=True, capture_output=True, text=True
        ).stdout.split()
    assert answers == (["resume", "--max-pages"] if module == "crawler" else ["build", "--model"])


@pytest.mark.parametrize("script", ["abc-crawl", "abc-partition"])
def test_files_in_the_current_folder_dont_get_in_the_way(script: str, tmp_path: Path) -> None:
    for name in ("crawler", "partition"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')")
    program = Path(sys.executable).parent / script
    if not program.exists():
        pytest.skip(f"{script} isn't installed: pip install -e .")
    done = subprocess.run(
        [program, "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"abc-crawler {__version__}\n"
    helped = subprocess.run(
        [program, "--help"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert helped.stdout.startswith(f"usage: {script} ")


def test_only_the_first_rank_speaks(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    assert main(["juggle"]) == 2
    assert "juggle" in capfd.readouterr().err
    monkeypatch.setenv("PMI_RANK", "3")
    assert main(["juggle"]) == 2
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capfd.readouterr() == ("", "")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"abc-crawler {__version__}\n"
