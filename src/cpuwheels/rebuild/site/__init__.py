"""What a rebuilder publishes: a folder of statements for any web server, filled with what is new in an index."""
