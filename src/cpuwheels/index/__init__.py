"""The wheel index: static files that any web server or bucket serves."""
