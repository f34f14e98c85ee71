"""The four modes of a parallel crawl: what ranks do about URLs that other ranks own.

They are those of Cho and Garcia-Molina (2002, section 3). `session.mode` names one of them. The
rest of the program asks a `Mode` what it wants to know, and never compares the name.

| mode | who owns a URL | a rank that finds a URL of another rank |
|---|---|---|
| exchange | one rank | sends the URL to its owner |
| firewall | one rank | drops the link |
| cross-over | one rank | fetches the URL itself, once it has dealt with its own |
| independent | each rank that finds it | there is none |
"""

from dataclasses import dataclass
from typing import Final

from crawler import config


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode, by what follows from it."""

    name: str  # of session.mode
    divides: bool  # Each URL has one owner. Otherwise every rank owns all that it finds.
    sends: bool  # Ranks send URLs, and claims of unlisted sites, to each other.
    drops: bool  # Links to other ranks aren't followed.
    overlaps: bool  # Several ranks may fetch the same URL.

    @property
    def shares_logs(self) -> bool:
        """Whether a page in the log of one rank is done for all ranks.

        Otherwise nobody tells a rank anything, so each goes by its own log alone.
        """
        return self.sends

    @property
    def may_change_ranks(self) -> bool:
        """Whether a session may go on with more or fewer ranks: all logs are read as one then."""
        return self.shares_logs


EXCHANGE: Final = Mode("exchange", divides=True, sends=True, drops=False, overlaps=False)
FIREWALL: Final = Mode("firewall", divides=True, sends=False, drops=True, overlaps=False)
CROSS_OVER: Final = Mode("cross-over", divides=True, sends=False, drops=False, overlaps=True)
INDEPENDENT: Final = Mode("independent", divides=False, sends=False, drops=False, overlaps=True)

_MODES: Final = {mode.name: mode for mode in (EXCHANGE, FIREWALL, CROSS_OVER, INDEPENDENT)}


def mode_of(settings: config.Config) -> Mode:
    """The mode that the configuration names."""
    return _MODES[settings.session.mode]
