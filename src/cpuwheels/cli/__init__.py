"""The command line: options in, one message and one exit code out."""
