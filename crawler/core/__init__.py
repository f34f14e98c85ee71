"""What decides, without I/O: which URL is fetched when, and which rank owns it."""
