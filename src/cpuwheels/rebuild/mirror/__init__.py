"""A folder with all that some wheels are built from, by digest, so that they can be built without a network."""
