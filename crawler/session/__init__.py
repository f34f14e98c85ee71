"""The session directory: all files of a crawl, and the only code that knows where they are.

    SESSION/session.toml          `info`: the configuration, and each run: ranks, start, end
    SESSION/seeds.txt             `info`: the seeds, normalised
    SESSION/added-seeds.txt       `orders`: this and others: what a running crawl is to do
    SESSION/replicated.txt        `info`: the URLs that every rank knows, if there are any
    SESSION/shared-keys.txt       `shared_keys`: URLs that gave up their keys, if there are any
    SESSION/rank-00000/*.warc.gz  `warc`: what was received, one gzip member a record
    SESSION/rank-00000/*.cdxj     `cdxj`: the index of each WARC file
    SESSION/rank-00000/log/*.log  `log`: page rows with their links; the truth
    SESSION/rank-00000/log/*.joined  `joined`: sites that seeds' redirects brought into the scope
    SESSION/rank-00000/requests/  `requests`: every request that was made, and when
    SESSION/rank-00000/crawl.log  `pagelog`: a line for each URL, for people
    SESSION/rank-00000/snapshot   `snapshots`: what a rank knew at a stop, to resume faster
    SESSION/tables/*/*.parquet    `tables`: the logs of all ranks, as other programs want them
    SESSION/rank-00000/frontier/  `spill`: URLs that wait; only while it is crawled
    SESSION/status.json           `status`: how far the crawl is, for people and monitors
    SESSION/lock, lock-ranks      `lock`: who writes to the session; only while somebody does

`layout` checks that the files are regular files, before a command opens any. `shards` reads the
logs when a session is resumed. `archive` mends WARC files after a kill, and makes indexes that are
missing. `previous` looks up pages of an earlier session. `records` reads WARC files, to verify
them. `timeline` puts the requests of all ranks in order, and `gaps` compares the gaps between them
with what was promised. `judged` does so by several processes, and `together` says how these divide
the work. `tables`, `checked` and `roles` aren't imported here, because they import pyarrow, which
takes a while.

During a crawl each rank owns one `RankStore`, and nobody else writes the files in the rank's
directory. These files only grow, by whole records. A resumed run starts new files, and adds to no
old one. `docs/session.md` describes the formats.
"""

from crawler.session.archive import make_indexes, mend, merged_indexes, replayable
from crawler.session.cdxj import Replayable, index_line, index_path
from crawler.session.content_seen import ContentSeen
from crawler.session.files import (
    failed_file,
    is_no_room,
    is_open,
    mistakes_told,
    no_room_told,
    replacing,
    told_with,
)
from crawler.session.fingerprint import fingerprint
from crawler.session.handled import check_handler_name, handled_files
from crawler.session.info import (
    Run,
    SessionInfo,
    create,
    enlarge_seeds,
    exists,
    finish,
    load,
    make_directory,
    replicated,
    resume,
    seeds,
    write_replicated,
)
from crawler.session.joined import Correction, Joined, joined
from crawler.session.kept import kept_sites
from crawler.session.layout import check_layout
from crawler.session.lock import (
    CRAWLED,
    EXPORTED,
    PATIENCE_S,
    REPORTED,
    join_session,
    leave_session,
    lock_session,
    unlock_session,
    who_writes,
)
from crawler.session.log import (
    Entry,
    LoggedPage,
    LoggedSitemaps,
    Torn,
    holds,
    holds_rows,
    is_damage,
    log_files,
    rank_directories,
    rank_of,
    read_log,
    request_key,
)
from crawler.session.lookup import rows_of_site, rows_of_url
from crawler.session.orders import (
    add_seeds,
    added_seeds,
    ask_to_stop,
    client_orders,
    go_on,
    is_asked_to_stop,
    is_paused,
    order_client,
    pause,
)
from crawler.session.pagelog import restore_lines
from crawler.session.previous import Previous, most_linked, read_links
from crawler.session.questions import Answers, answer, ask_ranks, open_questions
from crawler.session.records import Damage, Record, read_records
from crawler.session.requests import (
    Manners,
    is_cut,
    read_requests,
    read_rests,
    request_files,
)
from crawler.session.retried import MAY_PASS, Superseded, failures_named, has_failed, read_latest
from crawler.session.scores import EarlierScores
from crawler.session.seedlist import parse_seed, read_seeds
from crawler.session.shards import Keys, LogFile, LogShard, among, deal, log_sizes, shares
from crawler.session.shared_keys import (
    Found,
    Pairs,
    SecondHashes,
    Sharers,
    different,
    give_up,
    given_up,
    shared_among,
    those_that_give_up,
)
from crawler.session.snapshots import LogHashes, Snapshots
from crawler.session.spill import SpillFiles
from crawler.session.status import (
    Bound,
    RankStatus,
    SiteStatus,
    State,
    Status,
    read_status,
    write_status,
)
from crawler.session.store import RankStore
from crawler.session.together import Alone, alone, bucket, done_by_all, everywhere, holder, mine
from crawler.session.warc import digest, warc_date, warc_files

__all__ = [
    "CRAWLED",
    "EXPORTED",
    "MAY_PASS",
    "PATIENCE_S",
    "REPORTED",
    "Alone",
    "Answers",
    "Bound",
    "ContentSeen",
    "Correction",
    "Damage",
    "EarlierScores",
    "Entry",
    "Found",
    "Joined",
    "Keys",
    "LogFile",
    "LogHashes",
    "LogShard",
    "LoggedPage",
    "LoggedSitemaps",
    "Manners",
    "Pairs",
    "Previous",
    "RankStatus",
    "RankStore",
    "Record",
    "Replayable",
    "Run",
    "SecondHashes",
    "SessionInfo",
    "Sharers",
    "SiteStatus",
    "Snapshots",
    "SpillFiles",
    "State",
    "Status",
    "Superseded",
    "Torn",
    "add_seeds",
    "added_seeds",
    "alone",
    "among",
    "answer",
    "ask_ranks",
    "ask_to_stop",
    "bucket",
    "check_handler_name",
    "check_layout",
    "client_orders",
    "create",
    "deal",
    "different",
    "digest",
    "done_by_all",
    "enlarge_seeds",
    "everywhere",
    "exists",
    "failed_file",
    "failures_named",
    "fingerprint",
    "finish",
    "give_up",
    "given_up",
    "go_on",
    "handled_files",
    "has_failed",
    "holder",
    "holds",
    "holds_rows",
    "index_line",
    "index_path",
    "is_asked_to_stop",
    "is_cut",
    "is_damage",
    "is_no_room",
    "is_open",
    "is_paused",
    "join_session",
    "joined",
    "kept_sites",
    "leave_session",
    "load",
    "lock_session",
    "log_files",
    "log_sizes",
    "make_directory",
    "make_indexes",
    "mend",
    "merged_indexes",
    "mine",
    "mistakes_told",
    "most_linked",
    "no_room_told",
    "open_questions",
    "order_client",
    "parse_seed",
    "pause",
    "rank_directories",
    "rank_of",
    "read_latest",
    "read_links",
    "read_log",
    "read_records",
    "read_requests",
    "read_rests",
    "read_seeds",
    "read_status",
    "replacing",
    "replayable",
    "replicated",
    "request_files",
    "request_key",
    "restore_lines",
    "resume",
    "rows_of_site",
    "rows_of_url",
    "seeds",
    "shared_among",
    "shares",
    "those_that_give_up",
    "told_with",
    "unlock_session",
    "warc_date",
    "warc_files",
    "who_writes",
    "write_replicated",
    "write_status",
]
