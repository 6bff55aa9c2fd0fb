"""Recalibration of the probability levels: the distribution function of the PIT, interpolated."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import FloatArray
from skuq._validation import check_integer, check_option, effective_rows
from skuq.distributions import Distribution, LevelMap, Recalibrated
from skuq.recalibration._base import BaseRecalibrator

_LEVEL_FLOOR = 1e-9
"""PIT values are held this far from 0 and 1 (6 standard deviations of a Gaussian).

Between 1 - 1e-16 and 1 there are no more floating-point numbers: nearer to 1 the upper tail would have
no levels left to lie on, and the lower tail is treated alike so that mirrored data give mirrored maps.
"""

_DECIMALS = 12
"""PIT values that agree so far differ by rounding alone: the same row twice may give them."""

_BANDWIDTH = 0.8
"""Bandwidth of the kernel, in standard deviations of the normal scores times n^(-1/5).

Measured on nine worlds at n from 20 to 10 000; Silverman's 1.06 is better where the map is straight and
worse where it is bent.
"""


class IsotonicRecalibrator(BaseRecalibrator):
    r"""Map the probability levels so that each level holds as often as it says.

    It answers at which level the truth really lies when the model says 10 %, 50 %, 90 %, and corrects
    every quantile accordingly: bias, too wide or too narrow distributions and a wrong shape, all as
    far as they are the same for every row. It cannot tell rows apart: what is too narrow in one
    region and too wide in another comes out right only on average. Prefer `StdScalingRecalibrator`
    with fewer than about 100 rows, or where the point prediction must not change.

    Parameters
    ----------
    n_knots : "auto", int or None, default="auto"
        How finely the map follows the calibration rows. "auto" takes twice the cube root of n ranks,
        evenly spaced, and beyond the outermost one the ranks 1, 2, 4, ... from each end; an integer
        sets the number of evenly spaced ranks. None makes every row a knot, as the method was
        published; the intervals are as good, but the density is so rough that the negative
        log-likelihood on new rows is 0.42 worse at any n, and moments cost time in proportion to n.
    smooth : bool, default=False
        True estimates the map by a kernel instead of at ranks. The density is smooth and follows the
        accidents of few rows half as much, which shows up to a few thousand rows. Leave it where
        observations end abruptly inside the model's distribution, as waiting times do at 0, for a kernel
        blurs such an edge: on exponential noise the negative log-likelihood is 0.05 to 0.07 worse than by
        ranks from 100 rows on, and 90 % intervals cover 92 %.

    Attributes
    ----------
    level_map_ : LevelMap
        The map :math:`R` from the model's level to the observed one.
    outside_share_ : float
        Share of the rows whose `y` lies where the model gives no probability at all, as below the
        smallest member of an ensemble. A map of levels cannot reach them: above 0.1, no interval
        covers 90 %. Widen such distributions first, with
        ``make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator())``.
    n_features_in_ : int
        Always 2, the columns of a Distribution seen as an array.

    See Also
    --------
    EmpiricalRecalibrator : One shape for all rows, which reaches where the model gives no probability.
    ConformalRecalibrator : Intervals that are guaranteed to cover, without a density.
    GPBetaRecalibrator : A map of the levels that depends on the prediction.
    StdScalingRecalibrator : One factor for every standard deviation.

    Notes
    -----
    The recalibrated distribution function is :math:`R(F(y))`, its density :math:`R'(F(y)) f(y)`, its
    quantile function :math:`F^{-1}(R^{-1}(p))`. :math:`R` is fitted [1]_ to the PIT values
    :math:`u_i = F_i(y_i)` and their plotting positions: rank :math:`i` of :math:`n` gets
    :math:`i / (n + 1)` (Weibull), equal values share their mean rank, and a weight of k is k equal
    values. These points already increase, so that isotonic regression has nothing left to do and
    linear interpolation makes the map strictly increasing. Between two chosen ranks it is bent once,
    halfway on the scale of normal quantiles, where it is nearly straight. Beyond the smallest and
    the largest PIT the model's own tail keeps its shape, :math:`R(u) = u \, R(u_{(1)}) / u_{(1)}` and
    its mirror image, so that all probability is accounted for and moments exist where the model's do.

    If ``smooth``, :math:`R` is the distribution function of the normal scores
    :math:`x_i = \Phi^{-1}(u_i)`, estimated by a Gaussian kernel of bandwidth
    :math:`0.8 \, s \, n^{-1/5}`, s their standard deviation; the scores are first drawn towards their
    mean by as much as the kernel spreads them, so that a straight map comes out straight. (Estimating R by a
    kernel is the proposal of [2]_, there on the scale of levels.) It is used between the levels that it
    takes to 1 / (n + 1) and n / (n + 1); the tails beyond are the model's own, as above.

    With few rows the map follows their accidents. Fitted to a model that is calibrated already, it
    makes the negative log-likelihood on new rows worse by 0.19 with 20 rows, 0.08 with 100, 0.025 with
    500 and 0.003 with 10 000; if ``smooth``, by 0.07, 0.023, 0.007 and 0.001. No warning is given, since
    a search would repeat it in every fold.

    Cost: O(n log n) time, O(n) memory; the fitted map holds the knots only.

    References
    ----------
    .. [1] V. Kuleshov, N. Fenner, S. Ermon, "Accurate uncertainties for deep learning using
       calibrated regression", ICML 2018, PMLR 80, algorithm 1.
    .. [2] V. Dheur, S. Ben Taieb, "A large-scale study of probabilistic calibration in neural network
       regression", ICML 2023, PMLR 202. https://doi.org/10.48550/arXiv.2306.02738

    Examples
    --------
    A model with a bias of +1 and twice the true standard deviation:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import IsotonicRecalibrator
    >>> y = np.random.default_rng(0).normal(5.0, 1.0, size=1000)
    >>> dist = Normal(np.full(1000, 6.0), np.full(1000, 2.0))
    >>> recalibrated = IsotonicRecalibrator().fit(dist, y).transform(dist[:1])
    >>> recalibrated.mean().round(1), recalibrated.std().round(1)
    (array([5.]), array([1.]))
    """

    def __init__(self, *, n_knots: Literal["auto"] | int | None = "auto", smooth: bool = False) -> None:
        self.n_knots = n_knots
        self.smooth = smooth

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        n_knots = self.n_knots
        if n_knots is not None and n_knots != "auto":
            n_knots = check_integer(n_knots, "n_knots")
        if check_option(self.smooth, "smooth", (True, False)) and n_knots != "auto":
            raise ValueError(
                f"`n_knots` must be left at 'auto' with smooth=True, whose bandwidth follows from n, got "
                f"{n_knots!r}."
            )
        n = effective_rows(weight, len(y))
        pit = dist.pit(y)
        self.outside_share_ = float(np.average((pit <= 0) | (pit >= 1), weights=weight))
        levels, positions, masses = _plotting_positions(pit, weight, n)
        if self.smooth and len(levels) > 1:
            levels, positions = _kernel_estimate(levels, masses, n)
        elif n_knots is not None:
            n_levels = round(2 * n ** (1 / 3)) if n_knots == "auto" else n_knots
            levels, positions = _bend(*_thin(levels, positions, masses, n, n_levels))
        self.level_map_ = LevelMap(*_with_ends(levels, positions))

    def _transform(self, dist: Distribution) -> Distribution:
        return Recalibrated(dist, self.level_map_)


def _plotting_positions(
    pit: FloatArray, weight: FloatArray | None, n: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct PIT values, their mean rank over n + 1, and the weight on each."""
    inside = np.clip(pit, _LEVEL_FLOOR, 1 - _LEVEL_FLOOR)
    levels, group = np.unique(np.round(inside, _DECIMALS), return_inverse=True)
    masses = np.bincount(group, weights=weight, minlength=len(levels)).astype(np.float64)
    ranks = np.cumsum(masses) - masses / 2 + 0.5  # the mean of the ranks that a tie group takes up
    return levels, ranks / (n + 1), masses


def _thin(
    levels: FloatArray, positions: FloatArray, masses: FloatArray, n: float, n_levels: int
) -> tuple[FloatArray, FloatArray]:
    """Return the interpolated map at few positions, which depend on n and on heavy ties alone."""
    step = (n + 1) / (n_levels + 1)  # in ranks
    even = step * np.arange(1, n_levels + 1)
    doubling = 2.0 ** np.arange(max(int(np.ceil(np.log2(max(step, 1.0)))), 0))
    grid = np.concatenate([doubling, even, n + 1 - doubling]) / (n + 1)
    grid = grid[(grid >= positions[0]) & (grid <= positions[-1])]
    wanted = np.unique(np.concatenate([positions[[0, -1]], positions[masses > step], grid]))
    return np.interp(wanted, positions, levels), wanted


def _bend(levels: FloatArray, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the map with one more knot halfway between any two, on the scale of normal quantiles.

    There the map of a Gaussian that is shifted or scaled is a straight line; on the scale of levels it is
    strongly bent in the tails, and chords alone make 90 % intervals cover 89 %.
    """
    both = np.vstack([levels, positions])
    middle = ndtr((ndtri(both[:, :-1]) + ndtri(both[:, 1:])) / 2)
    bent = np.empty((2, 2 * len(levels) - 1))
    bent[:, ::2], bent[:, 1::2] = both, middle
    return bent[0], bent[1]


def _kernel_estimate(levels: FloatArray, masses: FloatArray, n: float) -> tuple[FloatArray, FloatArray]:
    """Return the smooth map at levels half a bandwidth apart on the scale of normal quantiles."""
    score = ndtri(levels)
    centre = float(masses @ score / n)
    spread = float(np.sqrt(masses @ np.square(score - centre) / n))
    bandwidth = _BANDWIDTH * spread * n**-0.2
    # Scores much closer than the bandwidth count as one, so that the cost does not grow with n; rounding to
    # the nearest cell of a width that is a power of two treats both tails alike.
    cell = 2.0 ** np.floor(np.log2(bandwidth / 32))
    place = np.unique(np.rint(score / cell), return_inverse=True)[1].ravel()
    mass = np.bincount(place, masses)
    shrinkage = 1 / np.hypot(1.0, bandwidth / spread)
    points = centre + (np.bincount(place, masses * score) / mass - centre) * shrinkage
    width = bandwidth * shrinkage
    low, high = points[0] - 4 * width, points[-1] + 4 * width
    grid = np.linspace(low, high, 1 + int(np.ceil((high - low) / (width / 2))))
    positions = np.array([mass @ ndtr((at - points) / width) for at in grid]) / n
    inside = (positions >= 1 / (n + 1)) & (positions <= n / (n + 1))
    return ndtr(grid[inside]), positions[inside]


def _with_ends(levels: FloatArray, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the knots with (0, 0) and (1, 1), strictly increasing in floating point."""
    levels = np.concatenate([[0.0], levels, [1.0]])
    positions = np.concatenate([[0.0], positions, [1.0]])
    gap = 4 * np.finfo(float).eps
    keep = np.ones(len(levels), dtype=bool)
    keep[1:-1] = (np.diff(levels[:-1]) > gap * levels[1:-1]) & (np.diff(positions[:-1]) > gap)
    return levels[keep], positions[keep]
