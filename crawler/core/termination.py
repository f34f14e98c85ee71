"""Detects the end of the crawl: no rank has anything to do, and no batch is under way."""

from collections.abc import Sequence

from crawler.messages import Report, Sums


class Termination:
    """One rank's part in Mattern's four-counter method (Distributed Computing 2, 1987).

    In each wave, every rank reports to rank 0 how many batches it has sent and received. A rank
    reports only while it is passive, so a wave stays open during a slow fetch. Rank 0 adds up the
    counts and sends the sums to all ranks.

    The crawl is over when the number of batches received up to wave k-1 equals the number of those
    sent up to wave k. Then no batch was under way between the waves, so no rank can have become
    active. All ranks see the same sums, so all decide the same.

    If a rank is lost, nobody counts the batches to it or from it any more. A rank that hears of a
    loss reports anew. A wave closes when all reports in it know of the same losses, and two waves
    are compared only if they agree on that.

    `messages` holds pairs (rank, message) that must be sent. They aren't batches.
    """

    def __init__(self, rank: int, ranks: int, below: Sequence[int] | None = None) -> None:
        """`below`: the ranks to which this rank passes the sums on.

        By default rank 0 sends them to all others.
        """
        self.ended = False
        self.messages: list[tuple[int, Report | Sums]] = []
        self._rank = rank
        self._ranks = ranks
        self._below = (range(1, ranks) if rank == 0 else ()) if below is None else below
        self._wave = 0  # the wave that is open
        self._joined = False  # whether this rank has reported in the open wave
        # Batches received up to the wave before, and the losses by then.
        self._before: tuple[int, int] | None = None
        self._lost: set[int] = set()
        self._reports: dict[int, Report] = {}  # at rank 0: the reports of the open wave

    def passive(self, sent: int, received: int) -> None:
        """Report in the open wave, if this rank hasn't done so.

        `sent`, `received`: the numbers of batches so far. Call this only while the rank is passive.
        """
        while not (self._joined or self.ended):
            self._joined = True
            report = Report(self._wave, sent, received, len(self._lost))
            if self._rank == 0:
                self._collect(0, report)  # this may close the wave and open the next
            else:
                self.messages.append((0, report))

    def withdraw(self) -> None:
        """Take back rank 0's report in the open wave, because work has come from outside.

        Otherwise only batches make a rank active, and the method relies on that.
        """
        assert self._rank == 0
        if not self.ended:
            self._joined = False
            self._reports.pop(0, None)

    def lose(self, rank: int) -> None:
        """Note that a rank is lost. From now on `passive` gets counts without its batches."""
        self._lost.add(rank)
        self._reports.pop(rank, None)
        self._joined = False

    def received(self, sender: int, message: Report | Sums) -> None:
        """Handle a message of another rank's Termination, which may come late or twice."""
        if isinstance(message, Report):
            self._collect(sender, message)
        else:
            self._conclude(message)

    def _collect(self, sender: int, report: Report) -> None:
        """Note a report at rank 0. When all reports have come, send the sums to all ranks."""
        assert report.wave <= self._wave, (report, self._wave)
        before = self._reports.get(sender)
        if report.wave < self._wave or sender in self._lost:
            return
        if before is not None and before.losses >= report.losses:
            return  # this report has come before
        self._reports[sender] = report
        losses = len(self._lost)
        reports = [one for one in self._reports.values() if one.losses == losses]
        if len(reports) < self._ranks - losses:
            return
        sent, received = sum(one.sent for one in reports), sum(one.received for one in reports)
        self._reports.clear()
        sums = Sums(self._wave, sent, received, losses)
        self._conclude(sums)

    def _conclude(self, sums: Sums) -> None:
        """Close the open wave with its sums, and decide whether the crawl is over."""
        assert sums.wave <= self._wave, (sums, self._wave)
        if sums.wave < self._wave:
            return  # these sums have come before
        self.messages += [(rank, sums) for rank in self._below]
        self.ended = self._before == (sums.sent, sums.losses)
        self._before = sums.received, sums.losses
        self._joined = False
        self._wave += 1
