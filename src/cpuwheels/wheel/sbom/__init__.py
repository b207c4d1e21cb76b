"""A bill of materials: its parts, its one form as bytes, and whether it keeps to the schema of CycloneDX."""
