"""Writes the part vector of several ranks. Its tables are those that one process writes (`job`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crawler.ports import Peers
from partition import job, models
from partition.arrays import Ids, Ints, Keys, sums
from partition.partvector import PartVector
from partition.ranks.dividing import Flags, by_site, directories
from partition.ranks.exchange import agreed, gathered
from partition.ranks.merging import Sites
from partition.ranks.reading import Held
from partition.settings import Settings


async def write(
    out: Path,
    paths: Sequence[Path],
    held: Held,
    sites: Sites,
    part: Ids,
    loads: Ints | None,
    model: str,
    settings: Settings,
    peers: Peers,
) -> None:
    """Write the part vector `out`. `part`: of each page that this rank holds (`Held.pages`).

    Rank 0 has the `loads` of the parts, parts x 2, and the other ranks None.
    """
    keys, site_keys, _ = held.pages()
    site = sites.of(site_keys)
    of_site, is_divided = await _of_sites(site, part, len(sites.weights), peers)
    urls: tuple[Keys, Ids] | None = None
    listed: dict[tuple[str, str], int] | None = None
    if is_divided.any():
        inside = is_divided[site]
        found = await gathered(peers, (keys[inside], part[inside]))
        order = np.argsort(found[0])
        urls = found[0][order], found[1][order]
        texts = await directories([path / "tables" for path in paths], held, inside, peers)
        rows = (site[inside], keys[inside], part[inside], texts[inside])
        listed = {
            (sites.names[number], folder): at
            for of_rank in await peers.gather(await _directories(of_site, *rows, peers))
            for number, folder, at in of_rank
        }

    def write_at_first() -> None:
        if loads is None:
            return
        settings.progress("writing")
        of_name = dict(zip(sites.names, of_site.tolist(), strict=True))
        job.write(
            out,
            lambda vector: _must_say(vector, of_name, urls),
            parts=len(loads),
            sites=of_name,
            urls=urls,
            directories=listed,
            loads=loads,
            model=model,
            paths=paths,
            seed=settings.seed,
        )

    await agreed(peers, write_at_first)


async def _of_sites(site: Ids, part: Ids, number: int, peers: Peers) -> tuple[Ids, Flags]:
    """Return the part of most pages of each site, the lowest in a tie, and which are divided."""
    parts = np.int64(1 << 32)
    pairs, pages = sums(site * parts + part, np.ones(len(site), np.int64))
    pairs, pages = sums(*await gathered(peers, (pairs, pages)))
    order = np.lexsort((-pairs, pages))  # the last one written for a site wins
    of_site = np.zeros(number, np.int32)
    of_site[pairs[order] // parts] = pairs[order] % parts
    is_divided = np.bincount(pairs // parts, minlength=number) > 1
    return await peers.bcast((of_site, is_divided))


async def _directories(
    of_site: Ids,
    site: Ids,
    keys: Keys,
    part: Ids,
    texts: npt.NDArray[np.object_],
    peers: Peers,
) -> list[tuple[int, str, int]]:
    """Return the site, the name and the part of the directories that this rank must list."""
    listed: list[tuple[int, str, int]] = []

    def work(number: int, rows: Ints, columns: tuple[npt.NDArray[Any], ...]) -> Ints:
        folders, parts = columns
        inside = models.directory_parts(
            folders[rows].tolist(), parts[rows].tolist(), [int(of_site[number])] * len(rows)
        )
        listed.extend((number, folder, at) for folder, at in inside.items())
        return np.zeros(len(rows), np.int64)

    await by_site(peers, work, site, keys, texts, part)
    return listed


def _must_say(vector: PartVector, of_site: dict[str, int], urls: tuple[Keys, Ids] | None) -> None:
    """Raise AssertionError unless a part vector has the parts that were planned."""
    wrong = [site for site, part in of_site.items() if vector.site_part(site) != part]
    if wrong:
        raise AssertionError(
            f"the part vector has {len(wrong)} of {len(of_site)} sites in another part than"
            f" was planned, the first is {wrong[0]}"
        )
    if urls is not None and not (
        np.array_equal(urls[0], vector.url_keys) and np.array_equal(urls[1], vector.url_parts)
    ):
        raise AssertionError("the part vector has pages in other parts than were planned")
