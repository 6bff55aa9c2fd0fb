"""The losses against the metrics that they make small: of one target, of several targets and of classes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.metrics import log_loss
from torch.distributions import MultivariateNormal

from skuq.distributions import Normal
from skuq.metrics import crps_loss, interval_score_loss, nll_loss, pinball_loss
from skuq.neural import (
    BetaNLLLoss,
    CheckLoss,
    CRPSLoss,
    DeepEnsembleRegressor,
    IntervalLoss,
    Loss,
    NLLLoss,
    SquaredErrorLoss,
    fit_many,
)
from skuq.neural._losses import (
    LOSSES,
    CrossEntropyLoss,
    JointLoss,
    normal_parameters,
    read_loss,
    variance_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*rows:skuq.exceptions.SmallSampleWarning")
LEVELS = (np.arange(30) + 0.5) / 30


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    return rng.normal(size=50), rng.uniform(0.2, 3, size=50), 2 * rng.normal(size=50)


def mean_score(loss, case):
    loc, scale, y = (torch.as_tensor(part) for part in case)
    return float(loss.score(loc, scale**2, y).mean())


def interval_score(y, dist):
    return np.mean([interval_score_loss(y, dist.interval(level), coverage=level) for level in LEVELS])


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        (NLLLoss(), nll_loss),
        (CRPSLoss(), crps_loss),
        (CheckLoss(), lambda y, dist: pinball_loss(y, dist, levels=LEVELS)),
        (IntervalLoss(), interval_score),
        (SquaredErrorLoss(), lambda y, dist: np.mean((y - dist.mean()) ** 2)),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_loss_is_the_metric(case, loss, metric):
    loc, scale, y = case
    assert mean_score(loss, case) == pytest.approx(metric(y, Normal(loc, scale)), rel=1e-10)


def test_beta_nll_is_the_weighted_likelihood_and_leaves_its_weight_alone(case):
    loc, scale, y = (torch.as_tensor(part) for part in case)
    for beta in (0.0, 0.5, 1.0):
        free = (scale**2).requires_grad_()
        BetaNLLLoss(beta).score(loc, free, y).sum().backward()
        plain = (scale**2).detach().requires_grad_()
        NLLLoss().score(loc, plain, y).sum().backward()
        torch.testing.assert_close(free.grad, scale.detach() ** (2 * beta) * plain.grad)


def test_epochs_of_beta_nll_are_scored_by_the_likelihood():
    assert BetaNLLLoss().selection_score() == NLLLoss()
    assert CRPSLoss().selection_score() == CRPSLoss()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradients_are_finite_for_every_output(loss):
    for extreme in (-1e4, -50.0, 0.0, 50.0, 1e4):
        output = torch.full((3, loss.n_outputs), extreme, dtype=torch.float32, requires_grad=True)
        loss(output, torch.zeros(3)).sum().backward()
        assert torch.isfinite(output.grad).all()


CLOSED_FORMS = [NLLLoss(), CRPSLoss(), CheckLoss(), CheckLoss(1), IntervalLoss(), IntervalLoss(7)]


@pytest.mark.parametrize("loss", [CheckLoss(7), IntervalLoss(7)], ids=str)
def test_levels_are_kept_by_a_copy_and_their_tables_are_not(loss):
    y = torch.linspace(-3, 3, 50, dtype=torch.float64)
    before = loss.score(torch.zeros_like(y), torch.ones_like(y), y)
    copied = pickle.loads(pickle.dumps(loss))
    assert copied == loss
    assert set(vars(copied)) == {"n_levels"}
    torch.testing.assert_close(copied.score(torch.zeros_like(y), torch.ones_like(y), y), before)


def test_gradients_are_the_derivatives_of_the_losses(subtests):
    """Scores are computed from their derivatives, and the weight of the likelihood is a constant."""
    generator = torch.Generator().manual_seed(0)
    output = 3 * torch.randn(7, 4, 2, dtype=torch.float64, generator=generator)
    y = torch.randn(7, 4, dtype=torch.float64, generator=generator)
    output.requires_grad_()
    for loss in CLOSED_FORMS:
        with subtests.test(msg=str(loss)):
            assert torch.autograd.gradcheck(lambda given, loss=loss: loss(given, y), output)
    (of_likelihood,) = torch.autograd.grad(NLLLoss()(output, y).sum(), output)
    variance = variance_of(output[..., 1]).detach()
    for beta in (0.0, 0.5, 0.8, 1.0):
        with subtests.test(msg=f"{beta=}"):
            (gradient,) = torch.autograd.grad(BetaNLLLoss(beta)(output, y).sum(), output)
            torch.testing.assert_close(gradient, variance.unsqueeze(-1) ** beta * of_likelihood)


def test_the_variance_is_positive():
    assert (variance_of(torch.tensor([-1e6, 0.0, 1e6])) > 0).all()


def test_names_and_instances_are_read():
    assert read_loss("crps") == CRPSLoss()
    own = IntervalLoss(5)
    assert read_loss(own) is own
    with pytest.raises(ValueError, match=r"`loss` must be one of 'nll', .* got 'mse'"):
        read_loss("mse")
    with pytest.raises(ValueError, match="`beta` must lie between 0 and 1, got 2"):
        BetaNLLLoss(2)
    with pytest.raises(ValueError, match="`n_levels` must be at least 1"):
        CheckLoss(0)
    assert issubclass(NLLLoss, Loss)


def test_a_loss_has_rows_first_and_members_second(sine):
    """Whether it trains all members or some: a loss of the user's own may compare rows."""
    shapes = set()

    class Watching(NLLLoss):
        def score(self, loc, variance, y):
            shapes.add((tuple(loc.shape), tuple(y.shape)))
            return super().score(loc, variance, y)

    common = {
        "max_epochs": 1,
        "keep_best": False,
        "calibration": None,
        "batch_size": 50,
        "device": "cpu",
    }
    watched = DeepEnsembleRegressor(4, loss=Watching(), **common)
    watched.fit(*sine)
    fit_many([watched, DeepEnsembleRegressor(3, loss="crps", **common)], *sine)
    assert shapes == {((50, 4), (50, 4))}


# ------------------------------------------------------------------------------- several targets

WITH_VARIANCE = [name for name, loss in LOSSES.items() if loss.n_outputs == 2]


def outputs(loss, n_members=4):
    """Return outputs (B, M, k) of networks, and targets (B, M, d)."""
    generator = torch.Generator().manual_seed(0)
    shape = 6, n_members
    output = torch.randn(*shape, loss.n_outputs, generator=generator, dtype=torch.float64)
    return output, torch.randn(*shape, loss.n_targets, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", WITH_VARIANCE)
def test_a_joint_loss_of_one_target_or_one_member(name):
    loss = LOSSES[name]
    output, y = outputs(JointLoss(loss, 1))
    assert torch.equal(JointLoss(loss, 1)(output, y), loss(output, y[..., 0]))
    joint = JointLoss(loss, 3)
    output, y = outputs(joint, 1)
    parts = [part[0] for part in joint.averaged_parts(output.permute(1, 2, 0))]
    torch.testing.assert_close(joint.score_average(parts, y[:, 0]), joint(output, y)[:, 0])


@pytest.mark.parametrize("d", [2, 5])
def test_the_likelihood_is_that_of_a_multivariate_normal_distribution(d):
    loss = JointLoss(NLLLoss(), d)
    output, y = outputs(loss)
    loc, factor = normal_parameters(output, d)
    density = MultivariateNormal(loc, scale_tril=factor).log_prob(y)
    torch.testing.assert_close(loss(output, y), -density)


def test_the_average_of_members_has_the_moments_of_their_mixture():
    loss = JointLoss(NLLLoss(), 3)
    output, y = outputs(loss)
    parts = [part.mean(dim=0) for part in loss.averaged_parts(output.permute(1, 2, 0))]
    loc, factor = normal_parameters(output, 3)
    gap = loc - loc.mean(dim=1, keepdim=True)
    covariance = (factor @ factor.mT).mean(dim=1) + (gap.unsqueeze(-1) * gap.unsqueeze(-2)).mean(dim=1)
    density = MultivariateNormal(loc.mean(dim=1), covariance).log_prob(y[:, 0])
    torch.testing.assert_close(loss.score_average(parts, y[:, 0]), -density)


def test_moments_that_rounding_makes_impossible_have_an_infinite_score():
    loss = JointLoss(NLLLoss(), 2)
    parts = [torch.tensor([value]) for value in (0.0, 0.0, 1.0, 1.1, 1.0)]  # a correlation of 1.1
    assert loss.score_average(parts, torch.zeros(1, 2)).tolist() == [float("inf")]


# --------------------------------------------------------------------------------------- classes


@pytest.mark.parametrize("shape", [(7, 2, 4), (7, 4)], ids=["members", "rows"])
def test_cross_entropy_is_that_of_torch(shape):
    torch.manual_seed(0)
    output = 3 * torch.randn(shape, dtype=torch.float64)
    y = torch.randint(4, shape[:-1]).double()
    values = CrossEntropyLoss(4)(output, y)
    by_torch = torch.nn.functional.cross_entropy(
        output.reshape(-1, 4), y.reshape(-1).long(), reduction="none"
    )
    torch.testing.assert_close(values.reshape(-1), by_torch)


def test_logits_of_any_size_are_finite():
    output = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    values = CrossEntropyLoss(2)(output, torch.zeros(2))
    (gradient,) = torch.autograd.grad(values.sum(), output)
    assert values.tolist() == [0.0, 2e4]
    assert gradient.tolist() == [[0.0, 0.0], [-1.0, 1.0]]


def test_the_score_of_an_average_is_the_log_loss_of_mean_probabilities():
    torch.manual_seed(0)
    outputs, y = torch.randn(3, 4, 50, dtype=torch.float64), torch.randint(4, (50,))
    loss = CrossEntropyLoss(4)
    parts = [part.mean(dim=0) for part in loss.averaged_parts(outputs)]
    proba = torch.softmax(outputs, dim=1).mean(dim=0).T.numpy()
    score = float(loss.score_average(parts, y.double()).mean())
    assert score == pytest.approx(log_loss(y.numpy(), proba, labels=np.arange(4)))


def test_a_probability_of_zero_has_a_finite_score():
    assert CrossEntropyLoss(3) == CrossEntropyLoss(3) != CrossEntropyLoss(2)  # fits of one training share it
    assert CrossEntropyLoss(3).n_outputs == 3
    score = CrossEntropyLoss(2).score_average([torch.tensor([0.0]), torch.tensor([1.0])], torch.tensor([0.0]))
    assert 80 < float(score) < 100
