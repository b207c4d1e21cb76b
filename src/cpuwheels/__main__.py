"""Run the command line with ``python -m cpuwheels``."""

from cpuwheels.cli import main

main()
