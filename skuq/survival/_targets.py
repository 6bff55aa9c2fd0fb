"""Censored targets of scikit-survival, and the base class of the regressors of censored targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skuq._censoring import Bounds, check_times, read_bounds, require_events, step_masses
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray
from skuq._validation import check_target
from skuq.distributions import Empirical
from skuq.prediction._register import check_predictions


class CensoredTarget(NamedTuple):
    """Times and the mask of observed events; returned by `from_survival`.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Time of the event, or of the censoring.
    event : ndarray of bool, shape (n,)
        True if the event was observed.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.survival._targets import CensoredTarget
    >>> CensoredTarget(np.array([3.0, 5.0]), np.array([True, False])).event
    array([ True, False])
    """

    y: FloatArray
    event: BoolArray


def from_survival(y: Any) -> CensoredTarget:
    """Return the times and the observed events of a structured array of scikit-survival.

    skuq does not use structured arrays. Pass the times as y, and the events as the argument ``event`` of
    ``fit`` and of the metrics. Splitters and searches then divide both into folds.

    Parameters
    ----------
    y : structured array of shape (n,)
        Array with two fields, in any order: a boolean field, which is True if the event was observed, and a
        numeric field with the times. ``sksurv.util.Surv`` makes such arrays.

    Returns
    -------
    target : CensoredTarget
        The tuple ``(y, event)``.

    Raises
    ------
    TypeError
        If the array does not have one boolean and one numeric field.
    ValueError
        If times are negative or not finite.

    See Also
    --------
    kaplan_meier_curve : Survival curve of censored times.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.survival import from_survival
    >>> y = np.array([(True, 3.0), (False, 5.0)], dtype=[("death", bool), ("days", float)])
    >>> from_survival(y)
    CensoredTarget(y=array([3., 5.]), event=array([ True, False]))
    """
    fields = getattr(getattr(y, "dtype", None), "fields", None) or {}
    kinds = {name: dtype.kind for name, (dtype, *_) in fields.items()}
    events = [name for name, kind in kinds.items() if kind == "b"]
    times = [name for name, kind in kinds.items() if kind in "fiu"]
    if len(fields) != 2 or len(events) != 1 or len(times) != 1:
        raise TypeError(
            "`y` must be a structured array with one boolean field (event) and one numeric field (time), got "
            f"{getattr(y, 'dtype', type(y).__name__)}. If times and events are separate arrays, pass them "
            "as `y` and `event`."
        )
    time = check_times(check_target(np.asarray(y[times[0]]), "y"), "y")
    return CensoredTarget(time, np.array(y[events[0]]))


def steps_dist(estimator: Any, X: Any) -> Empirical:
    """Return the steps of the survival functions. All later times form one step just after the last time."""
    functions = estimator.predict_survival_function(X)
    survival = check_predictions(np.stack([function.y for function in functions]), estimator)
    times, steps = step_masses(np.asarray(functions[0].x, dtype=np.float64), survival)
    return Empirical(np.tile(times, (len(steps), 1)), np.maximum(steps, 0.0))


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
        require_events(bounds.known, data.repetitions)
        return replace(data, metadata={**data.metadata, **censoring})

    def _bounds(self, data: TrainingData) -> Bounds | None:
        """Return the bounds of the targets, or None if all targets are observed."""
        return read_bounds(data.y, **{name: data.metadata.get(name) for name in self._censoring_names})
