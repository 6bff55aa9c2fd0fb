"""What every test and doctest needs before anything is imported."""

import os

# Pictures are drawn without a screen.
os.environ["MPLBACKEND"] = "Agg"
