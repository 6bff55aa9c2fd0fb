"""Command line of skuq: ``python -m skuq --help``."""

import sys

from skuq.report._cli import main

if __name__ == "__main__":
    sys.exit(main())
