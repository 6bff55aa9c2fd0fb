"""The neural estimators, found by the public names, so that a new one is tested as all are."""

from skuq import neural
from skuq.neural._regressor import BaseNeuralRegressor

ESTIMATORS = [
    each
    for each in (getattr(neural, name) for name in neural.__all__)
    if isinstance(each, type) and issubclass(each, BaseNeuralRegressor)
]


def not_among(models):
    """Return the estimators of which none of the models is an instance."""
    classes = {type(model) for model in models}
    return [each for each in ESTIMATORS if each not in classes]
