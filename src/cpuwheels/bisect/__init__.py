"""Bisection: which commit made something bad, found with as little building as possible."""
