"""Exact results, in float64, from definitions: nothing here knows how a kernel works."""
