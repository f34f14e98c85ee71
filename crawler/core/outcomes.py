"""What may become of a visit: for its URL, and for its site."""

from enum import Enum
from typing import Final

from crawler.ports import PASSING, UNASKED, Failure


class Outcome(Enum):
    """What became of a visit.

    | outcome | a request was made | the URL | its site |
    |---|---|---|---|
    | DONE | yes | is dealt with | rests for its delay |
    | DENIED | no | is dealt with | goes on |
    | RETRY | yes, but not for this URL, or in vain | waits | rests for its delay |
    | POSTPONED | no | waits | goes on |
    | HELD | yes, for robots.txt | waits | is held until `Workbench.wake` |
    | STILL_HELD | no | waits | is held until `Workbench.wake` |
    | FAILED | yes, without an answer | waits, unless it was tried too often | rests longer |
    | BUSY | yes, the server is too busy | as after FAILED | rests as long as the server asks |

    A URL that waits comes before the others of its site. If the core says that a request may not be
    made now, the visit has ended as POSTPONED.
    """

    DONE = "done"
    DENIED = "denied"
    RETRY = "retry"
    POSTPONED = "postponed"
    HELD = "held"
    STILL_HELD = "still held"
    FAILED = "failed"
    BUSY = "busy"

    @classmethod
    def of(cls, failure: Failure) -> "Outcome":
        """The outcome of a visit that ends with a failure of its URL."""
        if failure in PASSING:
            return FAILED
        return DENIED if failure in UNASKED else DONE


# To look up a member of an Enum is slow.
DONE: Final = Outcome.DONE
DENIED: Final = Outcome.DENIED
RETRY: Final = Outcome.RETRY
POSTPONED: Final = Outcome.POSTPONED
HELD: Final = Outcome.HELD
STILL_HELD: Final = Outcome.STILL_HELD
FAILED: Final = Outcome.FAILED
BUSY: Final = Outcome.BUSY
