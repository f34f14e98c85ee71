"""What becomes of a URL, in the few classes that a user thinks in."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from crawler.ports import UNASKED


class Outcome(StrEnum):
    """What became of a URL. The order is that of the report: the best first."""

    FETCHED = "fetched"
    UNCHANGED = "unchanged"
    REDIRECTED = "redirected"
    CUT_SHORT = "cut short"
    REFUSED = "missing or refused"
    TROUBLE = "server trouble"
    NO_ANSWER = "no answer"
    NOT_ASKED = "not asked for"


MEANING: Final[Mapping[Outcome, str]] = {
    Outcome.FETCHED: "2xx: the page came",
    Outcome.UNCHANGED: "304: as in the earlier session",
    Outcome.REDIRECTED: "3xx: the target is a page of its own",
    Outcome.CUT_SHORT: "only a part of the page came, or it can't be read",
    Outcome.REFUSED: "4xx: the server says that the request is wrong",
    Outcome.TROUBLE: "5xx: the server failed",
    Outcome.NO_ANSWER: "no response from the server",
    Outcome.NOT_ASKED: "robots.txt, a missing host or a limit forbade the request",
}
GOOD: Final = frozenset((Outcome.FETCHED, Outcome.UNCHANGED, Outcome.REDIRECTED))


def outcome_of(status: int | None, error: str | None) -> Outcome:
    """The class of a row with this status and error class."""
    if status is None:
        return Outcome.NOT_ASKED if error in UNASKED else Outcome.NO_ANSWER
    if status >= 500:
        return Outcome.TROUBLE
    if status >= 400:
        return Outcome.REFUSED
    if error is not None:
        return Outcome.CUT_SHORT
    if status == 304:
        return Outcome.UNCHANGED
    return Outcome.REDIRECTED if status >= 300 else Outcome.FETCHED


def failure_of(status: int | None, error: str | None) -> str | None:
    """Why a row isn't good: its error class, or `status 404`. None if it is good."""
    if outcome_of(status, error) in GOOD:
        return None
    return error or f"status {status}"
