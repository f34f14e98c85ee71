"""What mypyc compiles, and what it makes of a simulated crawl: the same, to the last fetch."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Prints whether the core is compiled, and digests of what each crawl fetched, by whom and when.
CRAWLS = """
import random
from itertools import product
from zlib import crc32
import numpy as np
from crawler import config
from crawler.core import core
from crawler.core.schemes import make_scheme
from crawler.ports import Failure
from crawler.simulate import Simulation, Web

print(core.__file__.endswith(".so"))
dice = random.Random(7)
sites = [f"http://s{number}.example" for number in range(40)]
urls = [f"{dice.choice(sites)}/{number}" for number in range(1200)]
links = [(dice.randrange(1200), dice.randrange(1200)) for _ in range(5000)]
web = Web(urls, np.array(links))
shared = {f"s{number}.example": f"192.0.2.{number % 7}" for number in range(40)}

def trouble(url, time):
    return Failure.TIMEOUT if crc32(f"{url} {time}".encode()) % 9 == 0 else None

modes = "exchange", "firewall", "cross-over", "independent"
orders = "breadth-first", "backlinks", "pagerank", "opic", "depth-first", "random"
crawls = [
    (mode, [f"frontier.order={order}", f"politeness.per={per}"])
    for mode, order, per in product(modes, orders, ("site", "address"))
]
units = {"server": ("page", "site", "dset"), "own": ("site", "dset")}
for follow, granularity in [(follow, unit) for follow, some in units.items() for unit in some]:
    sets = [f"dynamic.follow={follow}", f"dynamic.granularity={granularity}"]
    crawls.append(("exchange", ["assignment.scheme=dynamic", *sets]))
for mode, sets in crawls:
    settings = config.load(None, sets, {"session": {"mode": mode}})
    scheme = make_scheme(settings, 5)
    addresses = shared if "politeness.per=address" in sets else None
    crawl = Simulation(web, settings, scheme, 5, seed=3, addresses=addresses, trouble=trouble)
    assert crawl.run(range(25))
    fetched = crawl.order, crawl.by, crawl.times, crawl.progress
    print(mode, *sets, crawl.pages, *(crc32(np.array(column).tobytes()) for column in fetched))
"""


def crawls_of(packages: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CRAWLS],
        env=os.environ | {"PYTHONPATH": str(packages)},
        cwd=packages,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_compiled_crawls_are_the_same(tmp_path: Path) -> None:
    source = tmp_path / "source"  # mypyc builds in place
    for name in ("crawler", "partition", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, source],
        env=os.environ | {"HATCH_BUILD_HOOKS_ENABLE": "1"},
        check=True,
    )
    [wheel] = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "packages")
    compiled, *found = crawls_of(tmp_path / "packages")
    interpreted, *wanted = crawls_of(ROOT)
    assert (compiled, interpreted) == ("True", "False")
    assert found == wanted
    assert len(set(wanted)) == 53


def compiled_modules() -> list[Path]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hooks = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    return [ROOT / name.removeprefix("/") for name in hooks["mypyc"]["include"]]


# Bases that aren't compiled. Nothing keeps weak references to the objects of their classes here.
SAFE_BASES = {"ABC", "Enum", "Exception", "Generic", "NamedTuple", "Protocol", "ValueError"}
SAFE_BASES |= {"Fetcher", "asyncio.Protocol"}


def test_no_compiled_class_is_weakly_referenced_by_its_base() -> None:
    """mypyc 2.4 frees weak references to an object twice if its class has an interpreted base."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in compiled_modules()}
    classes = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    compiled = {node.name for _, node in classes}
    others = {
        f"{path.name}: {node.name}({base})"
        for path, node in classes
        for base in (ast.unparse(each).partition("[")[0] for each in node.bases)
        if base not in SAFE_BASES | compiled
    }
    assert not others
