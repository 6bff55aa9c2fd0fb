"""
Save and load a fitted model
============================

Every fitted estimator can be pickled, and the loaded model returns bitwise identical
predictions. As in scikit-learn, use joblib for your own files, and skops for files from
others.
"""

import tempfile
from pathlib import Path

import joblib
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skuq import UncertaintyRegressor

X, y = load_diabetes(return_X_y=True)
model = UncertaintyRegressor(Ridge(), random_state=0).fit(X[:300], y[:300])

folder = Path(tempfile.mkdtemp())
joblib.dump(model, folder / "model.joblib")
model.predict_interval(X[300:303]).round(1)

# %%
# The loaded model predicts the same distributions:

loaded = joblib.load(folder / "model.joblib")
loaded.predict_interval(X[300:303]).round(1)

# %%
# All intervals are bitwise identical:

same = (loaded.predict_interval(X[300:]) == model.predict_interval(X[300:])).all()
print("the same intervals:", same)

# %%
# Versions
# --------
#
# A file contains the version of skuq that wrote it. Loading the file with another
# version issues :class:`~skuq.exceptions.InconsistentVersionWarning`, as in
# scikit-learn, because the model may fail or give different predictions. In production,
# turn this warning into an error, and store the versions of all packages with the file:

import warnings

from skuq.exceptions import InconsistentVersionWarning

with warnings.catch_warnings():
    warnings.simplefilter("error", InconsistentVersionWarning)
    loaded = joblib.load(folder / "model.joblib")
type(loaded).__name__

# %%
# Files that you received
# -----------------------
#
# Loading a pickle or a joblib file can execute any code. Load only files that you
# trust. ``skops.io`` (``pip install skops``) stores the attributes without code.
# Before loading, ``get_untrusted_types`` lists all types of the file that skops
# does not trust by default. Check this list:

import skops.io

skops.io.dump(model, folder / "model.skops")
types = skops.io.get_untrusted_types(file=folder / "model.skops")
print(*types, sep="\n")

# %%

loaded = skops.io.load(folder / "model.skops", trusted=types)
same = (loaded.predict_interval(X[300:]) == model.predict_interval(X[300:])).all()
print("the same intervals:", same)

# %%
# Networks
# --------
#
# A network that was trained on a GPU is stored with its weights on the CPU, so you can
# load it on a machine without a GPU. Use joblib or pickle for networks; skops does not
# support the tensors of torch.
