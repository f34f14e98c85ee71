"""A site is a host, whatever the scheme; and what earlier versions wrote goes on being used."""

import json
import random
import shutil
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crawls import assert_sound, metrics_of, page_rows, run_here, sets
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer
from xxhash import xxh3_64

from crawler import config, session, url
from crawler.core.schemes import Hierarchical, SiteHash
from crawler.reading.scope import Scope, Sites
from partition import graph, importers, planning
from partition.partvector import PartVector, PartVectorError

INSTANCES = Path(__file__).parent / "instances"
OLD_SESSION, OLD_VECTOR = INSTANCES / "old-session", INSTANCES / "old.parts"
SITES = Sites("authority")
DOMAINS = Sites("domain")

hosts = st.one_of(
    st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), min_size=1, max_size=4).map(
        ".".join
    ),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
)
ports = st.one_of(st.just(""), st.integers(1, 65535).map(lambda port: f":{port}"))


@pytest.mark.parametrize(
    ("address", "site", "host"),
    [
        ("http://www.example.org/a?b=//c", "www.example.org", "www.example.org"),
        ("https://www.example.org/", "www.example.org", "www.example.org"),
        ("HTTP://WWW.example.ORG:80/", "www.example.org", "www.example.org"),
        ("https://www.example.org:443", "www.example.org", "www.example.org"),
        ("http://www.example.org:443/", "www.example.org", "www.example.org"),  # the same server
        ("https://www.example.org:80/", "www.example.org", "www.example.org"),
        ("http://www.example.org:8080/", "www.example.org:8080", "www.example.org"),
        ("https://www.example.org:8080/", "www.example.org:8080", "www.example.org"),
        ("https://www.example.org:8443/", "www.example.org:8443", "www.example.org"),
        ("http://www.example.org:8443/", "www.example.org:8443", "www.example.org"),
        ("http://h:1443/", "h:1443", "h"),
        ("http://www.example.org./", "www.example.org", "www.example.org"),
        ("http://www.example.org.:8080/", "www.example.org:8080", "www.example.org"),
        ("https://www.example.org.:80/", "www.example.org", "www.example.org"),
        ("http://me:secret@www.example.org/", "www.example.org", "www.example.org"),
        ("https://me:80@www.example.org:81/", "www.example.org:81", "www.example.org"),
        ("http://[2001:DB8::80]/", "[2001:db8::80]", "2001:db8::80"),
        ("https://[::1]:443/", "[::1]", "::1"),
        ("http://[::1]:443/", "[::1]", "::1"),
        ("http://[::1]:8080/", "[::1]:8080", "::1"),
        ("http://127.1:81/", "127.0.0.1:81", "127.0.0.1"),
        ("http://bücher.example/", "xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_the_site_of_a_url(address: str, site: str, host: str) -> None:
    assert SITES.of(url.normalise(address)) == site
    assert url.host_of_site(site) == host


@given(hosts, ports, st.sampled_from(["", "/", "/a//b:80", "/?q=http://x:81/"]))
def test_both_schemes_of_a_host_and_port_are_one_site(host: str, port: str, rest: str) -> None:
    plain, safe = (url.normalise(f"{scheme}://{host}{port}{rest}") for scheme in ("http", "https"))
    assert SITES.of(plain) == SITES.of(safe)
    assert "//" not in SITES.of(plain)
    assert url.host_of_site(SITES.of(plain)) == url.host(plain)
    assert DOMAINS.of(plain) == DOMAINS.of(safe)


@given(hosts, ports, st.sampled_from(["http", "https"]))
def test_an_old_name_of_a_site_leads_to_the_new_one(host: str, port: str, scheme: str) -> None:
    old = url.authority(url.normalise(f"{scheme}://{host}{port}/"))
    site = url.renamed_site(old)
    assert site == SITES.of(old + "/") == url.renamed_site(site)
    assert old in url.old_site_names(site)


@pytest.mark.parametrize("name", ["web", "uk/x", "2001:db8::1", "", "a b", "http://", "https:///x"])
def test_other_names_stay(name: str) -> None:
    assert url.renamed_site(name) == name


def test_what_has_no_host_has_no_site() -> None:
    for text in ("", "web", "a/b/c/d", "http://", "//h/"):
        with pytest.raises(ValueError, match="no host"):
            url.site(text)


def test_owners_and_scope_know_no_scheme() -> None:
    both = [SITES.of(f"{scheme}://www.ac.uk:81/") for scheme in ("http", "https")]
    for scheme in (SiteHash(64), Hierarchical({"uk": 3, "ac.uk": 5}, 7)):
        assert scheme.part(0, both[0]) == scheme.part(1, both[1])
    scope = Scope(config.Scope(), SITES, ["http://a.example/"])
    assert scope.judge("https://a.example/x").allowed
    assert scope.judge("http://a.example:443/x").allowed
    assert not scope.judge("https://a.example:8443/x").allowed
    old = Scope(config.Scope(), SITES, ["http://a.example/"], by_scheme=True)
    assert old.judge("http://a.example/x").allowed
    assert not old.judge("https://a.example/x").allowed


# --- what earlier versions wrote --------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "part"),
    [
        ("a.example", 1),  # http:// in 0, https:// in 1
        ("b.example", 2),
        ("c.example:8443", 3),
        ("[::1]:8080", 3),
        ("d.example", 2),  # http://d.example:443
        ("e.example", 3),
        ("c.example", None),
        ("f.example", None),
    ],
)
def test_an_old_part_vector_is_asked_for_new_names(site: str, part: int | None) -> None:
    assert PartVector.open(OLD_VECTOR).site_part(site) == part


def forged(content: bytes, seed: int) -> bytes:
    """An old part vector with random bytes in its trie of sites, and the checksum that fits."""
    dice, forged = random.Random(seed), bytearray(content)
    (length,) = struct.unpack_from("<I", content, 12)
    offset, size = json.loads(content[32 : 32 + length])["sections"]["sites"]
    for _ in range(dice.choice([1, 2, 8])):
        value = dice.choice([255, dice.randrange(256)])
        forged[32 + length + offset + dice.randrange(16, size)] = value
    checksum = xxh3_64(bytes(forged[:24]))
    checksum.update(bytes(forged[32:]))
    forged[24:32] = struct.pack("<Q", checksum.intdigest())
    return bytes(forged)


@pytest.mark.parametrize("seed", [8, 35])  # these crash who reads the trie
def test_a_forged_trie_is_refused(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "forged.parts"
    path.write_bytes(forged(OLD_VECTOR.read_bytes(), seed))
    with pytest.raises(PartVectorError, match="damaged, sites: isn't an intact trie"):
        PartVector.open(path)


def test_an_old_part_vector_keeps_its_pages_and_directories() -> None:
    vector = PartVector.open(OLD_VECTOR)
    for text, part in {
        "https://a.example/1": 2,
        "http://a.example/1": 1,
        "http://b.example/5": 1,
        "http://b.example/docs/new": 3,
        "https://b.example/docs/new": 2,
    }.items():
        assert vector.part_of_url(text, url.key(text), url.site(text)) == part
    assert vector.replicated == ("http://a.example/",)


def test_an_old_session_is_sound(tmp_path: Path) -> None:
    copy = shutil.copytree(OLD_SESSION, tmp_path / "old")
    assert_sound(copy)
    assert run_here("report", str(copy)).returncode == 0
    assert_sound(copy)  # with the tables made anew
    sites = pq.read_table(copy / "tables" / "sites")["site"].to_pylist()
    assert sites == ["a.example", "b.example"]
    assert {row["site"] for row in page_rows(copy)} == set(sites)


def test_an_old_session_has_damaged_tables_found(tmp_path: Path) -> None:
    copy = shutil.copytree(OLD_SESSION, tmp_path / "old")
    path = copy / "tables" / "sites.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    verdict = run_here("verify", str(copy))
    assert verdict.returncode == 1
    assert "sites.parquet" in verdict.stdout + verdict.stderr


def test_the_graph_of_an_old_session_has_the_new_sites() -> None:
    web = graph.read([OLD_SESSION])
    assert web.sites == ("a.example", "b.example")
    assert graph.addresses(OLD_SESSION) == dict.fromkeys(web.sites, "127.0.0.1")
    plan = planning.plan(web, "site-graph", 2)
    assert len(set(plan.part[web.site == 0])) == 1
    followed = planning.follow(web, PartVector.open(OLD_VECTOR))
    assert set(followed.part.tolist()) <= {1, 2, 3}


def test_an_old_graph_has_the_new_sites(tmp_path: Path) -> None:
    names = ["http://a.example", "https://a.example", "web", "http://b.example:81"]
    pages = pa.table({"id": [0, 1, 2, 3], "site": names})
    importers.write(tmp_path / "out", pages, np.array([0]), np.array([1]))
    assert graph.read([tmp_path / "out"]).sites == ("a.example", "b.example:81", "web")
    links = tmp_path / "out" / "links.parquet"
    importers.run(
        "parquet",
        [],
        tmp_path / "again",
        pages=tmp_path / "out" / "pages.parquet",
        links=links,
        say=print,
    )
    sites = pq.read_table(tmp_path / "again" / "pages.parquet")["site"].to_pylist()
    assert sites == ["a.example", "a.example", "web", "b.example:81"]


@pytest.mark.parametrize("vector", [None, pytest.param(OLD_VECTOR, marks=pytest.mark.slow)])
def test_an_old_session_goes_on(tmp_path: Path, vector: Path | None) -> None:
    """What waited by http is fetched, what waited by https fails here, and nothing is asked twice.

    The old scope knew both schemes of its seeds only because both were seeds.
    """
    copy = shutil.copytree(OLD_SESSION, tmp_path / "old")
    before = {row["url"] for row in page_rows(copy)}
    body = Page(b"<p>end</p>", 200, {"Content-Type": "text/html"})
    answers: dict[str, Page | bytes] = {f"/{n}": body for n in range(20)}
    answers |= {f"/docs/{n}": body for n in range(20)}
    with PageServer(answers) as server:
        known = ", ".join(f'"{host}.example" = "127.0.0.1:{server.port}"' for host in "ab")
        settings = sets(
            "session.max_pages=0",
            f"dns.hosts={{{known}}}",
            "retry.tries=1",
            "politeness.delay_s=0",
        )
        if vector is not None:
            settings += sets("assignment.scheme=part-vector", f"assignment.part_vector={vector}")
        done = run_here("resume", str(copy), *settings)
    assert done.returncode == 0, done.stderr
    rows = page_rows(copy)
    assert len({row["url"] for row in rows}) == len(rows)
    assert before < {row["url"] for row in rows}
    assert {row["site"] for row in rows} <= {"a.example", "b.example"}
    assert {row["url"][:5] for row in rows if row["url"] not in before and row["status"]} == {
        "http:"
    }
    metrics = metrics_of(copy)
    assert metrics["complete"]
    assert metrics["messages_site_part"] is None  # counted by sites of both kinds
    runs = session.load(copy).runs
    assert [run.site_names for run in runs] == [None, 2]
    assert json.loads((copy / "report" / "metrics.json").read_text())["runs"] == 2
