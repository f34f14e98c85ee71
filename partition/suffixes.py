"""The baseline `hierarchical` with a table of the parts of host name suffixes."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from partition import UserError
from partition.arrays import Ids
from partition.evaluate import host_of, site_hashes
from partition.webgraph import WebGraph


def by_suffix(web: WebGraph, parts: int, suffixes: Mapping[str, int]) -> Ids:
    """Return the part of each page: that of the longest listed suffix of its site's host.

    A suffix begins at a dot or is the whole host. Sites without a listed suffix go by
    site-hash.
    """
    table = {suffix.lower().strip("."): part for suffix, part in suffixes.items()}
    of_site = site_hashes(web.sites, parts)
    for number, site in enumerate(web.sites):
        suffix = host_of(site)
        while suffix and suffix not in table:
            suffix = suffix.partition(".")[2]
        if suffix:
            of_site[number] = table[suffix]
    return of_site[web.site]


def read_suffixes(path: Path) -> dict[str, int]:
    """Read a table like the crawler's `assignment.suffixes` from TOML. Raises UserError."""
    allowed = 'must be TOML, suffix = part, like de = 0 or "ac.uk" = 1, in quotes if it has dots'
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {allowed}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}; {allowed}") from None
    if not table:
        raise UserError(f"{path}: no suffixes; {allowed}")
    for suffix, part in table.items():
        if not suffix.strip(".") or type(part) is not int or part < 0:
            raise UserError(f"{path}: {suffix}; {allowed}")
    return table
