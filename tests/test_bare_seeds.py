"""Seeds without a scheme: what counts as a host name, and https first, then http."""

import json
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import assert_sound, crawl_here, metrics_of, page_rows, run_unverified, sets
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer, RawServer

from crawler import config, session, url
from crawler.session import parse_seed

HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        ("example.org", "//example.org/"),
        ("WWW.Example.org/a/../b?c#d", "//www.example.org/b?c"),
        ("example.org:8080/x", "//example.org:8080/x"),
        ("example.org:443", "//example.org/"),
        ("example.org:80/x", "http://example.org/x"),
        ("example.org?q", "//example.org/?q"),
        ("b\xfccher.example", "//xn--bcher-kva.example/"),
        ("a.co.uk.", "//a.co.uk./"),
        ("localhost:8080", "//localhost:8080/"),
        ("10.0.0.1", "//10.0.0.1/"),
        ("[::1]:81/x", "//[::1]:81/x"),
        ("http://example.org", "http://example.org/"),
        ("https://index", "https://index/"),
    ],
)
def test_what_a_seed_may_look_like(text: str, seed: str) -> None:
    assert parse_seed(text) == seed == parse_seed(seed)
    assert url.of_seed(seed) == url.normalise(seed if "://" in seed else f"https:{seed}")


@pytest.mark.parametrize(
    "text",
    [
        "", "example", "index.html", "seeds.txt", "crawl.tml", "a.exmaple", "1.2", "0x7f.1", "1234",
        "mailto:a.example", "me:pw@a.example", "me@a.example", "/a.example", "///a.example",
        "a.example:99999", "a.example:x", "htp://a.example", "test", "[::1", "a..example",
    ],
)  # fmt: skip
def test_other_texts_are_no_seeds(text: str) -> None:
    with pytest.raises(url.BadUrlError):
        parse_seed(text)


@given(st.text(max_size=30))
def test_any_text_is_a_seed_or_an_error(text: str) -> None:
    try:
        seed = parse_seed(text)
    except url.BadUrlError:
        return
    assert url.normalise(url.of_seed(seed)) == url.of_seed(seed)


def test_folding_keeps_a_seed_without_a_scheme() -> None:
    settings = config.load(
        values={"session": {"seeds": ["www.a.example/x/"]}, "normalise": {"fold_www": True}}
    )
    assert session.read_seeds(settings) == ["//a.example/x/"]


def polite(*more: str) -> list[str]:
    return sets("politeness.delay_s=0", "retry.base_s=0.01", "retry.tries=1", *more)


def rows(directory: Path) -> dict[str, tuple[int | None, str | None, int]]:
    return {row["url"]: (row["status"], row["error"], row["hops"]) for row in page_rows(directory)}


def test_a_host_without_https_is_asked_by_http(tmp_path: Path) -> None:
    pages = {"/x": Page(b"<a href=/y>", headers=HTML), "/y": Page(b"", headers=HTML)}
    with PageServer(pages) as server:
        place = f"127.0.0.1:{server.port}"
        done = crawl_here(tmp_path / "s", f"{place}/x", *polite("scope.max_hops=1"))
        assert done.returncode == 0, done.stderr
        again = crawl_here(tmp_path / "t", f"https://{place}/x", *polite())
        assert again.returncode == 1  # who asks for https gets nothing else
    assert rows(tmp_path / "s") == {
        f"https://{place}/x": (None, "tls", 0),
        f"http://{place}/x": (200, None, 0),
        f"http://{place}/y": (200, None, 1),
    }
    assert (tmp_path / "s" / "seeds.txt").read_text() == f"//{place}/x\n"
    assert f"seed https://{place}/x: tls; http://{place}/x is asked for instead" in done.stderr
    assert metrics_of(tmp_path / "s")["seeds_failed"] == 0


def test_a_host_with_https_is_asked_by_nothing_else(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    with RawServer(answer, tls=True) as server:
        place = f"127.0.0.1:{server.port}"
        done = crawl_here(tmp_path / "s", place, *polite("fetch.verify_tls=false"))
        assert done.returncode == 1
    assert rows(tmp_path / "s") == {f"https://{place}/": (404, None, 0)}


def test_a_resume_goes_on_by_http(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    with PageServer({"/": Page(b"", headers=HTML)}) as server:
        places = [f"127.0.0.1:{server.port}", f"localhost:{server.port}"]
        seeds = tmp_path / "seeds"
        seeds.write_text("\n".join(places))
        words = [*polite("retry.give_up_after=0"), "--max-pages=1"]
        done = crawl_here(directory, "-i", str(seeds), *words)
        assert done.returncode == 0, done.stderr
        assert len(rows(directory)) == 3
        for path in directory.glob("rank-*/snapshot"):
            path.rename(path.with_name("no-snapshot"))
        done = run_unverified("resume", str(directory), "--max-pages=0")
        assert done.returncode == 0, done.stderr
    assert_sound(directory)
    assert [row[0] for row in rows(directory).values()].count(200) == 2
    assert len(rows(directory)) == 4


@pytest.mark.parametrize(
    "assignment", [pytest.param("url-hash", marks=pytest.mark.slow), "dynamic"]
)
def test_all_ranks_turn_to_http(tmp_path: Path, mpirun: MpiRun, assignment: str) -> None:
    names = [f"h{number}.test" for number in range(4)]
    with PageServer({"/": Page(b"", headers=HTML)}) as server:
        hosts = ", ".join(f'"{name}" = "127.0.0.1:{server.port}"' for name in names)
        words = polite(
            f"assignment.scheme={assignment}",
            f"dns.hosts={{{hosts}}}",
            "fetch.allow_private_addresses=true",
        )
        place = ["--session", str(tmp_path / "s")]
        done = mpirun(3, "-m", "crawler", "crawl", *names, *place, *words)
        assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "s") == {
        **{f"https://{name}/": (None, "tls", 0) for name in names},
        **{f"http://{name}/": (200, None, 0) for name in names},
    }
    assert_sound(tmp_path / "s")


def test_fetch_and_explain_know_host_names_too() -> None:
    with PageServer({"/": b"x"}) as server:
        place = f"127.0.0.1:{server.port}"
        allowed = sets("fetch.allow_private_addresses=true")
        fetched = json.loads(run_unverified("fetch", place, "--json", *allowed).stdout)
        told = json.loads(run_unverified("explain", place, "--json", "--offline").stdout)
    assert fetched["status"] == 200
    assert told["normalised"] == f"https://{place}/"
    assert told["scope"]["allowed"]
