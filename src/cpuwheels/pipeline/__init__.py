"""The order of the stages, from a source to a tested wheel in the output folder; no other package knows it."""
