"""Rebuilders: whose statements about the wheels of an index count, where they are fetched, and what they say."""
