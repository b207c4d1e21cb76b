"""The simulation of a farm: docs/farm.md, How many machines."""
