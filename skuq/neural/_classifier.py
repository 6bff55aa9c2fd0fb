"""Base class of the neural classifiers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight

from skuq._compat import CallbackSupportMixin, versioned, with_callbacks
from skuq._fitting.seeds import Progress
from skuq._fitting.training_data import TrainingData, check_labels
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import check_option, check_sample_weight, check_unmasked, effective_rows
from skuq.neural._base import BaseNeuralEstimator
from skuq.neural._losses import CrossEntropyLoss
from skuq.neural._plan import Standardizer, TrainingSpec, rows_with_weight
from skuq.neural._predictive import ClassPosterior, EntropyParts
from skuq.neural._training import TrainedFit


@versioned
class BaseNeuralClassifier(CallbackSupportMixin, ClassifierMixin, BaseNeuralEstimator):
    """Base class of the neural classifiers.

    The class implements labels, class weights, class probabilities and entropies.
    """

    classes_: np.ndarray

    @abstractmethod
    def _posterior(self, fit: TrainedFit, data: TrainingData) -> ClassPosterior:
        """Return the posterior of the trained networks. The attribute ``scaler_`` must be set before."""

    def _spec(self, data: TrainingData, learning_rate: float, **options: Any) -> TrainingSpec:
        loss = CrossEntropyLoss(len(data.classes))
        keep_best = check_option(self.keep_best, "keep_best", ("log_loss", False))
        return TrainingSpec(loss, learning_rate, loss if keep_best else None, **options)

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train the networks.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Training features.
        y : array-like of shape (n,)
            Class labels: numbers, strings or booleans. At least two classes.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        data = self._read(X, y, sample_weight, {}, "fit")
        progress = Progress(self, None)
        self._fit(data, progress)
        progress.close()
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Return the checked data. The target contains the codes of the classes."""
        check_unmasked(X, "X")
        labels = check_labels(y, self)
        features = self._check_features(X, labels)
        weight = check_sample_weight(sample_weight, len(labels))
        classes, codes = np.unique(labels, return_inverse=True)
        counted = np.unique(codes if weight is None else codes[weight > 0])
        if len(counted) < 2:
            raise ValueError(
                f"`y` must have at least two classes in the rows with positive weight, got one class, "
                f"{classes.tolist()[counted[0]]!r}. Add rows of another class."
            )
        return TrainingData(features, codes.astype(np.float64), weight, classes=classes)

    def _check_data(self, spec: TrainingSpec, data: TrainingData) -> None:
        check_option(self.standardize, "standardize", ("columns", "all", False))
        if spec.counts_rows:
            effective_rows(data.sample_weight, len(data))  # raises for relative weights

    def _learn_scaler(self, data: TrainingData, held_out: BoolArray) -> Standardizer:
        """Return the standardizer of X. Raise an error if the training rows do not contain all classes."""
        counted = data.repetitions > 0
        lost = np.setdiff1d(data.y[counted], data.y[counted & ~held_out])
        if len(lost):
            label, n_rows = data.classes.tolist()[int(lost[0])], int((counted & (data.y == lost[0])).sum())
            raise ValueError(
                f"`held_out_size` must leave rows of each class for training, but all {n_rows} of "
                f"class {label!r} are held out. Use more rows, a smaller `held_out_size` or "
                "keep_best=False."
            )
        return Standardizer.fit_features(data.take(rows_with_weight(~held_out, data)), self.standardize)

    def _row_factor(self, data: TrainingData) -> FloatArray | None:
        """Return the class weight of each row."""
        if self.class_weight is None:
            return None
        codes = data.y.astype(np.intp)
        if isinstance(self.class_weight, str | np.str_):
            check_option(self.class_weight, "class_weight", ("balanced", None))
            counts = np.bincount(codes, data.repetitions, len(data.classes))
            # a class has the count 0 if all its rows have weight 0
            of_classes = counts.sum() / (len(counts) * np.where(counts > 0, counts, 1.0))
        elif isinstance(self.class_weight, Mapping):
            labels = data.classes[codes]
            try:
                of_classes = compute_class_weight(dict(self.class_weight), classes=data.classes, y=labels)
            except ValueError as error:
                raise ValueError(
                    f"`class_weight` must have class labels as keys, got {self.class_weight!r}. The "
                    f"labels are {data.classes.tolist()}."
                ) from error
        else:
            raise TypeError(
                "`class_weight` must be 'balanced', a dict of weights by class label, or None, got "
                f"{self.class_weight!r}."
            )
        if not (np.isfinite(of_classes).all() and of_classes.min() >= 0):
            raise ValueError(
                f"`class_weight` must contain finite, non-negative weights, got {self.class_weight!r}."
            )
        factor: FloatArray = of_classes[codes]
        n_counted = len(np.unique(codes[data.repetitions * factor > 0]))
        if n_counted < 2:
            raise ValueError(
                f"`class_weight` must leave at least two classes with a positive weight, got "
                f"{self.class_weight!r}, which leaves {n_counted}."
            )
        return factor

    def _finish_fit(self, fit: TrainedFit, data: TrainingData) -> str | None:
        message = super()._finish_fit(fit, data)
        self.classes_ = data.classes  # set last, so that a failed fit changes no attribute
        return message

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.

        Returns
        -------
        labels : ndarray of shape (n,)
            One of ``classes_`` for each row.
        """
        most_probable = self.predict_proba(X).argmax(axis=1)  # raises NotFittedError before fit
        labels: np.ndarray = self.classes_[most_probable]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the class probabilities: the means over the members.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Probabilities of the classes in the order of ``classes_``.
        """
        self._check_new(X)
        proba: FloatArray = self._current_posterior().mean(self._features(X))
        return proba

    def predict_members(self, X: Any) -> FloatArray:
        """Return the class probabilities of each member.

        Members are the networks of an ensemble, or `n_draws` networks drawn from the posterior. The draws are
        the same for all rows and all calls.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.

        Returns
        -------
        members : ndarray of shape (n, M, K)
            Probabilities of the K classes by the M members. `predict_proba` is the mean over the members.
        """
        self._check_new(X)
        members: FloatArray = self._current_posterior().members(self._features(X))
        return members

    def predict_entropy(self, X: Any) -> EntropyParts:
        r"""Return the entropy of the forecast of each row, with its aleatoric and epistemic parts.

        Let :math:`p_m` be the probabilities of member m, and :math:`\bar p` their mean. The total is the
        entropy :math:`H(\bar p)`. The aleatoric part is the mean of :math:`H(p_m)`. The epistemic part is the
        total minus the aleatoric part. This difference is the mutual information of class and member. The
        epistemic part is 0 if all members agree. It decreases with more training rows. The aleatoric part is
        large if classes overlap.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.

        Returns
        -------
        entropies : EntropyParts
            Named tuple ``(total, aleatoric, epistemic)`` of ndarrays of shape (n,), in nats, from 0 to log K.
            ``total`` is the sum of ``aleatoric`` and ``epistemic``.
        """
        self._check_new(X)
        entropies: EntropyParts = self._current_posterior().entropies(self._features(X))
        return entropies
