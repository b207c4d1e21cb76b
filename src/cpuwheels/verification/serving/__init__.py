"""Serving a wheel: a real server, small models, and the answers that transformers gives."""
