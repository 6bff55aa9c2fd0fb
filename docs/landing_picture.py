"""Plot of the landing page and of the README: the band and the calibration of one forest.

`python docs/landing_picture.py` writes the plot with the panels in one row and, for narrow screens, one below
the other. Both files are in the repository, because the README shows the first.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_auto_mpg
from skuq.displays import CalibrationCurveDisplay, PredictionBandDisplay
from skuq.distributions import Empirical
from skuq.metrics import prediction_interval_coverage

FOLDER = Path(__file__).parent / "_static"
# File: rows and columns of the panels, size in inches.
LAYOUTS = {"before-after.svg": (1, 3, (11, 3.6)), "before-after-narrow.svg": (3, 1, (4.4, 10.0))}
COLORS = ("#D55E00", "#0072B2")  # orange and blue are distinguishable by color-blind readers
STYLE = {
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "skuq",
}


def forecasts():
    """Return weight and fuel economy of the test cars, and two forecasts by one forest."""
    X, y = load_auto_mpg(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X[:, [2]], y, test_size=0.5, random_state=0)
    forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0)
    trees = forest.fit(X_train, y_train).estimators_
    before = Empirical(np.column_stack([tree.predict(X_test) for tree in trees]))
    after = UncertaintyRegressor(forest, random_state=0).fit(X_train, y_train).predict_dist(X_test)
    return X_test[:, 0], y_test, {"Spread of the trees": before, "UncertaintyRegressor": after}


def draw(weight, economy, both, rows, columns, size):
    """Return the figure: both bands, and both calibration curves on one axes."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns)
    axes[1].sharey(axes[0])
    for (name, dist), ax, color in zip(both.items(), axes[:2], COLORS, strict=True):
        PredictionBandDisplay.from_predictions(
            economy,
            dist,
            x=weight,
            x_name="Weight (lb)",
            target_name="miles per gallon",
            ax=ax,
            max_bins=15,
            line_kwargs={"color": color},
            fill_kwargs={"color": color},
        )
        share = prediction_interval_coverage(economy, dist)
        ax.set_title(f"{name}\n90 % intervals contain {100 * share:.0f} %")
        ax.get_legend().remove()
        CalibrationCurveDisplay.from_predictions(
            economy, dist, name=name, ax=axes[2], band=None, line_kwargs={"color": color}
        )
    axes[2].set(title="Calibration of all quantiles", ylabel="Observed share of rows (%)")
    return figure


def write_pictures():
    """Write the files."""
    data = forecasts()
    for name, layout in LAYOUTS.items():
        with mpl.rc_context(STYLE):
            draw(*data, *layout).savefig(FOLDER / name, metadata={"Date": None})


if __name__ == "__main__":
    write_pictures()
