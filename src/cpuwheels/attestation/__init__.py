"""Provenance of wheels as others trust it: signed with a key or an identity, and verified. Builds import none of it."""
