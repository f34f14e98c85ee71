"""The partitioning job: from the link graph of the last session to the part vector of the next."""
