"""What a session amounts to: measures, the report, and whether it is sound (`verify`)."""
