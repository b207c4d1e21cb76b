"""Serving benchmark: two wheels, or two settings of one wheel, served in turn and put under the same load."""
