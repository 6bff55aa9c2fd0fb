"""
A report as one HTML page
=========================

:class:`~skuq.report.HTMLReport` states in plain words what is wrong with a forecast and which class
corrects it. The page contains all metrics and figures and does not need any other file.
"""

import tempfile
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

from skuq.displays import CalibrationCurveDisplay
from skuq.distributions import Normal
from skuq.report import HTMLReport

rng = np.random.default_rng(0)
mean, std = rng.normal(size=800), rng.uniform(0.5, 2.0, size=800)
y = rng.normal(mean, 1.5 * std)
season = np.where(rng.random(800) < 0.5, "summer", "winter")

report = HTMLReport.from_predictions(
    y, Normal(mean, std), groups=season, n_resamples=100, n_draws=50, title="Demand forecast"
)
for finding in report.findings["model"]:
    print(fill(f"{finding.severity}: {finding.title}. {finding.words}", width=84))
    for tool in finding.tools:
        print("  try", tool.name)

# %%
# ``save`` writes the page, and its values as JSON.
page = report.save(Path(tempfile.mkdtemp()) / "report.html")
print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB")

# %%
# The page contains this figure, among others:
CalibrationCurveDisplay.from_predictions(y, Normal(mean, std), name="Demand forecast")
plt.show()
