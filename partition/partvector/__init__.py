"""The part vector: the file, its writer and its reader. The crawler imports this and nothing else.

One read-only file that all ranks of a node map into memory and therefore share. Layout,
little-endian, each section at a multiple of 8 bytes:

    head      8s magic, u32 format version (2), u32 length of the header,
              u64 length of the file, u64 XXH3-64 of every other byte of the file
    header    JSON: parts, model, sessions, metadata, and `sections`: name -> [offset, length]
    sections  site_keys   u64, ascending: XXH3-64 of the names of the sites
              site_parts  the part of each key
              site_names  the names in UTF-8, separated by NUL, in the order of the keys
              url_keys    u64, ascending: the pages of sites that lie in several parts
              url_parts   the part of each key
              directory_keys   u64, ascending: XXH3-64 of site + NUL + directory
              directory_parts  the part of each key
              directory_sites  u64, ascending: the keys of the sites with directories
              loads       i64, parts x 2: bytes and requests of each part
              replicated  URLs that every rank knows, one a line

Parts are u16, or u32 if there are more than 65,536. Equal input gives equal bytes. A directory is
the start of a URL, up to a slash. An entry holds for one site only, because a directory may have
pages of several sites. An entry written without a site holds for all sites.

The reader also reads files of format 1 (`old`).

Measured (Python 3.11, one core, 75 k sites and 1 M URLs, a file of 12.7 MB): opening 3 ms; a
look-up 1.2 us.
"""

from partition.partvector.layout import FORMAT, Keys, Loads, Parts, PartVectorError
from partition.partvector.placing import grant, jump_hash, jump_hashes, pack
from partition.partvector.reader import PartVector
from partition.partvector.writer import write

__all__ = [
    "FORMAT",
    "Keys",
    "Loads",
    "PartVector",
    "PartVectorError",
    "Parts",
    "grant",
    "jump_hash",
    "jump_hashes",
    "pack",
    "write",
]
