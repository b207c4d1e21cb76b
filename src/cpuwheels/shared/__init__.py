"""Shared stores: entries of the stores in a folder, a bucket or a web server, for all who trust their writers."""
