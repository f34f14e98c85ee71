"""The session directory: all that a crawl leaves on disk, and the only code that knows its layout.

    SESSION/session.toml          `info`: the configuration, ranks, parts, start and end
    SESSION/rank-00000/*.warc.gz  `warc`: what was received, one gzip member a record
    SESSION/rank-00000/log/*.log  `log`: page rows with their links; the truth
    SESSION/tables/*.parquet      `tables`: the logs of all ranks, as other programs want them

`previous` looks pages up in the directory of an earlier session.

During a crawl each rank owns one `RankStore`, and nobody else writes these files of its directory.
They only grow, by whole records, and a second run adds to none of them: it starts new ones.
`docs/session.md` describes the formats for their readers.
"""

from crawler.session.info import Program, SessionInfo, create, finish, load
from crawler.session.log import LoggedPage, Torn, log_files, read_log
from crawler.session.previous import Previous
from crawler.session.store import ContentSeen, RankStore
from crawler.session.tables import Totals, write_tables
from crawler.session.warc import digest

__all__ = [
    "ContentSeen",
    "LoggedPage",
    "Previous",
    "Program",
    "RankStore",
    "SessionInfo",
    "Torn",
    "Totals",
    "create",
    "digest",
    "finish",
    "load",
    "log_files",
    "read_log",
    "write_tables",
]
