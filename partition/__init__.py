"""The partitioning job: from the link graph of the last session to the part vector of the next."""


class UserError(Exception):
    """A user's mistake: one line that says what, where, and what is allowed. Exit code 2."""
