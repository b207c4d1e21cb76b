"""The install check: each library loaded in a process of its own, and which one the chooser loads."""
