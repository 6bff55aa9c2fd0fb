"""The neural estimators, found by the public names, so that a new one is tested as all are."""

from skuq import neural
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._regressor import BaseNeuralRegressor


def public(base):
    """Return the public classes that are derived from one."""
    classes = [getattr(neural, name) for name in neural.__all__]
    return [each for each in classes if isinstance(each, type) and issubclass(each, base)]


ESTIMATORS = public(BaseNeuralRegressor)
CLASSIFIERS = public(BaseNeuralClassifier)


def not_among(models, estimators=ESTIMATORS):
    """Return the estimators of which none of the models is an instance."""
    classes = {type(model) for model in models}
    return [each for each in estimators if each not in classes]
