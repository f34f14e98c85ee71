"""Files of seeds as people keep them, and what is said of their mistakes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import config
from crawler.ports import UserError
from crawler.session import read_seeds

A, B = "http://a.example/1", "http://b.example/2"


def read(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    return read_seeds(config.load(values={"session": {"seeds_file": str(path)}}))


def mistake(path: Path, data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        read(path, data)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"session.seeds_file = {str(path)!r}: ")
    return message.partition(f"{str(path)!r}: ")[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "seeds.txt"


@pytest.mark.parametrize(
    "text",
    [
        f"{A}\n{B}\n",
        f"{A}\n{B}",
        f"{A}\r\n{B}\r\n",
        f"{A}\r{B}\r",
        f"\n  {A}  \n\n\t{B}\t\n\n",
        f"# mine\n{A} # the first\n{B}\t# the second\n  # an end",
        f"{A}#part\n{B}#\n",
        f"{A}\n{B}\n{A}\n",
        f"\ufeff{A}\n{B}\n",
        f"{A}\u200b\n\xa0{B}\xa0\n",
        f"HTTP://A.example:80/1\n{B}\n",
        f"http://me:pw@a.example/1\n{B}\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_files_of_seeds(file: Path, text: str, encoding: str) -> None:
    if encoding.startswith("utf-16-") and not text.startswith("\ufeff"):
        text = "\ufeff" + text
    assert read(file, text.encode(encoding)) == [A, B]


def test_a_remark_in_another_encoding_spoils_nothing(file: Path) -> None:
    assert read(file, b"# Z\xfcrich\n" + f"{A} # caf\xe9\n{B}".encode("latin-1")) == [A, B]


def test_letters_of_all_languages(file: Path) -> None:
    found = read(file, "http://b\xfccher.example/\xe9?\xe8\n".encode())
    assert found == ["http://xn--bcher-kva.example/%C3%A9?%C3%A8"]


def test_host_names(file: Path) -> None:
    assert read(file, b"a.example # mine\nwww.b.example/x\n") == [
        "//a.example/",
        "//www.b.example/x",
    ]


NEITHER = "neither a URL with http:// or https:// nor a host name like www.example.org"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"example", NEITHER),
        (b"a.exmaple/x", NEITHER),
        (b"index.html", NEITHER),
        (b"mailto:a.example", NEITHER),
        (b"ftp://a.example/", "not an http or https URL"),
        (b"http://", "not an http or https URL"),
        (b"http://a.example:99999/", "not an http or https URL"),
        (b"http://a.example/my page", "a blank in a URL; write %20, or # before a comment"),
        (b"http://a.example/\tMy page", "a blank in a URL; write %20, or # before a comment"),
        (b"http://a.example/\xe9", "not UTF-8"),
    ],
)
def test_lines_that_name_no_seed(file: Path, line: bytes, why: str) -> None:
    shown = ascii(line.decode("utf-8", "surrogateescape"))
    assert mistake(file, A.encode() + b"\n\n" + line + b" # x\n") == f"line 3: {shown}: {why}"


def test_all_wrong_lines_are_named_at_once(file: Path) -> None:
    found = mistake(file, f"{A}\nfoo\n# fine\n{B}\nbar # x\nftp://x/\n".encode())
    names = [part.partition(":")[0] for part in found.split("; ") if part.startswith("line ")]
    assert names == ["line 2", "line 5", "line 6"]
    lines = [A, *["wrong"] * 100, B, "wrong", A, "wrong"]
    assert mistake(file, "\n".join(lines).encode()).endswith(
        "; and 82 more lines: 22-101, 103, 105"
    )
    long = mistake(file, "\n".join(["x" * 10_000, B, *["wrong", A] * 10_000]).encode())
    assert len(long) < 3000


def test_a_login_in_a_wrong_line_isnt_shown(file: Path) -> None:
    assert "SECRET" not in mistake(file, b"http://me:SECRET@a.example:99999/\n")
    with pytest.raises(UserError) as caught:
        read_seeds(config.load(values={"session": {"seeds": ["ftp://me:SECRET@a.example/"]}}))
    assert "SECRET" not in str(caught.value)


def test_no_file_or_no_text(file: Path) -> None:
    for path in (file, file.parent):
        with pytest.raises(UserError, match=r"session\.seeds_file = .*one URL a line"):
            read_seeds(config.load(values={"session": {"seeds_file": str(path)}}))
    assert "one URL a line" in mistake(file, b"\xff\xfeh\x00t\x00t")  # half a UTF-16 letter


@given(st.binary(max_size=200))
def test_any_bytes_give_seeds_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    message = ""
    try:
        assert all(seed.startswith(("http", "//")) for seed in read(path, data))
    except UserError as error:
        message = str(error)
    assert message == "" or message.isprintable()
