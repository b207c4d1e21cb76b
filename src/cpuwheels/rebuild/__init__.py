"""A published wheel built again from what it says of itself, compared byte by byte, and what is stated of that."""
