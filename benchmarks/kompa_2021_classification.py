"""Kompa et al. 2021, classification: prediction sets of seven methods on rotated and rolled digits.

This script compares our results with table A3 and figure 5 of Kompa, Snoek and Beam, "Empirical frequentist
coverage of deep learning uncertainty quantification procedures", Entropy 23(12), 1608, 2021,
doi:10.3390/e23121608. The data are the images of MNIST. The results are the coverage and the mean size of
prediction sets. A prediction set is the smallest set of classes whose probabilities sum to at least 95 %.

The paper evaluates the predictions that Ovadia et al. (2019) made with convolutional networks (LeNet). This
script trains perceptrons, and LeNet on fewer images.

    python kompa_2021_classification.py  # perceptrons, 10 000 images: minutes
    python kompa_2021_classification.py --full --out full.jsonl

--full trains perceptrons on 50 000 images in three runs, and an ensemble and dropout of LeNet on 10 000
images in one run. A run with --out can be interrupted and resumed, and --plot draws the figure. The images
are in ``other/mnist_train60k.npz`` and ``other/mnist_test10k.npz``, as arrays ``images`` and ``labels`` in
the official order, in the folder given by the environment variable SKUQ_DATA.
``kompa_2021_classification_reference.csv`` has the results of the paper for five runs of each method, from
the data that its authors published (github.com/beamlab-hsph/coverage_quantification, Apache License 2.0).
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import pandas as pd
from scipy import ndimage
from scipy.special import entr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, brier_score_loss
from torch import nn

from skuq.conformal import ConformalClassifier
from skuq.metrics import (
    expected_calibration_error,
    mean_set_size,
    set_coverage_error,
    set_coverage_score,
)
from skuq.neural import DeepEnsembleClassifier, MCDropoutClassifier, VariationalClassifier

PAPER = pd.read_csv(Path(__file__).with_name("kompa_2021_classification_reference.csv"))
COVERAGE, WIDTH, N_TRAIN = 0.95, 28, 50_000
DEGREES, PIXELS = range(15, 181, 15), range(2, 27, 2)


# -------------------------------------------------------------------------------- the data and the shifts


def rotate(X: np.ndarray, severity: float, random_state: int | None = None) -> np.ndarray:
    """Rotate images by an angle in degrees on an enlarged canvas, and return their middle.

    The spline exceeds the range of the pixels by up to a third. Values are not clipped, as in the paper.
    """
    turned = ndimage.rotate(X.reshape(-1, WIDTH, WIDTH), severity, axes=(1, 2))
    top, left = ((size - WIDTH) // 2 for size in turned.shape[1:])
    return turned[:, top : top + WIDTH, left : left + WIDTH].reshape(len(X), -1)


def roll(X: np.ndarray, severity: float, random_state: int | None = None) -> np.ndarray:
    """Roll images to the right by a number of pixels; columns that leave on the right return on the left."""
    return np.roll(X.reshape(-1, WIDTH, WIDTH), int(severity), axis=2).reshape(len(X), -1)


SPLITS: dict[str, tuple[Callable[..., np.ndarray], int]] = {
    "none 0": (roll, 0),
    **{f"rotation {degrees}": (rotate, degrees) for degrees in DEGREES},
    **{f"translation {pixels}": (roll, pixels) for pixels in PIXELS},
}


@dataclass(frozen=True)
class Setting:
    """Networks, numbers of images and epochs of a run."""

    net: str = "perceptron"
    rows: int = 10_000
    valid_rows: int = 5_000
    test_rows: int = 2_500
    epochs: int = 20
    batch_size: int = 128
    members: int = 10
    draws: int = 20
    runs: int = 1


SMALL = Setting()
FULL = Setting("perceptron", N_TRAIN, 10_000, 10_000, batch_size=256, draws=50, runs=3)
LENET = Setting("LeNet", test_rows=1_000, epochs=12, members=3)

Rows = tuple[np.ndarray, np.ndarray]


def load(folder: Path, setting: Setting) -> tuple[Rows, Rows, Rows]:
    """Return pixels in [0, 1] and labels for training, validation and test."""
    train, test = (np.load(folder / "other" / f"mnist_{name}.npz") for name in ("train60k", "test10k"))
    # Test rows are spread over all images, because the first half is harder than the second.
    tested = np.arange(setting.test_rows) * len(test["labels"]) // setting.test_rows
    return (
        images(train, slice(0, setting.rows)),
        images(train, slice(N_TRAIN, N_TRAIN + setting.valid_rows)),
        images(test, tested),
    )


def images(data: Any, rows: Any) -> Rows:
    """Return pixels in [0, 1] and labels of some rows."""
    return np.float32(data["images"][rows].reshape(-1, WIDTH**2)) / np.float32(255), data["labels"][rows]


# ------------------------------------------------------------------------------------------ the networks


def lenet(n_features: int, n_outputs: int) -> nn.Module:
    """Return the network of Ovadia et al. (2019), with the dropout of their vanilla method."""
    rate, n_hidden = 0.285, 128
    layers = [nn.Unflatten(1, (1, WIDTH, WIDTH)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3)]
    layers += [nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(rate), nn.Flatten(), nn.Linear(64 * 12**2, n_hidden)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Dropout(rate), nn.Linear(n_hidden, n_outputs))


def networks(system: str, setting: Setting, run: int) -> list[Any]:
    """Return untrained classifiers, whose members or draws are averaged.

    Pixels are scaled to [0, 1] but not standardized, because some pixels are almost always 0 and have a tiny
    standard deviation.
    """
    is_lenet = setting.net == "LeNet"
    settings = {
        "hidden_layer_sizes": (128,) if is_lenet else (200, 200),
        "standardize": False,
        "keep_best": False,
        "net_params": {"lr_schedule": "constant"},
        "batch_size": setting.batch_size,
        "max_epochs": setting.epochs,
        "random_state": run,
    }
    if is_lenet:
        settings["module"] = lenet
    if system == "ensemble":
        plain = partial(DeepEnsembleClassifier, bootstrap=False, learning_rate=1e-3)
        if not is_lenet:
            return [plain(setting.members, **settings)]
        # Joint training of convolutions is not faster.
        seeds = [run * setting.members + member for member in range(setting.members)]
        return [plain(1, **settings | {"random_state": seed}) for seed in seeds]
    settings |= {"last_layer": system.startswith("LL"), "n_draws": setting.draws}
    if system.endswith("dropout"):
        return [MCDropoutClassifier(dropout=0.2, learning_rate=1e-3, **settings)]
    return [VariationalClassifier(prior=1.0, learning_rate=3e-3, **settings)]


SYSTEMS = {
    "ensemble": ("vanilla", "temperature", "ensemble", "ensemble, temperature"),
    **{name: (name,) for name in ("dropout", "LL dropout", "SVI", "LL SVI")},
}
METHODS = tuple(method for methods in SYSTEMS.values() for method in methods)


def forecasts(system: str, members: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Return the forecasts of each method, from the forecasts of members or draws, of shape (n, M, K).

    Each member of the ensemble also serves as a vanilla method, with and without temperature.
    """
    mean, single = [members.mean(axis=1)], list(np.moveaxis(members, 1, 0))
    return {method: single if method in ("vanilla", "temperature") else mean for method in SYSTEMS[system]}


# ------------------------------------------------------------------------------------------- one method


class Given(ClassifierMixin, BaseEstimator):
    """Classifier that returns its features as probabilities, to calibrate given forecasts."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Given":
        """Do nothing, because the forecasts are given."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the features."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the most probable class."""
        return self.classes_[X.argmax(axis=1)]


def calibrate(method: str, proba: np.ndarray, y: np.ndarray) -> ConformalClassifier:
    """Return a conformal classifier that calibrates the probabilities of the method."""
    model = FrozenEstimator(Given().fit(proba, y))
    if "temperature" in method:
        model = FrozenEstimator(CalibratedClassifierCV(model, method="temperature").fit(proba, y))
    # If the accuracy is above nominal, sets that are never empty also cover more than nominal.
    return ConformalClassifier(model, "lac", allow_empty=True).fit(proba, y)


def scores(model: ConformalClassifier, given: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the scores of the probabilities, of their smallest sets, and of conformal sets."""
    proba, conformal = model.predict_proba(given), model.predict_set(given, COVERAGE)
    known: dict[str, Any] = {"labels": model.classes_}
    return {
        "coverage": set_coverage_score(y, proba, coverage=COVERAGE, **known),
        "size": mean_set_size(y, proba, coverage=COVERAGE),
        "excess": set_coverage_error(y, proba, coverage=COVERAGE, signed=True, **known),
        "conformal coverage": set_coverage_score(y, conformal, **known),
        "conformal size": mean_set_size(y, conformal),
        "accuracy": accuracy_score(y, model.classes_[proba.argmax(axis=1)]),
        "Brier": brier_score_loss(y, proba, **known),
        "ECE": expected_calibration_error(y, proba, **known),
    }


def mutual_information(members: np.ndarray) -> float:
    """Return the mean entropy of the average forecast minus the mean entropy of the forecasts."""
    total, aleatoric = entr(members.mean(axis=1)).sum(axis=1), entr(members).sum(axis=2).mean(axis=1)
    return float((total - aleatoric).mean())


def measure(system: str, setting: Setting, data: tuple[Rows, Rows, Rows], run: int) -> dict[str, Any]:
    """Train the networks, and return the scores of their methods on each split."""
    (X_train, y_train), (X_valid, y_valid), (X_test, y_test) = data
    models = [model.fit(X_train, y_train) for model in networks(system, setting, run)]

    def members_of(X: np.ndarray) -> np.ndarray:
        return np.concatenate([model.predict_members(X) for model in models], axis=1, dtype=float)

    calibrated = {
        method: [calibrate(method, proba, y_valid) for proba in probas]
        for method, probas in forecasts(system, members_of(X_valid)).items()
    }
    results: dict[str, dict[str, dict[str, float]]] = {method: {} for method in SYSTEMS[system]}
    for split, (shift, severity) in SPLITS.items():
        members = members_of(shift(X_test, severity))
        for method, probas in forecasts(system, members).items():
            each = [scores(*pair, y_test) for pair in zip(calibrated[method], probas, strict=True)]
            results[method][split] = pd.DataFrame(each).mean().to_dict()
        results[system][split]["information"] = mutual_information(members)
    return {"system": system, "run": run, "methods": results}


# -------------------------------------------------------------------------------------------- the tables


def as_frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Return a row for each method, shift, severity and run, in the format of the paper's results."""
    rows = []
    for record in records:
        for method, splits in record["methods"].items():
            for split, found in splits.items():
                shift, severity = split.split()
                where = {"method": method, "shift": shift, "severity": int(severity), "run": record["run"]}
                rows.append(where | found)
    frame = pd.DataFrame(rows)
    return frame.sort_values("method", key=lambda names: names.map(METHODS.index), kind="stable")


def mean_over(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the mean over severities of a shift, and the standard deviation of this mean over runs."""
    runs = frame.groupby(["method", "shift", "run"])[column].mean().groupby(["method", "shift"])
    return pd.DataFrame({"mean": runs.mean(), "std": runs.std()})


def correlation(frame: pd.DataFrame) -> pd.Series:
    """Return Pearson's correlation of the size of the sets with the distance that images are rolled."""
    rolled = frame[frame["shift"] == "translation"]
    rolled = rolled.assign(distance=WIDTH // 2 - (rolled["severity"] - WIDTH // 2).abs())
    return rolled.groupby("method")[["size", "distance"]].apply(
        lambda part: part["size"].corr(part["distance"])
    )


def table_a3(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean coverage and size on test, rotated and rolled images, and the correlation with the roll."""
    coverage, size, related = mean_over(frame, "coverage"), mean_over(frame, "size"), correlation(frame)
    rows = {}
    for method in frame["method"].unique():
        row = {}
        for shift, name in (("none", "test"), ("rotation", "rotation"), ("translation", "translation")):
            cover, spread = coverage.loc[(method, shift)]
            error = "" if np.isnan(spread) or shift == "none" else f" ± {spread:.3f}"
            row[name] = f"{cover:.3f}{error}, {size.loc[(method, shift), 'mean']:.2f}"
        rows[method] = row | {"r": f"{related[method]:.2f}"}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def beside_paper(ours: pd.DataFrame, theirs: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return the columns of our table, each followed by the paper's column."""
    parts = {}
    for column in columns:
        parts[column] = ours[column]
        parts[f"{column}, paper"] = theirs[column].reindex(ours.index).fillna("")
    return pd.DataFrame(parts)


def by_severity(frame: pd.DataFrame, shift: str, column: str) -> pd.DataFrame:
    """Return means over runs, with one row per method and one column per severity."""
    chosen = frame[frame["shift"].isin([shift, "none"])].dropna(subset=[column])
    means = chosen.pivot_table(column, "method", "severity", aggfunc="mean").rename_axis(columns=None)
    return means.reindex([method for method in METHODS if method in means.index])


def figure_5(frame: pd.DataFrame, shift: str) -> pd.DataFrame:
    """Return the coverage of each method at each severity: our row, then the row of the paper."""
    ours, theirs = by_severity(frame, shift, "coverage"), by_severity(PAPER, shift, "coverage")
    rows = {}
    for method, row in ours.iterrows():
        rows[method] = row
        if method in theirs.index:
            rows[f"{method}, paper"] = theirs.loc[method]
    return pd.DataFrame(rows).T.map("{:.3f}".format).rename_axis("method")


def at_splits(frame: pd.DataFrame, splits: list[str], columns: list[str], digits: int) -> pd.DataFrame:
    """Return the means of some scores over runs, with one cell per method and split."""
    names = frame["shift"] + " " + frame["severity"].astype(str)
    parts = {}
    for split in splits:
        means = frame[names == split].groupby("method", sort=False)[columns].mean()
        cells = means.map(lambda value: f"{value:.{digits}f}").agg(", ".join, axis=1)
        parts["test" if split == "none 0" else split] = cells
    return pd.DataFrame(parts).rename_axis("method")


def coverage_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, size and correlation of our networks, each beside the paper's."""
    return beside_paper(table_a3(frame), table_a3(PAPER), ("test", "rotation", "translation", "r"))


def tables(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return all tables by the ends of their names."""
    turned = [f"rotation {degrees}" for degrees in (15, 30, 45, 90)]
    splits = ["none 0", *turned, "translation 2", "translation 4"]
    some = ["none 0", "rotation 30", "rotation 90", "translation 4"]
    information = by_severity(frame, "translation", "information").map("{:.3f}".format)
    return {
        "coverage": coverage_table(frame),
        "rotation": figure_5(frame, "rotation"),
        "translation": figure_5(frame, "translation"),
        "excess": at_splits(frame, splits, ["excess"], 3),
        "conformal": at_splits(frame, splits, ["conformal coverage", "conformal size"], 2),
        "scores": at_splits(frame, some, ["accuracy", "ECE", "Brier"], 3),
        "information": information,
    }


def plot(frame: pd.DataFrame, file: Path) -> None:
    """Draw figure 5: our coverage and size, and the values of the paper for two methods."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.4), sharex="col", sharey="row", layout="constrained")
    for (column, label), row in zip((("coverage", "coverage"), ("size", "mean size")), axes, strict=True):
        for shift, ax in zip(("rotation", "translation"), row, strict=True):
            for number, (method, values) in enumerate(by_severity(frame, shift, column).iterrows()):
                ax.plot(values.index, values, color=f"C{number}", marker=".", label=method)
                if method in ("vanilla", "SVI"):
                    theirs = by_severity(PAPER, shift, column).loc[method]
                    ax.plot(theirs.index, theirs, ":", color=f"C{number}", label=f"{method}, paper")
        row[0].set_ylabel(f"{label} of the sets")
    axes[1, 0].set_xlabel("rotation (degrees)")
    axes[1, 1].set_xlabel("translation (pixels)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    with plt.rc_context({"svg.hashsalt": "skuq"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


# --------------------------------------------------------------------------------------- the command line


def completed(setting: Setting, out: Path | None) -> pd.DataFrame:
    """Return the results of a setting; runs that are in the file are not repeated."""
    records = {}
    for record in measuring.stored(out) if out else []:
        if replace(Setting(**record["setting"]), runs=setting.runs) == setting:
            records[record["system"], record["run"]] = record
    systems = list(SYSTEMS) if setting.net == "perceptron" else ["ensemble", "dropout"]
    wanted = [(system, run) for run in range(setting.runs) for system in systems]
    missing = [key for key in wanted if key not in records]
    data = load(measuring.data_folder(), setting) if missing else None
    for system, run in missing:
        records[system, run] = {"setting": asdict(setting), **measure(system, setting, data, run)}
        if out:
            with out.open("a") as file:
                file.write(json.dumps(records[system, run]) + "\n")
    return as_frame([records[key] for key in wanted])


def main(arguments: list[str] | None = None) -> None:
    """Run the missing runs, and show the tables."""
    parser = measuring.arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="the runs of the documentation")
    parser.add_argument("--out", type=Path, help="file of results, one per line; finished runs are skipped")
    parser.add_argument("--plot", type=Path, help="file of the figure")
    options = parser.parse_args(arguments)
    frame = completed(FULL if options.full else SMALL, options.out)
    for end, table in tables(frame).items():
        measuring.show(f"kompa_2021_classification-{end}", table)
    if options.plot:
        plot(frame, options.plot)
    if options.full:
        measuring.show("kompa_2021_classification-LeNet", coverage_table(completed(LENET, options.out)))


if __name__ == "__main__":
    main()
