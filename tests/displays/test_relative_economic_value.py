"""The display of the relative economic value."""

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_validate

from skuq.displays import RelativeEconomicValueDisplay
from skuq.evaluation import relative_economic_value


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return X, X[:, 0] + rng.normal(size=300)


def test_the_curve_has_the_values_of_the_table(data):
    X, y = data
    model = BayesianRidge().fit(X, y)
    options = {"threshold": 0.5, "event": "below", "ratios": [0.6, 0.2], "sample_weight": np.arange(300) % 2}
    display = RelativeEconomicValueDisplay.from_estimator(model, X, y, **options)
    table = relative_economic_value(y, model.predict(X, return_std=True), **options)
    assert display.line_.get_label() == "BayesianRidge"
    np.testing.assert_allclose(display.line_.get_xdata(), [0.2, 0.6])
    assert display.values.shape == (2,)
    assert table.index.tolist() == [0.6, 0.2]
    assert display.ax_.get_ylabel() == "Relative economic value"


def test_several_models_share_the_reference(data):
    X, y = data
    first = RelativeEconomicValueDisplay.from_predictions(y, (X[:, 0], 1.0), threshold=0.5, name="right")
    second = RelativeEconomicValueDisplay.from_predictions(
        y, (X[:, 0], 0.0), threshold=0.5, name="point", ax=first.ax_, line_kwargs={"c": "k"}
    )
    assert first.ref_line_ is not None
    assert second.ref_line_ is None
    labels = [text.get_text() for text in second.ax_.get_legend().get_texts()]
    assert labels == ["right", "point", "Knowledge of the frequency only"]
    assert second.line_.get_color() == "k"
    assert second.ax_.get_ylim() == (-0.25, 1.0)
    alone = RelativeEconomicValueDisplay.from_predictions(y, (X[:, 0], 1.0), threshold=0.5, ref_line=False)
    assert alone.ref_line_ is None


def test_folds_have_one_curve_each(data):
    X, y = data
    results = cross_validate(BayesianRidge(), X, y, cv=3, return_estimator=True, return_indices=True)
    display = RelativeEconomicValueDisplay.from_cv_results(results, X, y, threshold=0.5)
    assert len(display.line_) == len(display.values) == 3
    assert display.line_[0].get_label() == "BayesianRidge (3 folds)"
