"""These tests ask no network, and their stand-ins run unconfined."""

from no_network import no_network
from unconfined import unconfined

__all__ = ["no_network", "unconfined"]
