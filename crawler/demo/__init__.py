"""The demonstration, and the web that it crawls."""
