"""What a cycle of URL uniqueness costs, by the papers' models."""
