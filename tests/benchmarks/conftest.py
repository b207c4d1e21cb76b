"""These tests ask no network."""

from no_network import no_network

__all__ = ["no_network"]
