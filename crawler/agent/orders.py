"""Obeys orders of the user while a crawl runs: pause, continue, add seeds, clients come and leave.

The orders are files in the session directory (`session.orders`). Only rank 0 looks for them, and
tells the others. `stopping` looks for an order to stop.
"""

import asyncio
import logging
from typing import Final

from crawler import session, url
from crawler.agent.planning import Plan
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.ports import OUT_OF_SCOPE, Clock, UserError
from crawler.reading.scope import Scope

_POLL_S: Final = 1.0
_LOG = logging.getLogger("crawler")


class Orders:
    """What rank 0 has obeyed of the orders in the session directory."""

    def __init__(self, plan: Plan, core: Core, scope: Scope, wire: Wire, clock: Clock) -> None:
        self._directory = plan.directory
        self._core = core
        self._scope = scope
        self._wire = wire
        self._clock = clock
        self._clients = 0  # orders about clients that were obeyed
        self._seeds = set(plan.seeds)
        self._read = 0  # bytes of the orders to add seeds
        self._complaint = ""  # about orders that can't be read

    async def stage(self) -> None:
        """Look for orders every second, until the crawl stops."""
        if self._core.halt.paused:
            _LOG.warning(
                "%s is paused; go on with it: python -m crawler continue %s",
                self._directory,
                self._directory,
            )
        while not self._core.halt.stopping:
            try:
                self._obey_pause()
                self._obey_clients()
                self._obey_seeds()
            except UserError as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _LOG.warning("an order isn't obeyed: %s", error)
            await asyncio.sleep(_POLL_S)

    def _obey_pause(self) -> None:
        paused = session.is_paused(self._directory)
        if paused is not self._core.halt.paused:
            _LOG.info("paused" if paused else "continued")
            self._core.halt.pause(self._clock.now(), paused=paused)
            self._wire.deliver()

    def _obey_clients(self) -> None:
        members = self._core.members
        if members is None:
            return
        orders, now = session.client_orders(self._directory)[self._clients :], self._clock.now()
        for rank in orders:
            _LOG.info("ordered", extra={"about": {"come" if rank is None else "leave": rank}})
            if rank is None:
                members.activate(now)
            else:
                members.retire(rank, now)
        if orders:
            self._clients += len(orders)
            self._wire.deliver()

    def _obey_seeds(self) -> None:
        seeds, read = session.added_seeds(self._directory, self._read)
        new = [one for one in dict.fromkeys(seeds) if one not in self._seeds]
        core, now = self._core, self._clock.now()
        if core.ended:  # a resume takes them
            return
        if new:
            # If this process dies before the seeds are fetched, a resume finds them in seeds.txt.
            session.enlarge_seeds(self._directory, new)
            for seed in new:
                link = self._scope.link(url.of_seed(seed))
                if link.flags & OUT_OF_SCOPE and self._scope.widens:
                    core.joining.join(link.site, link.url, link.url, now)
            core.seeding.add(new, now)
            self._seeds.update(new)
            _LOG.info("seeds added", extra={"about": {"seeds": len(new)}})
            self._wire.deliver()
        self._read = read
