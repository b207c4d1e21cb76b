"""Serving: a real server with small models, its answers compared with those of Hugging Face transformers."""
