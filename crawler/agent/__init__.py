"""What runs on a rank: its stages, its life, planning, resuming, stopping, progress."""
