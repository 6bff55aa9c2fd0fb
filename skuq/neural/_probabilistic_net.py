"""Skorch net that predicts a normal distribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetRegressor
from skorch.callbacks import EpochTimer, PassthroughScoring, PrintLog
from skorch.dataset import Dataset
from skorch.utils import is_dataset, to_numpy
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

from skuq._compat import available_if, versioned
from skuq._typing import FloatArray
from skuq.distributions import Distribution, Normal
from skuq.neural._losses import Loss, read_loss, variance_of


class ProbabilisticCriterion(nn.Module):
    """Mean of a loss over rows."""

    def __init__(self, loss: str | Loss = "nll") -> None:
        super().__init__()
        self.loss = read_loss(loss)

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss.

        The outputs have the shape (B, k), and the targets have the shape (B,) or (B, 1).
        """
        if output.ndim != 2 or output.shape[1] != self.loss.n_outputs:
            raise ValueError(
                f"`module` must give {self.loss.n_outputs} outputs per row for {self.loss!r} (two outputs "
                f"are mean and raw variance), got the shape {tuple(output.shape)}."
            )
        target = y.reshape(len(output)).to(output.dtype)  # (B, 1) and (B,) would broadcast to (B, B)
        return self.loss(output, target).mean()


class TensorBatches:
    """Iterator over batches that are selected by array indexing.

    It is up to six times as fast as a DataLoader.
    """

    def __init__(self, dataset: Any, batch_size: int = 128, shuffle: bool = False) -> None:
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self._tensors = _tensors_of(dataset)

    def __iter__(self) -> Iterator[Any]:
        if self._tensors is None:
            yield from DataLoader(self.dataset, batch_size=self.batch_size, shuffle=self.shuffle)
            return
        n = len(self._tensors[0])
        order = torch.randperm(n) if self.shuffle else torch.arange(n)
        for rows in torch.split(order, self.batch_size):
            yield tuple(tensor[rows] for tensor in self._tensors)

    def __len__(self) -> int:
        return int(-(-len(self.dataset) // self.batch_size))


def _tensors_of(dataset: Any) -> tuple[Tensor, Tensor] | None:
    if isinstance(dataset, Subset):
        whole = _tensors_of(dataset.dataset)
        rows = torch.as_tensor(np.asarray(dataset.indices))
        return None if whole is None else (whole[0][rows], whole[1][rows])
    if type(dataset) is not Dataset:  # items of a subclass may be different
        return None
    if not all(isinstance(array, np.ndarray | Tensor) for array in (dataset.X, dataset.y)):
        return None
    return torch.as_tensor(dataset.X), torch.as_tensor(dataset.y)


@versioned
class ProbabilisticNet(NeuralNetRegressor):
    """Skorch net that predicts a normal distribution, for users who have their own skorch module.

    The net accepts float64 features and a one-dimensional target. It can be trained with every loss of skuq,
    and works with all functions of skuq that accept an estimator. If you do not need skorch, prefer
    `PNNRegressor`, which also standardizes X and y, selects the best epoch and passes scikit-learn's
    estimator checks. This net does not standardize X and y. Put it into a Pipeline after a StandardScaler,
    and put the Pipeline into a TransformedTargetRegressor.

    Parameters
    ----------
    module : torch.nn.Module class or instance
        Module that maps (B, d) to (B, 2): the mean and a raw variance. The variance is
        ``softplus(raw) + 1e-4``.
    *args : tuple
        As in ``skorch.NeuralNetRegressor``.
    criterion : torch criterion, default=ProbabilisticCriterion
        Training criterion. Set the loss with ``criterion__loss``: "nll" (default), "crps", "check",
        "interval", "beta_nll" or an instance of `Loss`.
    optimizer : torch optimizer, default=torch.optim.Adam
        As in skorch.
    lr : float, default=0.001
        Learning rate.
    iterator_train, iterator_valid : class, default=TensorBatches
        Iterators of batches. ``iterator_train__shuffle`` is True by default.
    train_split : callable or None, default=None
        Split into training and validation rows. With None, no rows are held out. skorch's own default holds
        out a fifth of the rows.
    **kwargs : dict
        As in ``skorch.NeuralNetRegressor``.

    See Also
    --------
    PNNRegressor : The same network as a scikit-learn estimator, with standardization and calibration.
    DeepEnsembleRegressor : Many such networks, trained in one pass.

    Notes
    -----
    After long training, the intervals are too short, because a closer fit to the training rows and a smaller
    variance increase the likelihood. Use `train_split` with skorch's EarlyStopping, and recalibrate the net.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skuq.neural import ProbabilisticNet
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> y = X[:, 0] ** 2
    >>> net = ProbabilisticNet(torch.nn.Linear(1, 2), max_epochs=5, verbose=0).fit(X, y)
    >>> net.predict_dist(X)
    Normal(n=100)
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        criterion: Any = ProbabilisticCriterion,
        optimizer: Any = torch.optim.Adam,
        lr: float = 0.001,
        iterator_train: Any = TensorBatches,
        iterator_valid: Any = TensorBatches,
        train_split: Any = None,
        **kwargs: Any,
    ) -> None:
        if iterator_train is TensorBatches:
            kwargs.setdefault("iterator_train__shuffle", True)
        super().__init__(
            module,
            *args,
            criterion=criterion,
            optimizer=optimizer,
            lr=lr,
            iterator_train=iterator_train,
            iterator_valid=iterator_valid,
            train_split=train_split,
            **kwargs,
        )

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        callbacks: list[tuple[str, Any]] = [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring("train_loss", on_train=True)),
            ("valid_loss", PassthroughScoring("valid_loss")),
        ]
        return [*callbacks, ("print_log", PrintLog())] if self.verbose else callbacks

    def check_data(self, X: Any, y: Any) -> None:
        """Raise an error if targets are invalid, or if arrays contain NaN or infinity.

        Parameters
        ----------
        X : array-like of shape (n, d) or torch Dataset
            Features.
        y : array-like of shape (n,) or (n, 1), or None with a Dataset
            Targets.
        """
        super().check_data(X, y)
        if y is None and not is_dataset(X):
            raise ValueError("`y` must be given, got None. `y` may be omitted only if X is a torch Dataset.")
        for name, values in (("X", X), ("y", y)):
            if isinstance(values, np.ndarray | Tensor) and not np.isfinite(to_numpy(values)).all():
                raise ValueError(f"`{name}` must be finite, got NaN or infinity.")
        if isinstance(y, np.ndarray | Tensor) and y.ndim > 1 and tuple(y.shape[1:]) != (1,):
            raise ValueError(f"`y` must have one column, got the shape {tuple(y.shape)}.")

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the outputs of the module, for features of any floating-point type.

        Parameters
        ----------
        x : array-like or Tensor of shape (B, d)
            Features.
        **fit_params : dict
            Keyword arguments of the module's ``forward``.

        Returns
        -------
        output : Tensor
            Outputs of the module.
        """
        if isinstance(x, np.ndarray):
            x = torch.from_numpy(x)
        if isinstance(x, Tensor):
            x = x.to(next(self.module_.parameters()).dtype)
        return super().infer(x, **fit_params)

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the distribution of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            Means of the distributions, in the units of y.
        """
        return self._outputs(X)[:, 0]

    def _has_variance(self) -> bool:
        """Return whether the network predicts a variance. For a criterion of the user, the result is True."""
        loss = getattr(self, "criterion__loss", "nll")
        if self.criterion is not ProbabilisticCriterion or read_loss(loss).n_outputs == 2:
            return True
        raise AttributeError(
            f"this network has no `predict_dist`, because the loss {loss!r} does not learn a variance. Wrap "
            "the network in UncertaintyRegressor, or use a loss with a variance."
        )

    @available_if(_has_variance)
    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row, for a loss that learns a variance.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        dist : Normal of n rows
            Predictive distributions, in the units of y.
        """
        output = self._outputs(X)
        if output.shape[1] != 2:
            raise ValueError(
                f"`module` must give 2 outputs per row (a mean and a raw variance), got {output.shape[1]}. "
                f"A network without a variance has no distribution. Wrap it: UncertaintyRegressor(net, "
                f"method='residual')."
            )
        return Normal(output[:, 0], np.sqrt(variance_of(torch.from_numpy(output[:, 1])).numpy()))

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        parts = [part.detach().cpu().to(torch.float64) for part in self.forward_iter(X, training=False)]
        output: NDArray[np.float64] = torch.cat(parts).numpy()
        return output.reshape(len(output), -1)
