"""Bisection: the first commit with a bad wheel, found with as little compilation as possible."""
