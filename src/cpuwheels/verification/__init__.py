"""Verification: a finished wheel is loaded, computes, is timed, serves, and is built a second time."""
