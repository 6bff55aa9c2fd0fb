"""The loss of several targets, compared with losses of one target and with torch's distribution."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch.distributions import MultivariateNormal

from skuq.neural._joint_loss import JointLoss, normal_parameters
from skuq.neural._losses import LOSSES, NLLLoss

WITH_VARIANCE = [name for name, loss in LOSSES.items() if loss.n_outputs == 2]


def outputs(loss, n_members=4):
    """Return outputs (B, M, k) of networks, and targets (B, M, d)."""
    generator = torch.Generator().manual_seed(0)
    shape = 6, n_members
    output = torch.randn(*shape, loss.n_outputs, generator=generator, dtype=torch.float64)
    return output, torch.randn(*shape, loss.n_targets, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", WITH_VARIANCE)
def test_one_target_has_the_loss_of_one_target(name):
    loss = LOSSES[name]
    output, y = outputs(JointLoss(loss, 1))
    values, gradient = JointLoss(loss, 1).with_gradient(output, y)
    expected, slope = loss.with_gradient(output, y[..., 0])
    assert torch.equal(values, expected)
    assert torch.equal(gradient, slope)


@pytest.mark.parametrize("d", [2, 5])
def test_the_likelihood_is_that_of_a_multivariate_normal_distribution(d):
    loss = JointLoss(NLLLoss(), d)
    output, y = outputs(loss)
    loc, factor = normal_parameters(output, d)
    density = MultivariateNormal(loc, scale_tril=factor).log_prob(y)
    torch.testing.assert_close(loss(output, y), -density)


@pytest.mark.parametrize("name", WITH_VARIANCE)
def test_the_gradient_is_the_derivative(name):
    loss = JointLoss(LOSSES[name], 3)
    output, y = outputs(loss)
    values, gradient = loss.with_gradient(output, y)
    leaf = output.clone().requires_grad_()
    expected = loss(leaf, y)
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), leaf)[0])


@pytest.mark.parametrize("name", WITH_VARIANCE)
def test_the_average_of_one_member_has_its_score(name):
    loss = JointLoss(LOSSES[name], 3)
    output, y = outputs(loss, 1)
    parts = [part[0] for part in loss.averaged_parts(output.permute(1, 2, 0))]
    torch.testing.assert_close(loss.score_average(parts, y[:, 0]), loss(output, y)[:, 0])


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
