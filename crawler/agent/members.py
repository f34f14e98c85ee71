"""Has spare clients come, and clients leave, as the user orders while the crawl runs."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from crawler import session
from crawler.agent.timing import Alarm
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.ports import Clock

_POLL_S: Final = 1.0
_LOG = logging.getLogger("crawler")


async def order_stage(directory: Path, core: Core, wire: Wire, alarm: Alarm, clock: Clock) -> None:
    """Obey the orders in the session directory (`session.order_client`), at rank 0."""
    members, obeyed = core.members, 0
    while members is not None and not core.stopping:
        orders, now = session.client_orders(directory)[obeyed:], clock.now()
        for rank in orders:
            _LOG.info("ordered", extra={"about": {"come" if rank is None else "leave": rank}})
            if rank is None:
                members.activate(now)
            else:
                members.retire(rank, now)
        if orders:
            obeyed += len(orders)
            wire.deliver(core, now)
            alarm.ring()
        await asyncio.sleep(_POLL_S)
