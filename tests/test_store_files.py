"""Files of stores: whole or not there, and never believed if a byte of them is wrong."""

from pathlib import Path

import pytest

from crawler.stores.files import DamagedStoreError, Kind, reading, writing

KIND = Kind(b"test", 3)


def write(path: Path, *pieces: bytes) -> None:
    with writing(path, KIND) as file:
        for piece in pieces:
            file.write(piece)


def test_a_file_gives_back_its_content(tmp_path: Path) -> None:
    for content in (b"", b"abc", bytes(5 << 20)):
        write(tmp_path / "file", content, b"end")
        assert b"".join(reading(tmp_path / "file", KIND)) == content + b"end"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_appears_only_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write(tmp_path / "file", b"new", "no bytes")  # type: ignore[arg-type]
    assert list(reading(tmp_path / "file", KIND)) == [b"old"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_torn_or_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"content")
    whole = path.read_bytes()
    wrong = [whole[:size] for size in range(len(whole))] + [whole + b"\0"]
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        wrong.append(bytes(flipped))
    for content in wrong:
        path.write_bytes(content)
        with pytest.raises(DamagedStoreError, match=r"file: .*; the store must be rebuilt"):
            list(reading(path, KIND))


def test_a_file_of_another_kind_or_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "file", b"content")
    for kind in (Kind(b"else", 3), Kind(b"test", 4)):
        with pytest.raises(DamagedStoreError, match="not a whole file of the kind"):
            list(reading(tmp_path / "file", kind))
    with pytest.raises(DamagedStoreError, match="No such file"):
        list(reading(tmp_path / "missing", KIND))
