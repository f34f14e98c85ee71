"""The partitioning job: from the link graph of the last session to the part vector of the next."""


class UserError(Exception):
    """A user's mistake. One line says what is wrong, where, and what is allowed. Exit code 2."""
