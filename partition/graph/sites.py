"""The names of sites, and the site of each URL."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from publicsuffixlist import PublicSuffixList

from crawler import url
from partition import UserError
from partition.arrays import Ids


class Sites:
    """Numbers sites in order of appearance, and learns the site of each authority."""

    def __init__(self, *, domains: bool) -> None:
        self.names: list[str] = []  # by number
        self._numbers: dict[str, int] = {}
        self._site_at: dict[str, str] = {}
        self._suffixes = PublicSuffixList() if domains else None

    def _number(self, name: str) -> int:
        name = url.renamed_site(name)
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    def numbers(self, names: pa.Array) -> Ids:
        """Return the number of each site name."""
        encoded = names.dictionary_encode()
        distinct = [self._number(str(name)) for name in encoded.dictionary.to_pylist()]
        numbers: Ids = np.array(distinct, np.int32)[encoded.indices.to_numpy()]
        return numbers

    def learn(self, texts: pa.Array, names: pa.Array) -> None:
        """Remember that the authorities of these URLs belong to these sites."""
        pairs = pa.table({"authority": _authorities(texts), "site": names})
        for pair in pairs.group_by(["authority", "site"]).aggregate([]).to_pylist():
            self._site_at[pair["authority"]] = url.renamed_site(pair["site"])

    def forget(self) -> dict[str, str]:
        """Return the site of each authority that was learned, and forget all of them."""
        learned, self._site_at = self._site_at, {}
        return learned

    def adopt(self, learned: Mapping[str, str]) -> None:
        """Remember the site of each authority that another process has learned."""
        self._site_at |= learned

    def of(self, texts: pa.Array) -> Ids:
        """Return the numbers of the sites of normalised URLs."""
        authorities = _authorities(texts).dictionary_encode()
        sites = [self._site_of(authority) for authority in authorities.dictionary.to_pylist()]
        distinct = np.array([self._number(site) for site in sites], np.int32)
        numbers: Ids = distinct[authorities.indices.to_numpy()]
        return numbers

    def _site_of(self, authority: str) -> str:
        if authority in self._site_at:
            return self._site_at[authority]
        if self._suffixes is None:
            return url.site(authority)
        host = url.host_of_site(url.site(authority))
        if host.replace(".", "").isdigit() or ":" in host:
            return host  # an address has no domain
        return self._suffixes.privatesuffix(host) or host

    def by_name(self, numbers: Ids) -> tuple[list[str], Ids]:
        """Return the names in ascending order, and `numbers` changed to that order."""
        check_names(self.names)
        names = sorted(self.names)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        mapped: Ids = place[numbers]
        return names, mapped


def check_names(names: Iterable[str]) -> None:
    """Raise UserError if one of these texts can't be the name of a site."""
    for name in names:
        if not _is_site(name):
            raise UserError(f"site: {name!r} isn't a site name; give a host, or any word")


def _is_site(name: str) -> bool:
    """Return whether a text can be the name of a site."""
    if not name.strip() or "\0" in name:
        return False
    if name.startswith("["):
        return "]" in name
    if not name.startswith(("//", "http://", "https://")):
        return True  # any name that doesn't look like an address is allowed
    try:
        return bool(url.host(name))
    except (ValueError, IndexError):
        return False


def _authorities(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"^([a-z]+://[^/]*).*", r"\1")
