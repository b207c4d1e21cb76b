"""uv asks no network here."""

from offline_uv import links, made, request_, settings

__all__ = ["links", "made", "request_", "settings"]
