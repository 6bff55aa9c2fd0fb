"""
Send a report
=============

:class:`~skuq.report.HTMLReport` writes the evaluation of a model as one HTML page.
The page needs no other file and no internet connection, so you can send it by email.
The command ``python -m skuq report`` writes the same page from files, without Python
code. The forecasts in the files can come from any program.

The model on this page is a random forest whose predicted uncertainty is the spread of
its trees:
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_abalone
from skuq.regressors import BootstrapRegressor
from skuq.report import HTMLReport

X, y = load_abalone(return_X_y=True, as_frame=True)
sex = X.pop("Sex")
X_train, X_test, y_train, y_test, _, sex_test = train_test_split(
    X, y, sex, train_size=1500, test_size=400, random_state=0
)
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0).fit(X_train, y_train)

report = HTMLReport.from_estimator(model, X_test, y_test, groups=sex_test)
report

# %%
# ``verbose=1`` writes the progress of the report to stderr.
#
# The first section describes each problem in plain words and recommends a next step
# and the class that corrects the problem. The findings are also available in Python:

for finding in report.findings["BootstrapRegressor"]:
    print(f"{finding.severity}: {finding.title}")

# %%
# ``save`` writes the page, and a JSON file with all of its values. If writing fails,
# no incomplete file is left:

import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
report.save(folder / "report.html")
sorted(path.name for path in folder.iterdir())

# %%
# The last section of the page states the origin of the numbers: the call, the seed,
# the time, the versions of all packages, and a hash of the data. The page contains the
# current time. To get identical files from every run, pass a fixed time as
# ``created=``.
#
# Other constructors
# ------------------
#
# ``from_predictions`` takes the forecasts of one model, or a mapping from model names
# to forecasts. ``from_cv_results`` takes the result of scikit-learn's
# ``cross_validate``. ``from_reports`` shows several results of
# :func:`~skuq.evaluation.uncertainty_report` on one page. ``from_accumulator`` takes a
# :class:`~skuq.monitoring.MetricAccumulator` or a
# :class:`~skuq.monitoring.ClassMetricAccumulator`. Use it if the rows do not fit into
# memory. The same constructors accept classifiers.
#
# From a file
# -----------
#
# The command reads a CSV or Parquet file with one row per forecast. Its options name
# the columns of the file:

dist = model.predict_dist(X_test)
table = pd.DataFrame({"rings": y_test, "mean": dist.mean(), "std": dist.std()})
table = table.assign(sex=sex_test).query("std > 0")
table.to_csv(folder / "forecasts.csv", index=False)

import subprocess
import sys

command = [sys.executable, "-m", "skuq", "report", "forecasts.csv", "--y", "rings"]
command += ["--loc", "mean", "--scale", "std", "--groups", "sex", "-o", "page.html"]
command += ["--resamples", "100", "--draws", "50"]
result = subprocess.run(
    command, cwd=folder, capture_output=True, text=True, check=False
)
print(result.stdout)

# %%
# In a shell, the command is::
#
#     python -m skuq report forecasts.csv --y rings --loc mean --scale std \
#         --groups sex -o page.html
#
# Other options describe other forecasts:
#
# .. list-table::
#     :header-rows: 1
#     :widths: 55 45
#
#     * - option
#       - forecast
#     * - ``--loc mean --scale std``
#       - normal distributions
#     * - ``--quantiles "q05=.05,q50=.5,q95=.95"``
#       - quantiles at these levels
#     * - ``--members "member_*"``
#       - members of an ensemble, or samples
#     * - ``--lower low --upper high --coverage 0.8``
#       - bounds of intervals
#     * - ``--proba "p_cat=cat,p_dog=dog"``
#       - probabilities of classes
#
# ``--weight``, ``--groups`` and ``--time`` name further columns. To compare several
# models for the same rows, pass one file per model. Large files are read in
# blocks of rows: Parquet files of more than one million rows, and CSV files of more
# than 50 MB. ``--block-rows`` also reads smaller files in blocks.
# ``python -m skuq report --help`` lists all options.
#
# If an error occurs, no page is written. The command prints one line to stderr, which
# states the file, the column and the row. Rows are counted from 1, without the header.
# The exit code is 2 for an error in the files or options, and 1 for an error in skuq
# itself:

from textwrap import fill

table.assign(std=np.where(table.index == table.index[6], -1, table["std"])).to_csv(
    folder / "forecasts.csv", index=False
)
result = subprocess.run(
    command, cwd=folder, capture_output=True, text=True, check=False
)
print("exit code", result.returncode)
print(fill(result.stderr, width=70))
