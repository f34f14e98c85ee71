"""The end of the crawl: detects exactly that nothing is queued and nothing in flight, anywhere."""

from crawler.messages import Report, Sums


class Termination:
    """One rank's part in Mattern's four-counter method (Distributed Computing 2, 1987).

    Its waves are lazy: a rank reports its batch counts in wave k, to rank 0, only while it is
    passive, so a slow fetch just leaves the wave open. The crawl is over when the batches received
    by the end of wave k-1 equal those sent by the end of wave k: then none was under way in
    between, and no rank has become active since. All ranks see the same sums, so all decide the
    same. `messages` are to be sent, each to the rank beside it; these are no batches.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        self.ended = False
        self.messages: list[tuple[int, Report | Sums]] = []
        self._rank = rank
        self._ranks = ranks
        self._wave = 0  # the wave that is open
        self._joined = False
        self._received_before: int | None = None
        self._reports: dict[int, Report] = {}  # at rank 0, of the open wave

    def passive(self, sent: int, received: int) -> None:
        """Join the open wave, if this rank hasn't. The counts are of its batches so far.

        Only for a rank that is passive: a report made earlier would be a lie.
        """
        while not (self._joined or self.ended):
            self._joined = True
            report = Report(self._wave, sent, received)
            if self._rank == 0:
                self._collect(0, report)  # may close the wave and open the next
            else:
                self.messages.append((0, report))

    def received(self, sender: int, message: Report | Sums) -> None:
        """Take what another rank's Termination has sent. It may come again, or late."""
        if isinstance(message, Report):
            self._collect(sender, message)
        else:
            self._conclude(message)

    def _collect(self, sender: int, report: Report) -> None:
        """At rank 0: the sums for everybody, once all reports have come."""
        assert report.wave <= self._wave, (report, self._wave)
        if report.wave < self._wave or sender in self._reports:
            return  # it came before
        self._reports[sender] = report
        if len(self._reports) < self._ranks:
            return
        reports = self._reports.values()
        sent, received = sum(one.sent for one in reports), sum(one.received for one in reports)
        self._reports.clear()
        sums = Sums(self._wave, sent, received)
        self.messages += [(rank, sums) for rank in range(1, self._ranks)]
        self._conclude(sums)

    def _conclude(self, sums: Sums) -> None:
        """Close the open wave."""
        assert sums.wave <= self._wave, (sums, self._wave)
        if sums.wave < self._wave:
            return  # they came before
        self.ended = self._received_before == sums.sent
        self._received_before = sums.received
        self._joined = False
        self._wave += 1
