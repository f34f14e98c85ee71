"""Guards around code that reads the web's data, and the faults that they catch.

Reading code takes bytes, names and headers that anybody may write: fetching, parsing, robots.txt,
sitemaps, cookies, trap rules, the fields of a WARC record. If it raises an unforeseen error, that
is a fault of this program. A fault costs one page: the page gets a row with `Failure.INTERNAL`, the
traceback goes to agent.log, and the crawl goes on.

Code that decides is never guarded. A broken invariant of the core ends the rank, because nothing
that follows could be trusted. A disk that fails ends the rank, too.

A guard is a `try` around one piece of reading whose `except BaseException` calls `Faults.note`.
docs/decisions/internal-errors.md says what each guard does then.
"""

import errno
import logging
from typing import Final

from crawler.ports import UserError

_LOG = logging.getLogger("crawler")
_SHOWN: Final = 10  # faults that the user sees while the crawl runs; agent.log has them all
# An OSError of these kinds is a problem of this machine, which no page has caused.
_OURS: Final = frozenset(
    (
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOSPC,
        errno.EROFS,
        errno.ESTALE,
    )
)


def is_fault(error: BaseException) -> bool:
    """Whether an error is a fault of code that read a page, rather than of the user or the disk.

    A cancelled task and a signal aren't faults. A panic of a library written in Rust is a fault,
    although its class isn't an Exception.
    """
    if isinstance(error, UserError):  # a NoRoomError is one
        return False
    if isinstance(error, OSError):
        return error.errno not in _OURS
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


class Faults:
    """The faults of reading code that one rank has met."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, error: BaseException, what: str, url: str) -> None:
        """Count a fault, and log it with its traceback. Raises the error again if it is no fault.

        `what` says in words what was read, for example "the page". `url`: of the page or file.
        """
        if not is_fault(error):
            raise error
        self.count += 1
        about = {"url": url, "error": "internal"}
        _LOG.log(
            logging.ERROR if self.count <= _SHOWN else logging.INFO,
            "internal error in %s of %s: %s",
            what,
            url,
            type(error).__name__,
            exc_info=error,
            extra={"about": about},
        )
