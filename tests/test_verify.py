"""Verification finds whatever is wrong with a session, and nothing where nothing is."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from crawls import crawl_here, sets
from isal import isal_zlib
from servers import Page, PageServer
from tabled import write_tables
from test_redirects import Site, moved
from test_redirects import page as answer_with

from crawler import session, url
from crawler.__main__ import main
from crawler.ports import OUT_OF_SCOPE, Link, UserError
from crawler.report.verify import Verdict, verify
from crawler.session import LoggedPage, read_records
from crawler.session.cdxj import index_path
from crawler.session.log import LogWriter
from crawler.session.warc import warc_files

HTML = {"Content-Type": "text/html"}
TEXT = b"the same on two pages"


def html(*paths: str) -> Page:
    return Page(b"".join(b"<a href=%b>x</a>" % path.encode() for path in paths), headers=HTML)


# /a and /b have the same bytes, /gone is a 404, /d hangs on /c alone.
WEB = {
    "/": html("/a", "/b", "/c", "/gone", "http://elsewhere.example/"),
    "/a": Page(TEXT, headers=HTML),
    "/b": Page(TEXT, headers=HTML),
    "/c": html("/d"),
    "/d": Page(b"d", headers=HTML),
}
ROWS = 6


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("verify") / "session"
    with PageServer(WEB) as server:
        done = crawl_here(directory, f"{server.url}/", *sets("politeness.delay_s=0"))
    assert done.returncode == 0, done.stderr
    return directory, server.url


@pytest.fixture
def damaged(crawled: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(crawled[0], tmp_path / "session"))


def log_of(directory: Path) -> Path:
    return directory / "rank-00000" / "log" / "00000.log"


def entries_of(directory: Path) -> list[LoggedPage]:
    entries = list(session.read_log(log_of(directory)))
    assert all(isinstance(entry, LoggedPage) for entry in entries)
    return [entry for entry in entries if isinstance(entry, LoggedPage)]


def rewrite(directory: Path, change: Callable[[list[LoggedPage]], Sequence[LoggedPage]]) -> None:
    """Replace the log by another one that is whole as far as its sums go, and remake the tables."""
    pages = change(entries_of(directory))
    log_of(directory).unlink()
    writer = LogWriter(log_of(directory).parent)
    for page in pages:
        writer.write([writer.frame(page.row, links_of(page), page.chain, page.sitemaps_of)])
    writer.close()
    write_tables(directory)


def test_urls_with_the_same_key_are_named(damaged: Path, crawled: tuple[Path, str]) -> None:
    """The hash is replaced by one that gives two URLs one key."""
    home, hashed = crawled[1], url.key
    assert not verify(damaged).notes

    def key(text: str) -> int:
        return hashed(f"{home}/a" if text == f"{home}/b" else text)

    def rekeyed(pages: list[LoggedPage]) -> list[LoggedPage]:
        return [
            msgspec.structs.replace(
                page,
                row=msgspec.structs.replace(page.row, key=key(page.row.url)),
                packed_keys=b"".join(key(text).to_bytes(8, "little") for text in page.urls),
            )
            for page in pages
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(url, "key", key)
        rewrite(damaged, rekeyed)
        notes = verify(damaged).notes
    both = f"{home}/a and {home}/b: have the key {key(f'{home}/a'):016x}"
    assert notes == [f"{both}, so at most one of them was fetched"]


def links_of(page: LoggedPage) -> list[Link]:
    links = zip(page.keys.tolist(), page.urls, page.flags, strict=True)
    return [Link(key, text, "", flags) for key, text, flags in links]


def at(pages: Sequence[LoggedPage], path: str) -> int:
    return next(number for number, page in enumerate(pages) if page.row.url.endswith(path))


def found(verdict: Verdict) -> str:
    assert not verdict.sound
    return "\n".join(verdict.lines)


def test_a_crawl_is_sound(crawled: tuple[Path, str]) -> None:
    verdict = verify(crawled[0])
    assert verdict.sound, verdict.lines
    assert (verdict.pages, verdict.links, verdict.warc_records) == (ROWS, 6, 1 + 2 * ROWS)
    assert (verdict.complete, verdict.pending, verdict.kept_out, verdict.notes) == (True, 0, 0, [])


def test_every_flipped_byte_of_a_record_is_found(damaged: Path) -> None:
    """One byte in each gzip member, of its data or of its sums."""
    (path,) = warc_files(damaged / "rank-00000")
    whole = path.read_bytes()
    starts = [record.offset for record in read_records(path)]
    assert len(starts) == 1 + 2 * ROWS
    for start, end in zip(starts, [*starts[1:], len(whole)], strict=True):
        for place in (start, (start + end) // 2, end - 5):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            verdict = verify(damaged)
            assert verdict.problems.keys() == {"warc"}, (place, verdict.lines)
            assert f"at {start:,}: " in found(verdict)


def test_a_record_with_a_good_sum_and_other_bytes_is_found(damaged: Path) -> None:
    (path,) = warc_files(damaged / "rank-00000")
    records = list(read_records(path))
    target = next(r for r in records if isinstance(r, session.Record) and r.payload == b"d")
    whole = path.read_bytes()
    end = next(record.offset for record in records if record.offset > target.offset)
    member = isal_zlib.decompressobj(31).decompress(whole[target.offset : end])
    forged = isal_zlib.compress(member.replace(b"\r\n\r\nd\r\n", b"\r\n\r\nD\r\n"), 1, 31)
    path.write_bytes(whole[: target.offset] + forged + whole[end:])
    assert "WARC-Payload-Digest isn't the digest of the payload" in found(verify(damaged))


def test_a_warc_file_that_is_gone_or_cut_is_found(damaged: Path) -> None:
    (path,) = warc_files(damaged / "rank-00000")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 3)
    verdict = verify(damaged)
    assert verdict.problems == {"warc": 1}
    assert "the file ends in this record" in found(verdict)
    path.unlink()
    assert f"is missing, but {ROWS} rows refer to this file" in found(verify(damaged))


def test_a_request_again_that_is_missing_or_came_from_nowhere_is_found(tmp_path: Path) -> None:
    """Of a page that is asked again with the cookie of its login page."""

    def answer(path: str, cookie: str) -> bytes:
        if path == "/login":
            return moved("/", "ok=1")
        return answer_with("inside") if cookie else moved("/login")

    with Site(answer).server as server:
        done = crawl_here(
            tmp_path / "s", server.url, *sets("politeness.delay_s=0", "robots.obey=false")
        )
    assert done.returncode == 0, done.stderr
    seed = server.url
    for number, said in (
        (2, f"{seed}: was never asked again, though {seed}login leads there"),
        (1, f"{seed}: has a row, but nothing leads there"),
    ):
        damaged = Path(shutil.copytree(tmp_path / "s", tmp_path / f"without-{number}"))
        rewrite(damaged, lambda pages, number=number: pages[:number] + pages[number + 1 :])
        assert said in found(verify(damaged))


def test_a_dropped_row_is_found_from_both_sides(damaged: Path) -> None:
    def drop(pages: list[LoggedPage]) -> list[LoggedPage]:
        return [page for page in pages if not page.row.url.endswith("/a")]

    rewrite(damaged, drop)
    verdict = verify(damaged)
    # Nobody fetched /a, though / leads there; its record has no row; /b is a revisit of it.
    assert verdict.problems == {"warc": 1, "link": 1}
    assert "/a: was never asked for" in found(verdict)
    assert "have no row" in found(verdict)


def test_a_row_twice_is_found(damaged: Path) -> None:
    rewrite(damaged, lambda pages: [*pages, pages[at(pages, "/d")]])
    verdict = verify(damaged)
    assert verdict.problems == {"warc": 1, "twice": 2}
    assert "/d: has more than one row" in found(verdict)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://127.0.0.1/"}, "the row's key isn't the key of its URL"),
        ({"site": "b.example"}, "the site of the URL isn't b.example"),
        ({"rank": 1}, "the row is of rank 1"),
        ({"part": 7}, "the row is of part 7, but there are 1"),
        ({"status": 404}, "the status in its record isn't 404"),
        ({"bytes": 5}, "its record has 1 bytes, the row 5"),
        ({"digest": "sha1:AAAA"}, "the row sha1:AAAA"),
        ({"time": 1.8e9}, "its record has the date 20"),
        ({"duplicate": True}, "its record is a response"),
        ({"warc_offset": 1}, "no record begins here"),
        ({"warc_offset": None, "warc_file": None}, "the response wasn't stored"),
        ({"status": None}, "the row has neither a status nor an error"),
    ],
)
def test_a_changed_row_is_found(damaged: Path, change: dict[str, object], said: str) -> None:
    def alter(pages: list[LoggedPage]) -> list[LoggedPage]:
        number = at(pages, "/d")
        row = msgspec.structs.replace(pages[number].row, **change)
        pages[number] = msgspec.structs.replace(pages[number], row=row)
        return pages

    rewrite(damaged, alter)
    assert said in found(verify(damaged))


def test_a_cut_link_is_found(damaged: Path) -> None:
    def cut(pages: list[LoggedPage]) -> list[LoggedPage]:
        number = at(pages, "/c")
        pages[number] = msgspec.structs.replace(
            pages[number], packed_keys=b"", flags=b"", packed_urls=b"", compressed=False
        )
        return pages

    rewrite(damaged, cut)
    verdict = verify(damaged)
    assert verdict.problems == {"link": 1}
    assert "/d: has a row, but nothing leads there" in found(verdict)


def test_a_link_with_another_key_is_found(damaged: Path) -> None:
    def turn(pages: list[LoggedPage]) -> list[LoggedPage]:
        number = at(pages, "/c")
        pages[number] = msgspec.structs.replace(pages[number], packed_keys=pages[0].packed_keys[:8])
        return pages

    rewrite(damaged, turn)
    assert "the keys of its links aren't those of their URLs" in found(verify(damaged))


def test_a_link_into_the_scope_that_nobody_followed_is_found(damaged: Path) -> None:
    def unflag(pages: list[LoggedPage]) -> list[LoggedPage]:
        flags = bytes(flag & ~OUT_OF_SCOPE for flag in pages[0].flags)
        return [msgspec.structs.replace(pages[0], flags=flags), *pages[1:]]

    rewrite(damaged, unflag)
    assert "http://elsewhere.example/: was never asked for" in found(verify(damaged))


@pytest.mark.parametrize("place", [0.0, 0.3, 0.7])
def test_a_flipped_byte_of_a_log_is_found(damaged: Path, place: float) -> None:
    whole = bytearray(log_of(damaged).read_bytes())
    whole[int(place * len(whole))] ^= 1
    log_of(damaged).write_bytes(whole)
    assert "damaged at" in found(verify(damaged))


def test_a_torn_tail_is_damage_only_where_nobody_was_killed(damaged: Path) -> None:
    with log_of(damaged).open("r+b") as file:
        file.truncate(log_of(damaged).stat().st_size - 3)
    assert "but no run was killed" in found(verify(damaged))

    (warc,) = warc_files(damaged / "rank-00000")
    with warc.open("r+b") as file:
        file.truncate(warc.stat().st_size - 3)
    forget_the_end(damaged)
    verdict = verify(damaged)
    assert verdict.sound, verdict.lines
    assert (verdict.complete, verdict.pages, verdict.pending) == (False, ROWS - 1, 1)
    assert sum("torn tail" in note for note in verdict.notes) == 2
    assert sum("a response without a row" in note for note in verdict.notes) == 1


def test_a_rank_that_is_lost_may_leave_a_response_without_a_row(damaged: Path) -> None:
    """Though the others have completed the run."""
    (warc,) = warc_files(damaged / "rank-00000")
    index_path(warc).unlink()  # written when the file is closed
    last = max(page.row.warc_offset or 0 for page in entries_of(damaged))
    with warc.open("r+b") as file:
        file.seek(last)
        again = file.read()
        file.write(again)
    assert "1 responses have no row" in found(verify(damaged))
    info = damaged / "session.toml"
    info.write_text(info.read_text().replace("reason =", "lost = 1\nreason ="))
    verdict = verify(damaged)
    assert verdict.sound, verdict.lines
    assert sum("a response without a row" in note for note in verdict.notes) == 1


def forget_the_end(directory: Path) -> None:
    """As if the crawl had been killed."""
    path = directory / "session.toml"
    ends = ("ended = ", "complete = ", "reason = ")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith(ends)) + "\n")


def test_other_tables_than_the_logs_give_are_found(damaged: Path) -> None:
    for name, column in (("pages", "hops"), ("links", "flags"), ("sites", "pages")):
        path = damaged / "tables" / name / "00000.parquet"
        whole, table = path.read_bytes(), pq.read_table(path)
        more = pc.add(table[column], 1).cast(table.schema.field(column).type)
        place = table.schema.get_field_index(column)
        pq.write_table(table.set_column(place, table.schema.field(column), more), path)
        assert f"{name}/00000.parquet, from row 0: {column} of row +0 is" in found(verify(damaged))
        pq.write_table(table.slice(1), path)
        assert f"{name}/00000.parquet, from row 0: " in found(verify(damaged))
        path.write_bytes(whole[:-9])
        assert f"{name}/00000.parquet: " in found(verify(damaged))
        path.unlink()
        assert f"{name}/00000.parquet: " in found(verify(damaged))
        path.write_bytes(whole)
    assert verify(damaged).sound


def test_a_lost_seed_is_found(damaged: Path) -> None:
    seeds = damaged / "seeds.txt"
    other = f"{seeds.read_text().strip()}other\n"
    seeds.write_text(seeds.read_text() + other)
    assert "other: was never asked for, though it is a seed" in found(verify(damaged))


# --- what no row need lead to


def test_what_a_trap_kept_out_is_no_damage(tmp_path: Path) -> None:
    pages = {"/": html(*(f"/q?n={n}" for n in range(9)))}
    with PageServer(pages) as server:
        words = sets("politeness.delay_s=0", "traps.max_queries_per_path=4")
        assert crawl_here(tmp_path / "s", f"{server.url}/", *words).returncode == 0
    verdict = verify(tmp_path / "s")
    assert (verdict.sound, verdict.pages, verdict.kept_out) == (True, 5, 5)


def test_what_is_beyond_the_last_hop_is_no_damage(tmp_path: Path) -> None:
    with PageServer(WEB) as server:
        words = sets("politeness.delay_s=0", "scope.max_hops=1")
        assert crawl_here(tmp_path / "s", f"{server.url}/", *words).returncode == 0
    verdict = verify(tmp_path / "s")
    assert (verdict.sound, verdict.pages, verdict.kept_out) == (True, ROWS - 1, 0)


def test_what_is_left_of_an_unfinished_crawl_is_pending(tmp_path: Path) -> None:
    with PageServer(WEB) as server:
        words = [*sets("politeness.delay_s=0"), "--max-pages", "1"]
        crawl_here(tmp_path / "s", f"{server.url}/", *words)
    verdict = verify(tmp_path / "s")
    assert (verdict.sound, verdict.complete, verdict.pages) == (True, False, 1)
    assert verdict.pending == 4


# --- the command


def test_the_command(
    crawled: tuple[Path, str], damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(crawled[0])]) == 0
    assert capsys.readouterr().out.endswith("complete; sound\n")

    rewrite(damaged, lambda pages: pages * 30)
    assert main(["verify", str(damaged)]) == 1
    output = capsys.readouterr().out
    assert "\ntwice: 160 more\n" in output
    assert len(output.splitlines()) < 50
    assert main(["verify", str(damaged), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"]["twice"] == ROWS * 30

    assert main(["verify", str(damaged / "tables")]) == 2
    assert "name the directory of a session" in capsys.readouterr().err


def test_a_session_that_is_crawled_is_left_alone(damaged: Path) -> None:
    writer = LogWriter(log_of(damaged).parent)
    with pytest.raises(UserError, match="is being crawled"):
        verify(damaged)
    writer.close()
    assert verify(damaged).sound
