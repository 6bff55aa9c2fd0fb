"""The plan of one fit: inputs in standard units, held-out rows, batches and options.

The rows and batches of a member do not depend on other members.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from skuq._compat import splitter_needs_groups
from skuq._fitting.cross_fit import resolve_cv, split_rows, stratified_split
from skuq._fitting.table import TableEncoder, as_table, column_scale
from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_number, check_option
from skuq.neural._architecture import Architecture
from skuq.neural._losses import TrainingLoss
from skuq.neural._stacked import MemberSeed

FEW_CATEGORIES = 3
"""In networks with embeddings, a column with at most this number of categories is converted to indicators."""


def table_of(X: Any) -> pd.DataFrame | None:
    table = as_table(X) if hasattr(X, "columns") else None
    if table is None or all(pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes):
        return None
    return table


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of the training rows, with numbers and codes of categories.

    The code 0 means missing and unknown categories. Columns with at most ``max_indicators`` categories are
    converted to indicators, which are numbers. ``gaps`` marks the columns of numbers with missing training
    values. These columns also get an indicator.
    """

    encoder: TableEncoder | None
    gaps: BoolArray
    sizes: tuple[int, ...]  # number of codes of each column of categories
    max_indicators: float

    @classmethod
    def fit(cls, X: Any, max_indicators: float) -> Self:
        """Find the categories of a data frame or an array, and the columns with missing values."""
        encoder = None if isinstance(X, np.ndarray) else TableEncoder("codes").fit(X)
        numbers, codes = _encoded(encoder, X)
        sizes = (1 + codes.max(axis=0)).astype(int).tolist()
        gaps: BoolArray = np.asarray(np.isnan(numbers).any(axis=0))
        return cls(encoder, gaps, tuple(sizes), max_indicators)

    @property
    def embedded(self) -> BoolArray:
        """Return the mask of the columns of categories that are not indicators."""
        return np.array([size > 1 + self.max_indicators for size in self.sizes], dtype=bool)

    def __call__(self, X: Any) -> tuple[FloatArray, FloatArray]:
        numbers, codes = _encoded(self.encoder, X)
        indicators = [
            code[:, np.newaxis] == np.arange(1, size)
            for code, size, embedded in zip(codes.T, self.sizes, self.embedded, strict=True)
            if not embedded
        ]
        if self.gaps.any():
            indicators.insert(0, np.isnan(numbers[:, self.gaps]))
        return np.hstack([numbers, *indicators]) if indicators else numbers, codes[:, self.embedded]


def _encoded(encoder: TableEncoder | None, X: Any) -> tuple[FloatArray, FloatArray]:
    if encoder is None:
        return X, np.empty((len(X), 0))
    encoded = encoder.transform(X)
    n_numbers = encoded.shape[1] - encoder.kinds_.count("words")
    return encoded[:, :n_numbers], np.nan_to_num(1 + encoded[:, n_numbers:])


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Means and standard deviations of the training rows. A weight is a number of repetitions."""

    # A constant column has an infinite scale, so that it does not change predictions. Missing numbers become
    # 0, the mean. Codes of categories follow the numbers unchanged. A constant target has the scale 0, and
    # its prediction is certain. Codes of classes have the mean 0 and the scale 1. `y_mean` and `y_scale` are
    # numbers for one target, and arrays (d,) for several targets.

    columns: Columns
    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: Any
    y_scale: Any

    @classmethod
    def fit(cls, data: TrainingData, max_indicators: float) -> Self:
        columns, y = Columns.fit(data.X, max_indicators), data.y
        share = data.repetitions / data.repetitions.sum()
        X_mean, X_scale = _units_of_columns(columns(data.X)[0], share)
        start = y[share > 0][0]
        y_mean = start + share @ (y - start)
        y_scale = column_scale(y.reshape(len(y), -1), np.atleast_1d(y_mean), share)
        y_scale = np.where(np.isinf(y_scale), 0.0, y_scale)
        if y.ndim == 1:
            return cls(columns, X_mean, X_scale, float(y_mean), float(y_scale[0]))
        return cls(columns, X_mean, X_scale, y_mean, y_scale)

    @classmethod
    def fit_features(cls, data: TrainingData, standardize: Any) -> Self:
        """Return the standardizer of the features.

        With "all", all columns have one scale. With False, the features are not changed.
        """
        columns = Columns.fit(data.X, np.inf)
        if not standardize:
            return cls(columns, np.zeros(()), np.ones(()), 0.0, 1.0)
        share = data.repetitions / data.repetitions.sum()
        mean, scale = _units_of_columns(columns(data.X)[0], share)
        if standardize == "columns" or not len(mean):
            return cls(columns, mean, scale, 0.0, 1.0)
        # variance of all values, within and between columns
        common = np.full(len(mean), mean.mean())
        within, between = np.where(np.isinf(scale), 0.0, scale), mean - common
        spread = column_scale(np.hypot(within, between)[:, np.newaxis], np.zeros(1), np.ones(len(mean)))
        constant = spread <= 4 * np.finfo(np.float64).eps * np.abs(mean).max()
        return cls(columns, common[0], np.where(constant, np.inf, spread)[0], 0.0, 1.0)

    @property
    def n_codes(self) -> list[int]:
        """Return the number of codes of each column of codes."""
        sizes, embedded = self.columns.sizes, self.columns.embedded
        return [size for size, is_embedded in zip(sizes, embedded, strict=True) if is_embedded]

    def features(self, X: Any) -> FloatArray:
        numbers, codes = self.columns(X)
        standardized: FloatArray = numbers - self.X_mean
        standardized /= self.X_scale  # in place, because X may be large
        standardized[np.isnan(standardized)] = 0.0
        return np.hstack([standardized, codes]) if codes.shape[1] else standardized

    def target(self, y: FloatArray) -> FloatArray:
        varies = np.asarray(self.y_scale) > 0
        return np.asarray(np.divide(y - self.y_mean, self.y_scale, out=np.zeros_like(y), where=varies))

    def loc(self, standardized: FloatArray) -> FloatArray:
        return np.asarray(self.y_mean + self.y_scale * standardized)

    def scale(self, variance: FloatArray) -> FloatArray:
        return np.asarray(self.y_scale * np.sqrt(variance))


def _units_of_columns(X: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    X = _filled(X, share)
    counted = X[share > 0][0] if len(X) else 0.0  # avoids rounding errors of large means
    mean = counted + share @ (X - counted)
    return mean, column_scale(X, mean, share)


def _filled(X: FloatArray, share: FloatArray) -> FloatArray:
    missing = np.isnan(X)
    if not missing.any():
        return X
    weight = share[:, np.newaxis] * ~missing
    total = weight.sum(axis=0)
    first = np.nan_to_num(X[(weight > 0).argmax(axis=0), np.arange(X.shape[1])])
    mean = first + (weight * np.nan_to_num(X - first)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return np.where(missing, mean, X)


def hold_out(held_out_size: Any, data: TrainingData, seed: int, *, by_class: bool = False) -> BoolArray:
    """Return the mask of the held-out rows. With ``by_class``, the draw is stratified by class."""
    n = len(data)
    usable = np.flatnonzero(data.repetitions)
    if len(usable) < 2:
        raise ValueError(
            "at least two rows must have a positive weight, because rows are held out of training. Got one "
            "row. Use more rows, or settings that do not hold out rows."
        )
    held_out = np.zeros(n, dtype=bool)
    if isinstance(held_out_size, numbers.Real) and not isinstance(held_out_size, bool | np.bool_):
        size = _n_held_out(held_out_size, len(usable))
        if by_class:
            held_out[usable[stratified_split(data.y[usable], size, seed)[1]]] = True
            return held_out
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,)))
        held_out[rng.permutation(usable)[:size]] = True
        return held_out
    name = "held_out_size"
    cv = resolve_cv(_checked_splitter(held_out_size), name=name)
    held_out[split_rows(cv, data.X, data.y, None, name=name)[0][1]] = True
    if not held_out[usable].any():
        raise ValueError(
            "`held_out_size` must hold out rows with positive weight, but all test rows in the first "
            "split of the splitter have weight 0."
        )
    if held_out[usable].all():
        raise ValueError(
            "`held_out_size` must leave rows with positive weight for training, but the first split of the "
            "splitter puts all these rows into the test set."
        )
    return held_out


def _n_held_out(size: numbers.Real, n_usable: int) -> int:
    if isinstance(size, numbers.Integral):
        if not 0 < int(size) < n_usable:
            raise ValueError(
                f"`held_out_size` must lie between 1 and {n_usable - 1} as a number of rows, got {size}. "
                "At least one row must remain for training."
            )
        return int(size)
    share = float(size)
    if not 0 < share < 1:
        raise ValueError(f"`held_out_size` must lie strictly between 0 and 1 as a share, got {share}.")
    return int(np.clip(round(share * n_usable), 1, n_usable - 1))


def _checked_splitter(held_out_size: Any) -> Any:
    """Return the splitter or the iterable. Raise an error if it is neither, or if it needs groups."""
    splits = hasattr(held_out_size, "split") or isinstance(held_out_size, Iterable)
    if isinstance(held_out_size, str) or not splits:
        raise ValueError(
            "`held_out_size` must be a share of the rows such as 0.2, a number of rows, or a splitter, got "
            f"{held_out_size!r}."
        )
    if splitter_needs_groups(held_out_size):
        raise ValueError(
            "`held_out_size` must be a splitter that does not need groups, got "
            f"{type(held_out_size).__name__}. Pass row numbers: held_out_size=[(train, test)]."
        )
    return held_out_size


AUTO_BATCH, _FEW_ROWS_BATCH, _FEW_ROWS = 64, 32, 600
"""Number of rows per batch with ``batch_size="auto"``, and with fewer than `_FEW_ROWS` training rows. With
few rows, an epoch has few steps."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Features (B, M, d), targets (B, M) or (B, M, q), and weights (B, M) or None, of one batch."""

    x: Tensor
    y: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class MemberRows:
    """Indices of the training rows of a member, with repetitions, and the generator for their order."""

    drawn: IntArray
    order: np.random.Generator

    def out_of_bag(self, n: int) -> BoolArray:
        """Return the mask (n,) of the rows on which the member is not trained."""
        mask = np.ones(n, dtype=bool)
        mask[self.drawn] = False
        return mask


def batch_shape(n_rows: int, batch_size: int | str) -> tuple[int, int]:
    """Return the number of batches and the number of rows per batch."""
    if isinstance(batch_size, str):
        batch_size = _FEW_ROWS_BATCH if n_rows < _FEW_ROWS else AUTO_BATCH
    # All batches have the same size, because the gradient of a small last batch would be too noisy. Each
    # epoch therefore leaves out a few random rows.
    n_batches = max(1, round(n_rows / batch_size))
    return n_batches, n_rows // n_batches


class MemberBatches:
    """Batches of one epoch from the data of all fits. Each member has its own rows in its own order."""

    def __init__(
        self,
        X: Tensor,
        y: Tensor,
        weight: Tensor | None,
        members: Sequence[MemberRows],
        shape: tuple[int, int],
    ) -> None:
        self.X, self.y, self.weight = X, y, weight
        self.n_batches, self.batch_size = shape
        self._order = [member.order for member in members]
        self._rows = [member.drawn.copy() for member in members]
        self._whole: Batch | None = None

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[Batch]:
        if self.n_batches > 1:
            yield from self._shuffled()
            return
        if self._whole is None:  # the order within a single batch does not matter
            self._whole = next(self._shuffled())
        yield self._whole

    def _shuffled(self) -> Iterator[Batch]:
        members, d = (len(self._rows), self.batch_size), self.X.shape[1]
        by_batch = np.empty((self.n_batches, *members), dtype=np.int64)
        for member, (rows, order) in enumerate(zip(self._rows, self._order, strict=True)):
            order.shuffle(rows)
            used = rows[: self.n_batches * self.batch_size]
            by_batch[:, member] = used.reshape(self.n_batches, self.batch_size)
        plan = torch.from_numpy(by_batch).to(self.X.device)
        for flat in plan.view(self.n_batches, -1):
            # matrix products are fastest if the members are the first dimension in memory
            x = self.X.index_select(0, flat).view(*members, d)
            y = self.y.index_select(0, flat).view(*members, *self.y.shape[1:])
            weight = None if self.weight is None else self.weight.index_select(0, flat).view(members).T
            yield Batch(x.transpose(0, 1), y.transpose(0, 1), weight)


AUTO_EPOCHS = (8000, 40, 200)
"""Number of steps, smallest number of epochs and largest number of epochs for ``max_epochs="auto"``."""

LONG_TRAINING = (6000, 40, 1000)
"""Number of steps, smallest number of epochs and largest number of epochs of long trainings.

Trainings with random noise, such as dropout, and without selection of the epoch are long, because they need
as many steps for few rows as for many rows. With dropout on the 277 rows of the yacht data, the errors after
200 epochs were 1.4 times as large as the errors after 6000 steps.
"""

_MOST_EPOCHS = 1000
"""Maximum number of epochs of a second training after `AUTO_EPOCHS`."""

_STILL_IMPROVING = 0.95
"""If the best epoch is after this share of the epochs, a longer training may be better."""

PATIENCE = 2
"""A training with `AUTO_EPOCHS` ends after this multiple of its best epoch. For noisy targets, the best epoch
is often early."""

_N_FOLDS = 4
"""Number of folds of `plan_folds`. With 20 members, each row is left out by 5 members, which is enough to
estimate their spread."""


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training. Fits with equal options may be trained together."""

    architecture: Architecture
    batch_size: int | str = 32
    max_epochs: int | str = "auto"
    auto_epochs: tuple[int, int, int] = AUTO_EPOCHS
    further_epochs: int = 0
    patience: float | None = None
    lr_schedule: str = "cosine"
    clip_norm: float | None = 5.0
    score_every: int = 2
    device: str = "auto"
    dtype: str = "float32"
    callbacks: Any = None
    net_params: Any = None
    verbose: int = 0

    def with_codes(self, n_codes: Sequence[int]) -> TrainingOptions:
        """Return options for data whose columns of codes have these numbers of codes."""
        layers = self.architecture.layers.with_codes(n_codes)
        return replace(self, architecture=replace(self.architecture, layers=layers))

    def epochs(self, n_batches: int) -> int:
        if not isinstance(self.max_epochs, str):
            return self.max_epochs + self.further_epochs
        steps, fewest, most = self.auto_epochs
        return int(np.clip(-(-steps // n_batches), fewest, most)) + self.further_epochs

    def longer(self, n_batches: int, best_epoch: int) -> TrainingOptions | None:
        # Targets without noise need more steps than targets with noise. If there are few rows, the largest
        # number of epochs of "auto" gives too few steps for such targets.
        # Such targets do not need small batches, whose purpose is to have more steps in 200 epochs.
        steps, fewest, most = self.auto_epochs
        size = AUTO_BATCH if self.batch_size == "auto" else self.batch_size
        more = replace(self, batch_size=size, auto_epochs=(steps, fewest, max(_MOST_EPOCHS, most)))
        epochs = self.epochs(n_batches)
        improving = best_epoch > _STILL_IMPROVING * epochs
        return more if improving and more.epochs(n_batches) > epochs else None


@dataclass(frozen=True)
class TrainingSpec:
    """Specification of the training of an estimator. It does not depend on the data."""

    # With `bootstrap`, epochs are scored on out-of-bag rows, otherwise on held-out rows. `draw_rows` replaces
    # the draws with replacement. If `counts_rows`, weights must be numbers of repetitions.

    loss: TrainingLoss
    learning_rate: float
    selection_score: TrainingLoss | None = None
    n_members: int = 1
    bootstrap: bool = False
    draw_rows: Callable[[Sequence[MemberSeed], IntArray], list[MemberRows]] | None = None
    counts_rows: bool = False

    def __post_init__(self) -> None:
        check_number(self.learning_rate, "learning_rate", positive=True)

    def plan(
        self,
        data: TrainingData,
        scaler: Standardizer,
        held_out: BoolArray,
        seed: int,
        row_factor: FloatArray | None = None,
    ) -> FitPlan:
        """Return the plan of one fit.

        The factor ``row_factor`` (n,) multiplies losses and scores, like weights.
        """
        weight, rows = data.sample_weight, rows_with_weight(~held_out, data)
        n_rows = float(len(rows) if weight is None else weight[rows].sum())
        if row_factor is not None:
            weight = data.repetitions * row_factor
        seeds = [replace(one, n_rows=n_rows) for one in MemberSeed.spawn(seed, self.n_members)]
        draw = self.draw_rows
        return FitPlan(
            X=scaler.features(data.X),
            y=scaler.target(data.y),
            seeds=seeds,
            rows=draw(seeds, rows) if draw else plan_members(seeds, rows, bootstrap=self.bootstrap),
            seed=seed,
            loss=self.loss,
            learning_rate=self.learning_rate,
            weight=None if weight is None else weight / weight[rows].mean(),
            selection_score=self.selection_score,
            selection_mask=~held_out if self.bootstrap else held_out,
            held_out=held_out,
            score_weight=weight,
        )


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Standardized data of one fit, and the training rows of each member."""

    # `selection_mask` (n,) marks the rows that may score epochs; None marks all rows. A row scores only
    # members that are not trained on it.

    X: FloatArray
    y: FloatArray
    seeds: list[MemberSeed]
    rows: list[MemberRows]
    held_out: BoolArray  # rows on which no member may be trained, shape (n,)
    seed: int
    loss: TrainingLoss
    learning_rate: float
    weight: FloatArray | None = None  # in the loss; mean 1 over the training rows, shape (n,)
    selection_score: TrainingLoss | None = None
    selection_mask: BoolArray | None = None
    score_weight: FloatArray | None = None  # in the score, shape (n,)

    def batch_shape(self, batch_size: int | str) -> tuple[int, int]:
        return batch_shape(len(self.rows[0].drawn), batch_size)

    def out_of_bag(self) -> BoolArray:
        """Return the mask (n, M) of the rows on which each member is not trained."""
        return np.column_stack([rows.out_of_bag(len(self.y)) for rows in self.rows])

    def scored_rows(self) -> BoolArray:
        """Return a mask of shape (n, M): the rows on which the epochs of each member are scored."""
        mask = self.selection_mask
        return self.out_of_bag() if mask is None else self.out_of_bag() & mask[:, np.newaxis]


def resolve_learning_rate(rate: Any, auto: float) -> Any:
    """Return ``auto`` if ``rate`` is "auto", and ``rate`` otherwise. A later step checks numbers."""
    if isinstance(rate, str):
        check_option(rate, "learning_rate", ("auto",))
        return auto
    return rate


def plan_members(seeds: Sequence[MemberSeed], rows: IntArray, *, bootstrap: bool) -> list[MemberRows]:
    # The draws ignore weights, because rows with a large weight must also be out of bag for some members.
    return [
        MemberRows(rows[seed.rows.integers(len(rows), size=len(rows))] if bootstrap else rows, seed.order)
        for seed in seeds
    ]


def plan_folds(seeds: Sequence[MemberSeed], rows: IntArray) -> list[MemberRows]:
    """Return the rows outside one of four random folds for each member."""
    # Each group of four members has its own folds. All members have the same number of rows, which is the
    # number of rows outside the largest fold.
    k = min(_N_FOLDS, len(rows))
    if k < 2:
        return plan_members(seeds, rows, bootstrap=False)
    n_kept, plans = len(rows) - -(-len(rows) // k), []
    for member, seed in enumerate(seeds):
        fold = member % k
        if fold == 0:
            folds = np.array_split(seed.rows.permutation(rows), k)
        plans.append(MemberRows(np.concatenate(folds[:fold] + folds[fold + 1 :])[:n_kept], seed.order))
    return plans


def plan_pairs(seeds: Sequence[MemberSeed], rows: IntArray) -> list[MemberRows]:
    """Return bootstrap rows for pairs of successive members.

    Both members of a pair have the same rows in different orders.
    """
    drawn = [bag.drawn for bag in plan_members(seeds[::2], rows, bootstrap=True)]
    return [MemberRows(drawn[member // 2], seed.order) for member, seed in enumerate(seeds)]


def rows_with_weight(mask: BoolArray, data: TrainingData) -> IntArray:
    return np.flatnonzero(mask & (data.repetitions > 0))
