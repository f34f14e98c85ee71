"""The clocks that ranks share: which rank holds which clock, and how clocks move.

If several ranks hold URLs of a site, the site has one clock, and one rank at a time holds the clock
(`leases` says why). Each clock has a *home*, a rank that all ranks can compute. The home grants the
clock to a rank, and takes it back.

    holder                            home                              other rank
      |  <------ clock (grant 7) ------ |                                   |
      |        (requests)               | <--------- wants ---------------- |
      |  <------ recall 7 ------------- |                                   |
      |  ------- clock (return 7) ----> | ------- clock (grant 8) --------> |

These messages travel in batches, so the crawl can't end before they have arrived. If other ranks
want a clock, its holder returns it in three cases: the holder's turn is over, it has no URL of the
site, or it may fetch nothing. If no other rank wants the clock, it stays. So a site with one owner
costs one grant, and none if the owner is the home.

The system clocks of hosts differ, so a message gives a time as the seconds still to wait. The wait
begins when the message arrives. So a slow message makes a wait longer, never shorter.

Batches may overtake each other, so each grant has a serial number. If a recall or a connection
arrives before its grant, it is kept until the grant arrives. If a recall arrives after the clock
has left, it is dropped; a connection is sent on to the home. A clock may leave while connections
are in use. They follow the clock when their requests end.
"""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final

from crawler.core.leases import ClockHome, Lease, Rest
from crawler.core.outboxes import Outboxes
from crawler.core.sharing import Sharing
from crawler.messages import Batch, ClockTerms, FreedConnections, RestTerms

# A handover takes the time of two messages, during which no rank asks the site. If a message takes
# up to 0.1 s, this is less than a twentieth of a turn of _TURN_S.
#
# Without a delay and with several connections, a site may answer faster than one rank can read.
# Turns are shorter then, so that the next rank begins while the last one still reads its pages. A
# turn is _TURN_HANDOVERS times as long as the latest handover, within the bounds given here.
_TURN_S: Final = 5.0
_UNPACED_TURN_S: Final = 0.5
_TURN_HANDOVERS: Final = 25
_TURN_DELAYS: Final = 5  # delays in a turn at least, so that most requests need no message
_HOME_BYTES: Final = 400  # of a `ClockHome`, with its name


class SharedClocks:
    """One rank's part in sharing clocks: it holds clocks (`Leases`), and is the home of some."""

    def __init__(
        self,
        rank: int,
        sharing: Sharing,
        outboxes: Outboxes,
    ) -> None:
        self._rank = rank
        self._leases = sharing.leases
        self._sharing = sharing
        self._outboxes = outboxes
        self._courtesy = sharing.courtesy
        self._handover_s = 0.0  # duration of the latest handover of any clock with its home here
        self._homes: dict[str, ClockHome] = {}
        self._turns: list[tuple[float, int, Lease]] = []  # contested leases, by the end of the turn
        self._number = count()
        self._able = True  # whether this rank may fetch: it has page quota, and nobody stopped it
        self._reluctant: list[Lease] = []  # needed, but not asked for while this rank can't fetch

    def nbytes(self) -> int:
        """About how many bytes of memory the leases and the clocks that are at home here take."""
        return self._leases.nbytes() + _HOME_BYTES * len(self._homes)

    def settle(self, now: float, *, able: bool) -> bool:
        """Ask for the clocks that this rank needs, and return those that must leave.

        `able`: this rank may fetch now. Returns whether there was anything to do.
        """
        leases = self._leases
        if able is not self._able:
            self._able = able
            for lease in self._reluctant if able else [lease for _, _, lease in self._turns]:
                leases.mark(lease)
            self._reluctant.clear()
        while self._turns and self._turns[0][0] <= now:
            leases.mark(heappop(self._turns)[2])
        if not leases.marked:
            return False
        while leases.marked:
            lease = leases.marked.popleft()
            lease.marked = False
            self._settle_one(lease, now)
        return True

    def borrow(self, site: str, owner: int) -> None:
        """Share the clock of a site that `owner` owns alone, because this rank needs it, too.

        The owner is the home of the clock from now on.
        """
        if not self._courtesy.by_address and self._leases.of(site) is None:
            self._leases.share(site, owner)

    def offer(self, keys: Iterable[str], rank: int, now: float) -> None:
        """As the home of clocks, grant those to a rank that no other rank has or wants."""
        for key in keys:
            home = self._home(key)
            if home.holder is None and not home.wants:
                if home.free:
                    self._grant(key, home, rank, now)
                else:
                    home.wants.append(rank)

    def lose(self, rank: int, now: float, rests: Mapping[str, float]) -> None:
        """As the home of clocks, take back those of a rank that is lost.

        Its last request may have begun a moment ago. So each clock rests for the longest delay
        that is known here, and at least for the seconds that `rests` names, by site or address.
        """
        for key, seconds in rests.items():
            lease = self._leases.of(key)
            if lease is not None and lease.home == self._rank:
                home = self._home(key)
                home.next_time = max(home.next_time, now + seconds)
        for key, home in self._homes.items():
            if rank in home.wants:
                home.wants = [other for other in home.wants if other != rank]
            if home.lent is not None:
                home.free += home.lent.pop(rank, 0)
            if home.holder == rank:
                home.holder, home.begun = None, now
                if home.connections == 1:
                    home.free = 1
                delays_s = (rest.delay_s for rest in home.rests.values())
                delay_s = max(self._courtesy.longest_delay_s(key), *delays_s, 0.0)
                home.next_time = max(home.next_time, now + delay_s)
            self._serve(key, home, now)

    def next_time(self) -> float | None:
        """The time at which the next turn ends that other ranks wait for, or None."""
        return self._turns[0][0] if self._turns else None

    def received(self, sender: int, batch: Batch, now: float) -> None:
        """Handle the clock messages of a batch. Returned clocks come before new wants."""
        for terms in batch.clocks:
            if self._is_home(terms.key):
                self._reclaim(sender, terms, now)
            else:
                self._arrived(terms, now)
        for key in batch.wants:
            self._share(key, now)
            self._wanted(sender, key, now)
        for key, serial in batch.recalls:
            self._recalled(key, serial, now)
        for freed in batch.freed:
            if self._is_home(freed.key):
                self._follow(sender, freed, now)
            else:
                self._connections_arrived(freed, now)

    # --- as a holder --------------------------------------------------------------------------

    def _settle_one(self, lease: Lease, now: float) -> None:
        if lease.ended and not lease.held:
            ended, lease.ended = lease.ended, 0
            self._send_on(lease, ended, lease.serial, now)
        wanted = self._sharing.wants_clock(lease)
        if not lease.held:
            if wanted and not lease.asked:
                self._ask(lease, now)
        elif lease.contested and not self._keeps(lease, now, wanted=wanted):
            self._hand_on(lease, now, wanted=wanted)

    def _ask(self, lease: Lease, now: float) -> None:
        if not self._able:
            self._reluctant.append(lease)
            return
        lease.asked = True
        if lease.home == self._rank:
            self._wanted(self._rank, lease.key, now)
        else:
            self._outboxes.open(lease.home, now, urgent=True).wants.append(lease.key)

    def _keeps(self, lease: Lease, now: float, *, wanted: bool) -> bool:
        """Whether a clock that others want stays here for now."""
        sharing = self._sharing
        if lease.connections == 1:
            if sharing.is_in_use(lease):
                return True  # the request must end first, because the delay begins at its end
        elif sharing.is_about_to_begin(lease):
            return now < lease.ends or not lease.used
        # What matters is when the next request may begin. If that is after the turn, the clock
        # leaves at once: the site rests anyway, so no time is lost.
        return wanted and self._able and max(now, sharing.next_request(lease)) < lease.ends

    def _hand_on(self, lease: Lease, now: float, *, wanted: bool) -> None:
        """Return a clock to its home."""
        self._sharing.clock_leaves(lease)
        lease.held = lease.contested = False
        lease.asked = wanted and self._able
        if wanted and not self._able:
            self._reluctant.append(lease)
        terms = ClockTerms(
            lease.key,
            lease.serial,
            max(0.0, lease.next_time - now),
            now - lease.begun,
            now - lease.arrived,
            lease.free,
            lease.asked,
            self._packed(lease.rests, now),
        )
        lease.free = 0
        if lease.home == self._rank:
            self._reclaim(self._rank, terms, now)
        else:
            self._outboxes.open(lease.home, now, urgent=True).clocks.append(terms)

    def _arrived(self, terms: ClockTerms, now: float) -> None:
        """Take a clock that its home has granted to this rank."""
        lease = self._lease(terms.key)
        assert not lease.held, lease
        lease.held, lease.asked, lease.used, lease.serial = True, False, False, terms.serial
        lease.next_time, lease.begun = now + terms.wait_s, now - terms.since_s
        lease.free += terms.free + lease.early_free.pop(terms.serial, 0)
        lease.free += lease.ended  # these connections are here, and now the clock is, too
        lease.ended = 0
        lease.arrived, lease.ends = now, lease.next_time + terms.turn_s
        lease.rests |= self._unpacked(terms.rests, now)
        if terms.more or lease.early_recall == terms.serial:
            self._contest(lease)
        self._sharing.clock_arrives(lease)

    def _recalled(self, key: str, serial: int, now: float) -> None:
        """Note that other ranks want a clock that is here, or on its way to this rank."""
        lease = self._lease(key)
        if serial > lease.serial:
            lease.early_recall = serial
        elif lease.held and serial == lease.serial:
            self._contest(lease)

    def _contest(self, lease: Lease) -> None:
        lease.contested = True
        heappush(self._turns, (lease.ends, next(self._number), lease))
        self._leases.mark(lease)

    def _connections_arrived(self, freed: FreedConnections, now: float) -> None:
        """Take connections that follow a clock which was granted to this rank."""
        lease = self._lease(freed.key)
        for site, rest in self._unpacked(freed.rests, now).items():
            lease.rests[site] = _later(lease.rests.get(site), rest)
        if lease.held and freed.serial == lease.serial:
            lease.free += freed.count
            self._sharing.clock_arrives(lease)
        elif freed.serial > lease.serial:
            early = lease.early_free.get(freed.serial, 0)
            lease.early_free[freed.serial] = early + freed.count
        else:  # the clock has left
            self._send_on(lease, freed.count, freed.serial, now)

    def _send_on(self, lease: Lease, connections: int, serial: int, now: float) -> None:
        """Send connections after the clock, by way of its home."""
        freed = FreedConnections(lease.key, connections, serial, self._packed(lease.rests, now))
        if lease.home == self._rank:
            self._follow(self._rank, freed, now)
        else:
            self._outboxes.open(lease.home, now, urgent=True).freed.append(freed)

    # --- as a home ----------------------------------------------------------------------------

    def _share(self, key: str, now: float) -> None:
        """Become the home and the holder of a clock that this rank has used alone until now."""
        if self._leases.of(key) is not None:
            return
        lease = self._leases.share(key, self._rank)
        home = self._homes[key] = ClockHome(lease.connections)
        home.free = 0
        home.holder, home.serial = self._rank, 1
        lease.serial, lease.ends = 1, now
        self._sharing.share(lease)

    def _wanted(self, rank: int, key: str, now: float) -> None:
        home = self._home(key)
        home.wants.append(rank)
        self._serve(key, home, now)

    def _reclaim(self, rank: int, terms: ClockTerms, now: float) -> None:
        """Take back a clock that its holder returns to this home."""
        home = self._homes[terms.key]
        assert home.holder == rank, (terms, home.holder)
        assert home.serial == terms.serial, (terms, home.serial)
        if rank != self._rank:
            # This subtracts two durations, each measured by one host. So the system clocks of the
            # two hosts may differ.
            self._handover_s = now - home.granted - terms.turn_s
        home.holder = None
        home.free += terms.free
        self._lend(home, rank, -terms.free)
        home.next_time, home.begun = now + terms.wait_s, now - terms.since_s
        home.rests = self._unpacked(terms.rests, now)
        if terms.more:
            home.wants.append(rank)
        self._serve(terms.key, home, now)

    def _follow(self, rank: int, freed: FreedConnections, now: float) -> None:
        """Send connections after the clock, if their requests ended after the clock had left.

        `rank`: the rank that has made these requests.
        """
        home = self._homes[freed.key]
        home.free += freed.count
        self._lend(home, rank, -freed.count)
        for site, rest in self._unpacked(freed.rests, now).items():
            home.rests[site] = _later(home.rests.get(site), rest)
        if home.holder is None:
            self._serve(freed.key, home, now)
            return
        self._lend(home, home.holder, home.free)
        on = FreedConnections(freed.key, home.free, home.serial, self._packed(home.rests, now))
        home.free = 0
        if home.holder == self._rank:
            self._connections_arrived(on, now)
        else:
            self._outboxes.open(home.holder, now, urgent=True).freed.append(on)

    def _serve(self, key: str, home: ClockHome, now: float) -> None:
        """If a rank wants a clock, grant it; or recall it, if another rank holds it."""
        if not home.wants:
            return
        if home.holder is not None:
            if not home.recalled:
                home.recalled = True
                if home.holder == self._rank:
                    self._recalled(key, home.serial, now)
                else:
                    box = self._outboxes.open(home.holder, now, urgent=True)
                    box.recalls.append((key, home.serial))
            return
        if home.free:
            self._grant(key, home, home.wants.pop(0), now)

    def _grant(self, key: str, home: ClockHome, rank: int, now: float) -> None:
        """Grant a clock that is at this home to a rank."""
        home.holder = rank
        home.serial += 1
        home.granted = now
        home.recalled = bool(home.wants)
        wait_s = max(0.0, home.next_time - now)
        rests = self._packed(home.rests, now)
        turn_s = max(self._shortest_turn_s(key), min(_TURN_HANDOVERS * self._handover_s, _TURN_S))
        terms = ClockTerms(
            key, home.serial, wait_s, now - home.begun, turn_s, home.free, home.recalled, rests
        )
        self._lend(home, rank, home.free)
        home.free = 0
        if rank == self._rank:
            self._arrived(terms, now)
        else:
            self._outboxes.open(rank, now, urgent=True).clocks.append(terms)

    def _shortest_turn_s(self, key: str) -> float:
        courtesy = self._courtesy
        delay_s = courtesy.usual_delay_s if courtesy.by_address else courtesy.delay_s(key)
        paced = delay_s > 0 or courtesy.connections(key) == 1
        return max(_TURN_S if paced else _UNPACED_TURN_S, _TURN_DELAYS * delay_s)

    def _lend(self, home: ClockHome, rank: int, connections: int) -> None:
        """Note how many connections a rank has. With one connection, the holder has it."""
        if home.connections > 1:
            if home.lent is None:
                home.lent = {}
            home.lent[rank] = home.lent.get(rank, 0) + connections

    # --- both ---------------------------------------------------------------------------------

    def _is_home(self, key: str) -> bool:
        return self._lease(key).home == self._rank

    def _lease(self, key: str) -> Lease:
        lease = self._leases.of(key)
        assert lease is not None, key
        return lease

    def _home(self, key: str) -> ClockHome:
        home = self._homes.get(key)
        if home is None:
            home = self._homes[key] = ClockHome(self._courtesy.connections(key))
        return home

    def _packed(self, rests: Mapping[str, Rest], now: float) -> dict[str, RestTerms]:
        """The rests that the next holder must know, with times as seconds still to wait."""
        if not rests:  # nearly always, at a seed server
            return {}
        courtesy = self._courtesy
        return {
            site: RestTerms(max(0.0, rest.next_time - now), rest.delay_s, rest.failures)
            for site, rest in rests.items()
            if rest.failures or rest.delay_s > courtesy.delay_s(site) or rest.next_time > now
        }

    def _unpacked(self, rests: Mapping[str, RestTerms], now: float) -> dict[str, Rest]:
        return {
            site: Rest(now + terms.wait_s, terms.delay_s, terms.failures)
            for site, terms in rests.items()
        }


def _later(one: Rest | None, other: Rest) -> Rest:
    """Combine what two ranks know about the rest of a site: the longer times, and all failures."""
    if one is None:
        return other
    return Rest(
        max(one.next_time, other.next_time),
        max(one.delay_s, other.delay_s),
        one.failures | other.failures,
    )
