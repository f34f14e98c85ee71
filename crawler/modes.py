"""The four modes of a parallel crawl: what ranks do about URLs that other ranks own.

The modes are those of Cho and Garcia-Molina (2002, section 3). `session.mode` names one of them.
The rest of the program asks a `Mode` for its properties, and never compares the name.

| mode | who owns a URL | a rank that finds a URL of another rank |
|---|---|---|
| exchange | one rank | sends the URL to its owner |
| firewall | one rank | drops the link |
| cross-over | one rank | fetches the URL itself, once it has fetched all its own |
| independent | each rank that finds it | no URL belongs to another rank |
"""

from typing import Final

import msgspec

from crawler import config


class Mode(msgspec.Struct, frozen=True):
    """The properties of a mode."""

    name: str  # the value of session.mode
    divides: bool  # Each URL has one owner. Otherwise every rank owns all that it finds.
    sends: bool  # Ranks send URLs, and claims of unlisted sites, to each other.
    drops: bool  # Links to other ranks aren't followed.
    overlaps: bool  # Several ranks may fetch the same URL.

    @property
    def shares_logs(self) -> bool:
        """Whether a page in the log of one rank counts as fetched for all ranks.

        Otherwise the ranks tell each other nothing, so each resumes from its own log alone.
        """
        return self.sends

    @property
    def may_change_ranks(self) -> bool:
        """Whether a session may resume with another number of ranks, which share all logs."""
        return self.shares_logs


EXCHANGE: Final = Mode("exchange", divides=True, sends=True, drops=False, overlaps=False)
FIREWALL: Final = Mode("firewall", divides=True, sends=False, drops=True, overlaps=False)
CROSS_OVER: Final = Mode("cross-over", divides=True, sends=False, drops=False, overlaps=True)
INDEPENDENT: Final = Mode("independent", divides=False, sends=False, drops=False, overlaps=True)

_MODES: Final = {mode.name: mode for mode in (EXCHANGE, FIREWALL, CROSS_OVER, INDEPENDENT)}


def mode_of(settings: config.Config) -> Mode:
    """The mode that the configuration names."""
    return _MODES[settings.session.mode]
