"""The rank's log and rank 0's words."""

import json
import logging
from pathlib import Path

import pytest

from crawler.agent.progress import Board, RankLog
from crawler.messages import Note


def test_the_log_is_one_json_object_a_line(tmp_path: Path) -> None:
    log = RankLog(tmp_path / "agent.log", 3)
    logger = logging.getLogger("crawler")
    logger.info("started", extra={"about": {"ranks": 4}})
    logger.warning("evil\n\x1b[2J name")
    logger.error("failed", exc_info=ValueError("lost"))
    assert log.take_warnings() == ["rank 3: evil\n\x1b[2J name", "rank 3: failed"]
    assert log.take_warnings() == []
    log.close()
    logger.warning("too late")
    started, evil, failed = map(json.loads, (tmp_path / "agent.log").read_text().splitlines())
    assert (started["event"], started["ranks"], started["rank"]) == ("started", 4, 3)
    assert (evil["level"], evil["event"]) == ("WARNING", "evil\n\x1b[2J name")
    assert "ValueError: lost" in failed["traceback"]


def test_a_log_that_can_not_be_opened_is_not_closed_at_exit(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as kept:
        RankLog(tmp_path, 0)
    at_exit = [reference() for reference in logging._handlerList]  # type: ignore[attr-defined]
    assert not any(isinstance(handler, RankLog) for handler in at_exit)
    assert kept.tb  # what holds on to the handler


def test_warnings_of_other_ranks_are_shown_without_their_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    board = Board(0)
    board.update(2, Note(5, 100, 7, 0, ["rank 2: evil\n\x1b[2J name"]))
    assert capsys.readouterr().err == "rank 2: evil??[2J name\n"


def test_at_the_end_a_warning_that_no_note_brought_is_shown_and_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log, board = RankLog(tmp_path / "agent.log", 2), Board(0)
    for word in ("one", "two", "two"):
        logging.getLogger("crawler").warning(word)
    board.update(2, Note(5, 100, 7, 0, log.take_warnings()[:2]))  # the rest is lost
    board.say_rest(log.latest)
    log.close()
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["rank 2: one", "rank 2: two", "rank 2: two"]


def test_progress_adds_the_ranks_up(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board(1000)
    board._shown -= 60  # where nothing can be written over, a line comes every ten seconds
    board.update(0, Note(5, 1_000_000, 7, 1))
    board.update(1, Note(6, 2_000_000, 0, 0))
    board.show()
    board.show()
    (line,) = capsys.readouterr().err.splitlines()
    assert "11 of 1,000 pages" in line
    assert "3.0 MB  7 waiting  1 errors" in line
