"""What a rank has begun and not ended."""

from crawler.core.visits import Visit
from crawler.ports import CrawlUrl, Fields


class Unfinished:
    """Visits, a replay, and sites that join the scope. Each of them may bring new URLs.

    The rank isn't passive while any of them is under way. A stop may leave some of them undone.
    """

    def __init__(self) -> None:
        self.visits = 0  # acquired visits whose links are not admitted yet
        # These visits, by the keys of their URLs. Only `veuniq` lets two URLs in that have the same
        # key: then one of the visits isn't here. After a stop, those that were dropped are here.
        self.visiting: dict[int, Visit] = {}
        self.replay = False  # whether links of earlier runs are still being admitted
        self.joins = 0  # sites that joined the scope, but whose logged links are not admitted yet
        self.abandoned = 0  # the number of these that a stop has left undone
        self.only_logged = False  # whether a stop broke one off, so that only the logs are complete

    @property
    def under_way(self) -> int:
        """The number of visits, replays and joining sites that are under way."""
        return self.visits + self.replay + self.joins

    def begin(self, visit: Visit) -> None:
        """Note a visit that has been acquired."""
        fields: Fields = visit.found
        self.visiting[fields[0]] = visit
        self.visits += 1

    def end(self, found: CrawlUrl) -> None:
        """Note that the visit to a URL has ended, and its links are admitted, if it has any."""
        fields: Fields = found
        self.visiting.pop(fields[0], None)
        self.visits -= 1

    def break_off(self) -> None:
        """Note that a stop has ended a replay, or the admission of late links, too early."""
        self.abandoned += 1
        self.only_logged = True

    def abandon(self, *, in_order: bool) -> None:
        """Drop what is under way. `in_order`: the links of every stored row are admitted."""
        self.only_logged |= self.replay or not in_order
        self.abandoned += self.under_way
        self.visits = self.joins = 0
        self.replay = False
