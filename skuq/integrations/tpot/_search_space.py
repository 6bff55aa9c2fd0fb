"""Regressors of TPOT that are wrapped to predict a distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skuq.regressors import UncertaintyRegressor

_REGRESSORS = ("ExtraTreesRegressor", "KNeighborsRegressor", "LGBMRegressor", "RidgeCV")
_TRANSFORMERS = ("StandardScaler", "MinMaxScaler", "Passthrough")
_OPTIONS: dict[str, Any] = {"method": ["residual", "bootstrap"], "effort": "low"}


def search_space(
    regressors: Sequence[str] = _REGRESSORS,
    *,
    options: Mapping[str, Any] | None = None,
    random_state: int | None = None,
) -> Any:
    """Return a search space for TPOT: a scaler, followed by a regressor in an `UncertaintyRegressor`.

    Pass ``search_space=search_space()``, ``scorers=[get_scorer("neg_crps")]``, ``scorers_weights=[1]`` and
    ``classification=False`` to ``TPOTEstimator``. TPOT accepts the scorers of skuq without changes. The
    scorers need pipelines that predict a distribution. TPOT's own search spaces do not contain such
    pipelines.

    Parameters
    ----------
    regressors : sequence of str, default=("ExtraTreesRegressor", "KNeighborsRegressor", "LGBMRegressor", \
"RidgeCV")
        Names of regressors in TPOT. For each regressor, TPOT's search space is used.
    options : dict, default=None
        Parameters of `UncertaintyRegressor`. If a value is a list of at least two values, the parameter is
        searched. If None, the methods "residual" and "bootstrap" are searched, with ``effort="low"``.
    random_state : int or None, default=None
        Seed of all regressors. An integer makes results reproducible.

    Returns
    -------
    search_space : tpot.search_spaces.pipelines.SequentialPipeline
        Argument ``search_space`` of TPOT, or a step of a larger search space.

    Raises
    ------
    ImportError
        If TPOT is not installed.
    ValueError
        If a name is not a name of a TPOT regressor.

    See Also
    --------
    skuq.metrics.get_scorer : Scorers for TPOT.

    Notes
    -----
    TPOT starts dask processes even with ``n_jobs=1``. Therefore, a script needs the line ``if __name__ ==
    "__main__":``. With ``processes=False``, the line is not needed. TPOT 1.1 imports ``pkg_resources``, which
    setuptools contains only up to version 80. Therefore, use ``pip install tpot "setuptools<81"``.
    ``"ElasticNetCV"`` raises an error, because the mixing parameter in TPOT's search space may be 0.

    Examples
    --------
    >>> from skuq.integrations.tpot import search_space
    >>> space = search_space(["ExtraTreesRegressor"], options={"cv": 3, "method": ["residual", "conformal"]})
    >>> space.generate(0).export_pipeline().steps[-1][1].cv
    3
    """
    from ConfigSpace import ConfigurationSpace
    from tpot.config import get_search_space
    from tpot.search_spaces.pipelines import SequentialPipeline, WrapperPipeline

    chosen = dict(_OPTIONS if options is None else options)
    if random_state is not None:
        chosen["random_state"] = random_state
    try:
        models = get_search_space(list(regressors), random_state=random_state)
    except (KeyError, ValueError) as error:
        raise ValueError(
            "`regressors` must be names of regressors in TPOT's search spaces, such as 'RidgeCV', got "
            f"{list(regressors)}."
        ) from error
    wrapped = WrapperPipeline(
        method=UncertaintyRegressor,
        space=ConfigurationSpace(chosen),
        estimator_search_space=models,
    )
    return SequentialPipeline([get_search_space(list(_TRANSFORMERS)), wrapped])
