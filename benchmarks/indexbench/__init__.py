"""The benchmark of the wheel index."""
