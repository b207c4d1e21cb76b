"""What the script that makes a model imports from its own folder, as the real one does."""

CONFIG = "{}"
