"""Base class of regressors of censored targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from skuq._censoring import Bounds, read_bounds, require_events
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.training_data import TrainingData


class BaseCensoredRegressor(BaseUncertaintyRegressor):
    """Regressor whose `fit` takes the censoring as further arguments with one value per row."""

    _censoring_names: ClassVar[tuple[str, ...]] = ("event",)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Check the arguments of ``fit``. The censoring remains in the metadata, for refits on folds."""
        names = self._censoring_names
        censoring = {name: fit_params[name] for name in names if fit_params.get(name) is not None}
        others = {name: value for name, value in fit_params.items() if name not in names}
        data = super()._read(X, y, sample_weight, others, caller)
        bounds = read_bounds(data.y, **censoring)
        if bounds is None:
            return data
        require_events(bounds.known, data.sample_weight)
        return replace(data, metadata={**data.metadata, **censoring})

    def _bounds(self, data: TrainingData) -> Bounds | None:
        """Return the bounds of the targets, or None if all targets are observed."""
        return read_bounds(data.y, **{name: data.metadata.get(name) for name in self._censoring_names})
