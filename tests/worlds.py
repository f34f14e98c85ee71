"""Random webs of pages, redirects and failing URLs, and what holds for every crawl of one."""

import random
from collections.abc import Callable, Iterable, Sequence

from cluster import Cluster, link, run

from crawler.core.visits import Visit
from crawler.ports import REDIRECT, Link
from crawler.reading.reader import MAX_REDIRECTS, redirect_failure


def redirect(visit: Visit, target: str) -> list[Link]:
    """What the parse stage makes of a redirect."""
    to = link(target, REDIRECT)
    return [] if redirect_failure(visit.found, to.key) else [to]


class World:
    """A random web of pages, redirects and failing URLs. Few enough redirects for any chain."""

    def __init__(self, dice: random.Random, *, redirects: bool) -> None:
        failing = dice.choice([0.1, 0.4, 0.8])
        count, sites = dice.randint(1, 30), dice.randint(1, 6)
        self.urls = [f"http://{dice.randrange(sites)}.example/{n}" for n in range(count)]
        self.targets = {
            source: dice.choices(self.urls, k=dice.randint(0, 5)) for source in self.urls
        }
        self.failing = {u for u in self.urls if dice.random() < failing}
        moved = dice.sample(self.urls, min(count, MAX_REDIRECTS)) if redirects else []
        self.moved = {u: dice.choice(self.urls) for u in moved if u not in self.failing}
        self.listed = {f"{n}.example": n for n in range(sites) if dice.random() < 0.5}

    def out(self, address: str) -> Sequence[str]:
        if address in self.failing:
            return ()
        return [self.moved[address]] if address in self.moved else self.targets[address]

    def answer(self, visit: Visit) -> tuple[Iterable[Link], bool]:
        address = visit.found.url
        if address in self.moved:
            return redirect(visit, self.moved[address]), True
        return [link(target) for target in self.out(address)], address not in self.failing

    def reachable(self, seeds: Iterable[str]) -> set[str]:
        reached, todo = set(seeds), list(seeds)
        while todo:
            new = set(self.out(todo.pop())) - reached
            reached |= new
            todo += new
        return reached


MakeCluster = Callable[..., Cluster]  # of a world and further settings


def assert_every_url_once(
    dice: random.Random, make: MakeCluster
) -> tuple[Cluster, list[tuple[int, str]]]:
    """Every URL is asked for once, and the crawl doesn't end early. Returns who asked for what."""
    world = World(dice, redirects=True)
    cluster = make(world)
    seeds = dice.sample(world.urls, min(3, len(world.urls)))
    cluster.start(*seeds)
    asked = run(cluster, dice, world.answer, retries=0.2)
    assert sorted(address for _, address in asked) == sorted(world.reachable(seeds))
    assert cluster.complete
    return cluster, asked


def assert_limit_is_met(dice: random.Random, make: MakeCluster, limit: int) -> None:
    """The limit is met exactly, and failures don't count."""
    world = World(dice, redirects=False)  # an unfinished chain would make a page of no URL
    cluster = make(world, f"session.max_pages={limit}")
    seeds = dice.sample(world.urls, min(5, len(world.urls)))
    cluster.start(*seeds)
    asked = [address for _, address in run(cluster, dice, world.answer, retries=0.2)]
    reachable = world.reachable(seeds)
    assert len(set(asked)) == len(asked)
    assert set(asked) <= reachable
    assert len(set(asked) - world.failing) == min(limit, len(reachable - world.failing))
    assert cluster.complete == (set(asked) == reachable)


def assert_stop_doubles_nothing(dice: random.Random, make: MakeCluster, moment: int) -> None:
    """A stop at the moment ends the crawl, and no URL is asked for twice."""
    world = World(dice, redirects=True)
    cluster = make(world, f"session.max_pages={dice.choice([0, 0, 5])}")
    seeds = dice.sample(world.urls, min(3, len(world.urls)))
    cluster.start(*seeds)
    asked = [
        address for _, address in run(cluster, dice, world.answer, retries=0.2, stop_after=moment)
    ]
    assert len(set(asked)) == len(asked)
    assert set(asked) <= world.reachable(seeds)
    assert cluster.complete == (set(asked) == world.reachable(seeds))


def assert_each_url_has_one_outcome(dice: random.Random, make: MakeCluster) -> None:
    """Whatever fails, each URL that is found has one outcome, and the end is exact."""
    world = World(dice, redirects=True)
    tries = f"retry.tries={dice.choice([1, 2, 3])}"
    cluster = make(world, tries, f"retry.give_up_after={dice.choice([0, 2, 6])}")
    found: set[str] = set(dice.sample(world.urls, min(3, len(world.urls))))
    cluster.start(*found)

    def answer(visit: Visit) -> tuple[Iterable[Link], bool]:
        links, response = world.answer(visit)
        found.update(one.url for one in links)
        return links, response

    asked = [address for _, address in run(cluster, dice, answer, retries=0.1, failures=0.4)]
    assert sorted(asked) == sorted(found)
    assert cluster.complete
