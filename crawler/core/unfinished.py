"""What a rank has begun and not ended."""


class Unfinished:
    """Visits, a replay, and sites that are joining: new URLs may come of each of them.

    Until nothing of that is under way, the rank isn't passive. A stop may leave some of it undone.
    """

    def __init__(self) -> None:
        self.visits = 0  # acquired, and their links not admitted yet
        self.replay = False  # until all that earlier runs found is admitted
        self.joins = 0  # sites that joined the scope, and their logged links not admitted yet
        self.abandoned = 0  # how much a stop has left undone
        self.only_logged = False  # a stop broke something off, so only the logs know everything

    @property
    def under_way(self) -> int:
        """How much the rank has begun and not ended."""
        return self.visits + self.replay + self.joins

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
