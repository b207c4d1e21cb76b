"""The wheel stage: upstream's metadata, the overlay project, its PEP 517 build and the canonical archive."""
