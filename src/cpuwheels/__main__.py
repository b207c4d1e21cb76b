"""Run the command line with ``python -m cpuwheels``."""

from cpuwheels.cli.main import main

main()
