"""The documentation: its site builds, and its reference says what the code has."""

import contextlib
import fnmatch
import importlib.util
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import PATIENCE_S
from crawls import metrics_of, run_here, run_unverified, sets
from servers import PageServer

from crawler.config import Config, Table, toml_value
from crawler.ports import EXIT_CODES
from crawler.report.meanings import LIVE, MEASURES
from crawler.session import described

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
TUTORIAL = ROOT / "docs" / "tutorial.md"


def free_address() -> str:
    """An address of loopback at which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def script(path: str) -> Any:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location("script", ROOT / "docs" / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator() -> Any:
    return script("reference.py")


def test_the_reference_is_what_the_code_says(generator: Any) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.iterdir()}
    assert written == generator.pages(), "run: python docs/reference.py"


def test_the_pictures_of_models_are_drawn_by_their_script() -> None:
    drawn = script("pictures/models.py").pictures()
    assert len(drawn) == 4
    for name, content in drawn.items():
        picture = ROOT / "docs" / "pictures" / name
        assert picture.read_text(encoding="utf-8") == content, "run: python docs/pictures/models.py"


def test_pictures_are_small() -> None:
    pictures = [*(ROOT / "docs" / "pictures").glob("*.[ps][nv]g")]
    assert len(pictures) >= 8
    assert all(one.stat().st_size <= 100_000 for one in pictures)


def test_each_column_is_described(generator: Any) -> None:
    for schema, words in (
        (generator.columns.PAGES, described.PAGES),
        (generator.columns.LINKS, described.LINKS),
        (generator.columns.ANCHORS, described.ANCHORS),
        (generator.columns.SITES, described.SITES),
    ):
        assert set(schema.names) == set(words), "describe columns in session/described.py"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("docs") / "first"
    pages = {"/": b"<a href=/a>a</a> <a href=/gone>gone</a>", "/a": b"a"}
    with PageServer(pages) as server:
        settings = sets(
            "fetch.allow_private_addresses=true", "politeness.delay_s=0", "storage.sync=close"
        )
        words = ("crawl", f"{server.url}/", "--session", str(directory), "--max-pages", "2")
        assert run_here(*words, *settings).returncode == 0
    return directory


def test_each_file_of_a_session_is_described(session: Path) -> None:
    found = {str(path.relative_to(session)) for path in session.rglob("*") if path.is_file()}
    assert {"session.toml", "tables/pages/00000.parquet", "rank-00000/crawl.log"} <= found
    unknown = {
        path for path in found if not any(fnmatch.fnmatch(path, one) for one in described.FILES)
    }
    assert not unknown, "describe files in session/described.py"


def test_each_measure_is_described(session: Path) -> None:
    assert set(metrics_of(session)) == set(MEASURES), "describe measures in report/meanings.py"
    assert set(MEASURES) >= LIVE


def test_exit_codes_stand_in_the_help() -> None:
    from crawler.arguments import make_parser

    told = re.findall(r"\b(\d+): ", str(make_parser().epilog))
    assert list(map(int, told)) == list(EXIT_CODES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A link or an anchor that leads nowhere fails, and a page without a place."""
    pytest.importorskip("material", reason="no mkdocs-material: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return folder


LOADED = re.compile(
    r"<(?:script|img|iframe|source|object)\b[^>]*\b(?:src|data)=\"(?:https?:)?//[^\"]*\""
    r"|<link\b[^>]*\brel=\"(?!canonical)[^>]*href=\"(?:https?:)?//[^\"]*\""
    r"|(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\s]*"
)


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://a.example/x.js">', True),
        ('<link rel="stylesheet" href="//a.example/x.css">', True),
        ("@import 'https://a.example/x.css'", True),
        ("a{background:url(https://a.example/x.png)}", True),
        ('<a href="https://a.example/">', False),
        ('<img src="pictures/x.png">', False),
    ],
)
def test_what_loads_something_from_elsewhere(text: str, loads: bool) -> None:
    assert bool(LOADED.search(text)) is loads


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 40
    found = {
        (path.name, hit[0])
        for path in pages
        for hit in LOADED.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_each_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    made = {page: page.with_name(page.name.replace("README", "index")) for page in pages}
    assert not {page for page in pages if not (site / made[page]).with_suffix(".html").exists()}


# --- commands in the documentation


BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)  # language, content


def commands_in(block: str) -> list[list[str]]:
    """The words of each command in a block.

    Lines with optional words in brackets, and with other programs, are for readers only.
    """
    lines = re.sub(r" *\\\n *", " ", block).splitlines()
    plain = [part.partition(" > ")[0] for line in lines for part in line.split("&&")]
    whole = [line for line in plain if not set(line.partition("#")[0]) & set("[|&;>")]
    told = [re.split(" {2,}", line.strip())[0] for line in whole if "python -m" in line]
    each = [shlex.split(line, comments=True) for line in told]
    return [words for words in each if words[0] in {"mpirun", "python"}]


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = (commands_in(block) for language, block in BLOCK.findall(text) if not language)
    return [words for each in found for words in each]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.stem
)
def test_the_commands_in_the_docs_exist(page: Path) -> None:
    from crawler.arguments import make_parser
    from partition.options import make_parser as make_partition_parser

    parsers = {"crawler": make_parser(), "partition": make_partition_parser()}
    for words in commands(page):
        module, *rest = words[words.index("-m") + 1 :]
        if module in parsers:
            exact = [re.sub(r"^[KNR]$", "4", word.removesuffix("...")) for word in rest]
            with contextlib.suppress(SystemExit):  # --version ends the program
                parsers[module].parse_args(list(filter(None, exact)))


def test_there_are_commands_in_the_docs() -> None:
    assert len(commands(ROOT / "README.md")) >= 8
    assert len(commands(ROOT / "docs" / "tutorial.md")) >= 8


@pytest.fixture
def demo_web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serves a small web in the way that the tutorial says."""
    monkeypatch.chdir(tmp_path)
    (words,) = (one for one in commands(TUTORIAL) if "crawler.demo.web" in one)
    command = [sys.executable, *words[1:], "--pages", "400", "--sites", "24"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert "demo.toml crawls them" in server.stdout.readline()
        settings = Path("demo.toml").read_text()
        assert "delay_s = 0.3" in settings
        Path("demo.toml").write_text(settings.replace("delay_s = 0.3", "delay_s = 0"))
        yield
        server.terminate()


def follow(page: Path, mpirun: Any) -> None:
    """Run the commands and scripts of a page in their order, but not the server."""
    text = page.read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text):
        if language == "python":
            subprocess.run([sys.executable, "-c", block], check=True, timeout=PATIENCE_S)
        for words in commands_in(block) if not language else ():
            if "crawler.demo.web" not in words:
                done = run_command(words, mpirun)
                assert done.returncode == 0, (words, done.stderr)


def run_command(words: list[str], mpirun: Any) -> "subprocess.CompletedProcess[str]":
    told = [word.replace("127.0.0.1:8080", free_address()) for word in words]
    if told[0] == "mpirun":
        assert (told[1], told[3]) == ("-n", "python")
        return cast(
            "subprocess.CompletedProcess[str]", mpirun(int(told[2]), *told[4:], timeout=PATIENCE_S)
        )
    if told[2] == "crawler":
        return run_unverified(*told[3:])
    command = [sys.executable, *told[1:]]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_tutorial_can_be_followed(demo_web: None, mpirun: Any) -> None:
    follow(TUTORIAL, mpirun)
    first, second = metrics_of(Path("first")), metrics_of(Path("second"))
    assert first["complete"]
    assert first["pages"] == second["pages"] > 400
    assert second["messages_page_part"] < 0.8 * first["messages_page_part"]
    assert second["inter_part_urls"] < 0.8 * first["inter_part_urls"]


@pytest.mark.slow
def test_the_second_crawls_of_the_docs_can_be_followed(demo_web: None, mpirun: Any) -> None:
    Path("demo.toml").rename("web.toml")
    follow(ROOT / "docs" / "recrawl.md", mpirun)
    against = metrics_of(Path("2027-02"))["against"]
    assert against["changes"]["unchanged"] > 400
    assert metrics_of(Path("2027-02-again"))["by_status"].keys() <= {"200", "304"}


# --- links


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", head).strip().lower() for head in heads)
    return {re.sub(r"[-\s]+", "-", head) for head in plain}


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Also without mkdocs, which checks the site."""
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)\s]+))?\)", text):
        target = page.parent / path
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_each_page_has_a_place_in_the_navigation() -> None:
    named = re.findall(r"^ *- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert len(named) == len(set(named))
    assert set(named) == pages | {"architecture.md", "results.md", "changelog.md"}, "see mkdocs.yml"


# --- settings in the documentation


def test_the_settings_that_the_docs_name_exist() -> None:
    tables = {name: table for name, table in Config() if isinstance(table, Table)}
    known = {f"{name}.{key}" for name, table in tables.items() for key in table.all_keys}
    named = re.compile(rf"`(?:--set )?((?:{'|'.join(tables)})\.[a-z_]+)\b(?![./(])")
    found = set()
    for page in sorted((ROOT / "docs").glob("*.md")):
        mentions = set(named.findall(page.read_text(encoding="utf-8"))) - {"session.toml"}
        assert mentions <= known, (page.name, mentions - known)
        found |= mentions
    assert len(found) > 60


@pytest.mark.parametrize(("page", "table"), [("traps.md", "traps"), ("dynamic.md", "dynamic")])
def test_the_defaults_that_the_docs_name_are_those_of_the_code(page: str, table: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (rows,) = re.findall(r"^\| key \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)[:1]
    settings = getattr(Config(), table)
    checked = 0
    for row in rows.splitlines():
        names, default = row.split(" | ")[:2]
        keys = re.findall(r"\w+", names)
        shown = default.replace(",000", "000").replace(" GB", "0" * 9)
        told = [value.strip("` ") for value in shown.split(", ")]
        told = told * len(keys) if len(told) == 1 else told
        assert told == [toml_value(getattr(settings, key)).removesuffix(".0") for key in keys]
        checked += len(keys)
    assert checked >= 10


def test_the_messages_in_troubleshooting_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    section = text.partition("## It doesn't start")[2].partition("\n## ")[0]
    symptoms = re.findall(r"^\| ([^|]*`[^|]*) \|", section, re.MULTILINE)
    told = [one for symptom in symptoms for one in re.findall("`([^`]+)`", symptom)]
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "crawler").rglob("*.py"))
    said = re.sub(r"\"\s*f?\"", "", "".join(sources))  # texts in pieces become whole
    assert len(told) > 8
    for message in told:
        if message != "not enough slots":  # Open MPI says this
            for piece in filter(None, re.split(r" ?\.\.\.[: ]*", message)):
                assert piece in said, piece
