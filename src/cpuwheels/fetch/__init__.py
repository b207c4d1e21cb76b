"""Fetching: files pinned by content, git commits, package indexes, and uv."""
