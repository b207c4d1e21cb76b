"""``nox -s lock``: all locks resolved anew at once, young packages left for later, and a table of what changed."""
