"""The measures of a session, the report on it, and checks of its files (`verify`)."""
