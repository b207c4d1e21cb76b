"""uv asks no network here; `made` is a build environment with pinned tools and a pinned torch."""

from no_network import no_network
from offline_uv import links, made, request_, settings

__all__ = ["links", "made", "no_network", "request_", "settings"]
