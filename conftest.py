"""What every test and doctest needs before anything is imported."""

import os
from importlib.util import find_spec

# Pictures are drawn without a screen.
os.environ["MPLBACKEND"] = "Agg"

# Doctests that need an optional package which is not there cannot even be collected.
collect_ignore = [] if find_spec("gpytorch") else ["skuq/regressors/_sparse_gaussian_process.py"]
collect_ignore += [
    f"skuq/integrations/{name}" for name in ("dask", "flaml", "mlflow", "tpot") if find_spec(name) is None
]
if find_spec("torch") is None or find_spec("skorch") is None:
    collect_ignore_glob = ["skuq/neural/*"]
