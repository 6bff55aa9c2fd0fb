"""Joint gradient boosting of location and log-scale, with trees of LightGBM or scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from skuq._censoring import Bounds
from skuq._typing import FloatArray, IntArray
from skuq.survival._likelihood import constant_fit, derivatives, loss

SLOWER_SCALE = 0.25
"""Learning rate of the log-scale, relative to the learning rate of the location."""

PATIENCE = 20
"""Boosting ends after this number of rounds without a better held-out likelihood."""


class Rows(NamedTuple):
    """Features, bounds of the targets and weights of n rows."""

    X: FloatArray
    bounds: Bounds
    weight: FloatArray

    def take(self, part: IntArray) -> Rows:
        """Return the rows of a part that have a positive weight."""
        kept = part[self.weight[part] > 0]
        return Rows(self.X[kept], self.bounds.take(kept), self.weight[kept])


@dataclass(frozen=True)
class TreeOptions:
    """Parameters of the boosting."""

    n_estimators: int
    learning_rate: float
    max_leaf_nodes: int
    min_samples_leaf: int
    seed: int


def has_lightgbm() -> bool:
    return find_spec("lightgbm") is not None


def mean_loss(rows: Rows, theta: FloatArray) -> float:
    return float(rows.weight @ loss(rows.bounds, theta) / rows.weight.sum())


def slowed_derivatives(rows: Rows, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and curvature of the weighted loss, with a smaller gradient for the log-scale."""
    gradient, curvature = derivatives(rows.bounds, theta)
    gradient[:, 1] *= SLOWER_SCALE
    weight = rows.weight[:, np.newaxis]
    return weight * gradient, weight * curvature


class LightGBMTrees:
    """Boosted trees of LightGBM."""

    def __init__(self, train: Rows, held_out: Rows, options: TreeOptions) -> None:
        import lightgbm

        # LightGBM does not use the label here, but the label must be finite.
        train_set = lightgbm.Dataset(train.X, train.weight)
        valid_set = train_set.create_valid(held_out.X, held_out.weight)

        def objective(theta: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
            return slowed_derivatives(train, theta.reshape(-1, 2))

        def score(theta: FloatArray, _: Any) -> tuple[str, float, bool]:
            return "nll", mean_loss(held_out, theta.reshape(-1, 2)), False

        settings = {
            "objective": objective,
            "num_class": 2,
            "learning_rate": options.learning_rate,
            "num_leaves": options.max_leaf_nodes,
            "min_data_in_leaf": options.min_samples_leaf,
            "feature_pre_filter": False,  # Without any feature, LightGBM stops with an error.
            "boost_from_average": False,
            "metric": "None",
            "seed": options.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        self._booster = lightgbm.train(
            settings, train_set, options.n_estimators, valid_sets=[valid_set], feval=score, callbacks=[stop]
        )

    def predict(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._booster.predict(X, raw_score=True, num_threads=1))


class SklearnTrees:
    """Boosted trees of scikit-learn."""

    def __init__(self, train: Rows, held_out: Rows, options: TreeOptions) -> None:
        self._rate = options.learning_rate
        self._trees: list[list[DecisionTreeRegressor]] = []
        theta, held_theta = (np.zeros((len(rows.X), 2)) for rows in (train, held_out))
        rng = np.random.RandomState(options.seed)
        best, best_round = mean_loss(held_out, held_theta), 0
        for round_ in range(1, options.n_estimators + 1):
            gradient, curvature = slowed_derivatives(train, theta)
            trees = [
                DecisionTreeRegressor(
                    max_leaf_nodes=options.max_leaf_nodes,
                    min_samples_leaf=options.min_samples_leaf,
                    random_state=rng,
                ).fit(train.X, -slope / bend, sample_weight=bend)
                for slope, bend in zip(gradient.T, curvature.T, strict=True)
            ]
            self._trees.append(trees)
            theta, held_theta = theta + self._step(trees, train.X), held_theta + self._step(trees, held_out.X)
            value = mean_loss(held_out, held_theta)
            if value < best:
                best, best_round = value, round_
            elif round_ - best_round >= PATIENCE:
                break
        del self._trees[best_round:]

    def _step(self, trees: list[DecisionTreeRegressor], X: FloatArray) -> FloatArray:
        return self._rate * np.column_stack([tree.predict(X) for tree in trees])

    def predict(self, X: FloatArray) -> FloatArray:
        return sum((self._step(trees, X) for trees in self._trees), start=np.zeros((len(X), 2)))


ENGINES: dict[str, Any] = {"lightgbm": LightGBMTrees, "sklearn": SklearnTrees}


class BoostedFold:
    """Boosted trees. Targets are standardized by the best normal distribution without features."""

    def __init__(self, engine: str, train: Rows, held_out: Rows, options: TreeOptions) -> None:
        self._center, self._log_unit = constant_fit(train.bounds, train.weight).tolist()
        self._trees = ENGINES[engine](self._standard(train), self._standard(held_out), options)

    def _standard(self, rows: Rows) -> Rows:
        unit = np.exp(self._log_unit)
        ends = ((end - self._center) / unit for end in (rows.bounds.lower, rows.bounds.upper))
        return rows._replace(bounds=Bounds(*ends))

    def predict(self, X: FloatArray) -> FloatArray:
        """Return location and log-scale, shape (n, 2)."""
        theta = self._trees.predict(X)
        return np.column_stack(
            [self._center + np.exp(self._log_unit) * theta[:, 0], self._log_unit + theta[:, 1]]
        )
