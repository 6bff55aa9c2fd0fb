"""Plot of the landing page and of the README: the 90 % intervals of three kinds of models.

`python docs/landing_picture.py` writes the plot with the panels in one row and, for narrow screens, one below
the other. Both files are in the repository, because the README shows the first.
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import UncertaintyRegressor
from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay
from skuq.metrics import prediction_interval_coverage

FOLDER = Path(__file__).parent / "_static"
# File: rows and columns of the panels, size in inches. Pages show the width as 800 and 370 pixels, so that a
# point is about a pixel, and the labels are as large as the text.
LAYOUTS = {"three-models.svg": (1, 3, (11, 4.3)), "three-models-narrow.svg": (3, 1, (5.1, 11.5))}
COLORS = ("#D55E00", "#0072B2", "#007A5A")  # color-blind readers can distinguish these colors
STYLE = {
    "font.size": 16.0,
    "axes.titlesize": 16.0,
    "figure.labelsize": 16.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "skuq",
}


def base_models():
    """Return the models that know nothing about uncertainty."""
    network = MLPRegressor(hidden_layer_sizes=(50,), solver="lbfgs", alpha=1.0, max_iter=1000, random_state=0)
    return {
        "Linear regression": LinearRegression(),
        "Boosting": HistGradientBoostingRegressor(min_samples_leaf=10, max_iter=40, random_state=0),
        "Neural network": make_pipeline(StandardScaler(), network),
    }


def forecasts():
    """Return weight and fuel economy of the test cars, and a forecast by each model."""
    X, y = load_auto_mpg(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X[:, [2]], y, test_size=0.5, random_state=0)
    models = {
        name: UncertaintyRegressor(base, random_state=0).fit(X_train, y_train)
        for name, base in base_models().items()
    }
    return X_test[:, 0], y_test, {name: model.predict_dist(X_test) for name, model in models.items()}


def draw(weight, economy, forecasts, rows, columns, size):
    """Return the figure with the intervals of each model."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True)
    for (name, dist), ax, color in zip(forecasts.items(), axes, COLORS, strict=True):
        PredictionBandDisplay.from_predictions(
            economy,
            dist,
            x=weight / 1000,
            ax=ax,
            coverage=0.9,
            max_bins=15,
            line_kwargs={"color": color},
            fill_kwargs={"color": color},
        )
        share = prediction_interval_coverage(economy, dist)
        ax.set(title=f"{name}\n{100 * share:.0f} % inside the band", xlabel="", ylabel="")
        ax.get_legend().remove()
        ax.locator_params(nbins=5)
    figure.supxlabel("Weight (1000 lb)")
    figure.supylabel("Miles per gallon")
    return figure


def write_pictures():
    """Write the files."""
    data = forecasts()
    for name, layout in LAYOUTS.items():
        with mpl.rc_context(STYLE):
            draw(*data, *layout).savefig(FOLDER / name, metadata={"Date": None})


if __name__ == "__main__":
    write_pictures()
