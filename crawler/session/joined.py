"""Sites that have joined the scope of a crawl, because redirects of seeds lead to them.

If a site has joined, a file `00000.joined` lies beside the log file `00000.log`. Each line is a
JSON array of the site, the seed, and the URL where the redirects of the seed end. A rank adds the
line before it stores a page whose links were judged with the site in scope. Other ranks that are
told of the site do the same. So the scope of the session is the configured scope and the sites in
all these files.

A logged page says how many lines the file had when its links were judged (`judged_with` in
LoggedPage). Links to sites that joined later are flagged OUT_OF_SCOPE in the log, but are followed.
`Correction` removes the flag wherever a log is read.
"""

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from crawler.ports import NEVER_FOLLOWED, OUT_OF_SCOPE, UserError
from crawler.session.files import AppendFile
from crawler.session.log import LoggedPage

_SUFFIX: Final = ".joined"
_LOOKED_FOR: Final = 16  # sites; with more of them, it is faster to look at each link


class Joined(NamedTuple):
    """A site that has joined the scope."""

    site: str
    seed: str  # a URL
    end: str  # the URL where the redirects of the seed end


def joined_file(log_path: Path) -> Path:
    """Return the path of the file beside a log file. It exists if sites joined in that run."""
    return log_path.with_suffix(_SUFFIX)


def joined(session: Path) -> list[Joined]:
    """Return the sites that have joined, by name. A torn last line of a file doesn't count."""
    sites: dict[str, Joined] = {}
    for path in sorted(session.glob(f"rank-*/log/*{_SUFFIX}")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            try:
                one = msgspec.json.decode(line, type=Joined)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise UserError(
                    f"{path}: a line is damaged: {error}; expected lines of the form"
                    ' ["SITE", "SEED", "END"]'
                ) from None
            sites.setdefault(one.site, one)
    return [sites[site] for site in sorted(sites)]


class JoinedWriter:
    """Writes the file beside one log file. The file is made with its first line."""

    def __init__(self, log_path: Path) -> None:
        self._path = joined_file(log_path)
        self._file: AppendFile | None = None
        self._sites: set[str] = set()

    def add(self, sites: Iterable[Joined]) -> None:
        """Add the sites that aren't in the file yet. Raises NoRoomError or OSError."""
        new = {one.site: one for one in sites if one.site not in self._sites}
        if not new:
            return
        if self._file is None:
            self._file = AppendFile(self._path)
        lines = [json.dumps(one).encode() + b"\n" for one in new.values()]
        self._file.append(b"".join(lines))
        self._sites.update(new)

    def sync(self) -> None:
        """Force the file to disk, if there is one."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()


class Correction:
    """Removes the flag OUT_OF_SCOPE of links to sites that joined after the links were judged."""

    def __init__(self, sites: Collection[str], follows: Callable[[str, int], bool]) -> None:
        """`sites`: the sites that have joined.

        `follows` says, given the URL and the flags of a link, whether the link leads to one of
        these sites and is followed.
        """
        self._count = len(sites)
        self._names = [site.encode() for site in sites]
        self._follows = follows

    def __call__(self, page: LoggedPage) -> LoggedPage:
        """Return the page with corrected flags. `sites` must hold all sites that have joined."""
        if not 0 <= page.judged_with < self._count:
            return page
        late = self.late(page)
        if not late:
            return page
        flags = bytearray(page.flags)
        for number, _ in late:
            flags[number] &= ~OUT_OF_SCOPE
        return msgspec.structs.replace(page, flags=bytes(flags))

    def late(self, page: LoggedPage) -> list[tuple[int, str]]:
        """Return the numbers and URLs of the links whose flag is removed."""
        if page.judged_with == NEVER_FOLLOWED or not self._may_be(page):
            return []
        links = enumerate(zip(page.urls, page.flags, strict=True))
        return [
            (number, address)
            for number, (address, flags) in links
            if flags & OUT_OF_SCOPE and self._follows(address, flags & ~OUT_OF_SCOPE)
        ]

    def _may_be(self, page: LoggedPage) -> bool:
        """Whether a page may have links whose flag is removed; most pages fail this quick test."""
        if not any(flags & OUT_OF_SCOPE for flags in set(page.flags)):
            return False
        if len(self._names) > _LOOKED_FOR:
            return True
        text = page.url_text
        return any(name in text for name in self._names)
