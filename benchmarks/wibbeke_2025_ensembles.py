"""Wibbeke et al. 2025: deep ensembles, as published and corrected.

This script trains the ensembles of Wibbeke, Schönfisch, Rohjans and Rauh, "Evaluating the quality of the
quantified uncertainty for (re)calibration of data-driven regression models", 2025, arXiv:2508.17761, sections
4.1 to 4.3. The data are the real data sets in table 2 of the paper. An ensemble has five networks with two
layers of 64 units. Each network is trained on a bootstrap sample of the training rows (70 % of all rows),
with the likelihood, in batches of 32, for at most 200 epochs.

The published code passes outputs of shape (batch, 1) and targets of shape (batch,) to the loss. Torch
broadcasts them to (batch, batch), so each prediction is compared with the targets of all rows in its batch.
The networks therefore predict little more than the mean of y. `BroadcastNLL` reproduces this defect for the
comparison. `skuq.neural.fit_many` trains both versions together.

The paper selects the epoch on its test rows. This script selects it on out-of-bag rows.

    python wibbeke_2025_ensembles.py         # three small sets, 30 epochs: seconds
    python wibbeke_2025_ensembles.py --full  # fifteen sets, 200 epochs

The data are in a folder ``paper001``, in the folder given by the environment variable SKUQ_DATA. The seventh
set of the paper, superconductivity, is not included.
"""

import measuring
import numpy as np
import pandas as pd
import torch
from sklearn.metrics import r2_score
from wibbeke_2025_shared import (
    FULL,
    LARGE,
    Split,
    as_published,
    distances,
    group_means,
    prepare,
)

from skuq.distributions import Distribution
from skuq.neural import DeepEnsembleRegressor, Loss, NLLLoss, fit_many

SMALL = ("servo", "energy_efficiency", "airfoil_self_noise")
QUICK_EPOCHS, EPOCHS, BATCH = 30, 200, 32
FOUR_DIGITS = ("UCE", "CalS")
SHOWN = ("RMSE", "R2", "NLL", "Sharpness", "Variation", "PICP", "CalS", "ENCE", "UCE", "QCE")


# -------------------------------------------------------------------------------------------- the ensembles


class BroadcastNLL(Loss):
    """Mean likelihood of each prediction at the targets of all rows of its batch: the published defect.

    Only one of the B targets in a batch belongs to the row. The minimizer is therefore the mean of y plus 1/B
    of the deviation of E[y | X] from the mean.
    """

    def score(self, loc: torch.Tensor, variance: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the mean over the targets of the batch, the first axis."""
        mean, spread = y.mean(dim=0, keepdim=True), y.var(dim=0, correction=0, keepdim=True)
        return NLLLoss().score(loc, variance, mean) + 0.5 * spread / variance


VERSIONS: dict[str, Loss] = {"as published": BroadcastNLL(), "corrected": NLLLoss()}


def train(split: Split, epochs: int, seed: int = 0) -> dict[str, Distribution]:
    """Train both ensembles together, and return their forecasts of the test rows."""
    estimators = [
        DeepEnsembleRegressor(
            5,
            n_frequencies=0,
            input_scale=False,
            activation="relu",
            loss=loss,
            keep_best="nll",
            calibration=None,
            learning_rate=1e-3,
            batch_size=BATCH,
            max_epochs=epochs,
            net_params={"lr_schedule": "constant", "clip_norm": None},
            random_state=seed,
        )
        for loss in VERSIONS.values()
    ]
    fitted = fit_many(estimators, split.X, split.y, [split.train] * len(estimators))
    return {
        name: model.predict_dist(split.X[split.test]) for name, model in zip(VERSIONS, fitted, strict=True)
    }


def measure(y: np.ndarray, dist: Distribution) -> dict[str, float]:
    """Return the metrics of the paper's code, R2, and the variation of widths.

    The variation is the standard deviation of the predicted standard deviations, divided by their mean.
    """
    variation = dist.std().std() / dist.std().mean()
    return {"R2": r2_score(y, dist.mean()), "Variation": variation, **as_published(y, dist)}


# ----------------------------------------------------------------------------------------------- the tables


def agreement(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean rank correlations over the sets, between metrics of the same and of different groups.

    Sections 4.1 and 4.2 of the paper use the correlations to test whether metrics rank models alike. PICP is
    replaced with its distance from 0.95.
    """
    return pd.DataFrame(
        {
            version: group_means(distances(rows).corr("spearman"))
            for version, rows in results.groupby(level="version", sort=False)
        }
    ).T


def main(arguments: list[str] | None = None) -> pd.DataFrame:
    """Train both versions on each set, and show the results."""
    parser = measuring.arguments(__doc__)
    parser.add_argument("--full", action="store_true", help=f"{EPOCHS} epochs, on fifteen sets")
    parser.add_argument("--sets", nargs="+", default=SMALL, help="names of data files")
    options = parser.parse_args(arguments)
    folder = measuring.data_folder() / "paper001"
    torch.set_num_threads(1)
    names, epochs = ((*FULL, *LARGE), EPOCHS) if options.full else (options.sets, QUICK_EPOCHS)
    rows = {}
    for name in names:
        split = prepare(folder, name)
        y = split.y[split.test]
        for version, dist in train(split, epochs).items():
            rows[name, version] = {"test rows": len(y), **measure(y, dist)}
    results = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["set", "version"])
    shown = results[["test rows", *SHOWN]].rename(index=lambda name: name.replace("_", " "))
    measuring.show("wibbeke_2025_ensembles", shown, {name: 3 + (name in FOUR_DIGITS) for name in SHOWN})
    if len(names) > 3:
        table = agreement(results).rename_axis("version")
        measuring.show("wibbeke_2025_ensembles-ranks", table, 2)
    return results


if __name__ == "__main__":
    main()
