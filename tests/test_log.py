"""The log of a rank."""

import json
import logging
from pathlib import Path

import pytest

from crawler.agent.log import RankLog


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
