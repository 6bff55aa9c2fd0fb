"""Command line of skuq: ``python -m skuq --help``."""

import sys

from skuq.report._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
