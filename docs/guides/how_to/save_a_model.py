"""
Save and load a fitted model
============================

Every fitted estimator can be pickled and predicts the same bits after loading.
The options are those of scikit-learn: joblib for files of your own, skops for
files from others.
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
# The loaded model gives the same distributions:

loaded = joblib.load(folder / "model.joblib")
loaded.predict_interval(X[300:303]).round(1)

# %%
# To the last bit:

same = (loaded.predict_interval(X[300:]) == model.predict_interval(X[300:])).all()
print("the same intervals:", same)

# %%
# Versions
# --------
#
# A file carries the version of skuq that wrote it. Loading it with another
# version issues :class:`~skuq.exceptions.InconsistentVersionWarning`, as
# scikit-learn does for its own: the model may fail or predict other numbers. In
# production make that an error, and keep the versions of all packages next to the
# file:

import warnings

from skuq.exceptions import InconsistentVersionWarning

with warnings.catch_warnings():
    warnings.simplefilter("error", InconsistentVersionWarning)
    loaded = joblib.load(folder / "model.joblib")
type(loaded).__name__

# %%
# Files from others
# -----------------
#
# Loading a pickle, and therefore a joblib file, can execute any code: load only
# files that you trust. ``skops.io`` (``pip install skops``) stores the attributes
# without code and lists the types that it does not know, to be checked before
# loading:

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
# A network trained on a GPU is stored with its weights on the CPU, so that it can
# be loaded on a machine without one. joblib and pickle store networks; skops does
# not support the tensors of torch.
