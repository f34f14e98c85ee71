"""Decides which URL is fetched when, and which rank owns it. Does no I/O."""
