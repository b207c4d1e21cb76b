"""Downloads that are checked by content: files, git commits, package indexes, and environments made by uv."""
