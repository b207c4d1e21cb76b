"""The doctor: what a build needs, checked before it starts."""
