"""The loss of classifiers: its values, its gradient by hand, and the score of an average."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural._cross_entropy import CrossEntropyLoss
from skuq.neural._training_loss import TrainingLoss


@pytest.mark.parametrize("shape", [(7, 2, 4), (7, 4)], ids=["members", "rows"])
def test_values_and_gradient_are_those_of_torch_and_autograd(shape):
    torch.manual_seed(0)
    output = 3 * torch.randn(shape, dtype=torch.float64)
    y = torch.randint(4, shape[:-1]).double()
    loss = CrossEntropyLoss(4)
    values, gradient = loss.with_gradient(output, y)
    expected, slope = TrainingLoss.with_gradient(loss, output, y)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(gradient, slope)
    by_torch = torch.nn.functional.cross_entropy(
        output.reshape(-1, 4), y.reshape(-1).long(), reduction="none"
    )
    torch.testing.assert_close(values.reshape(-1), by_torch)


def test_the_gradient_lies_in_memory_as_the_backward_pass_reads_it():
    output = torch.randn(2, 4, 7).permute(2, 0, 1)  # members, outputs, rows, as a stacked module has them
    _, gradient = CrossEntropyLoss(4).with_gradient(output, torch.zeros(7, 2))
    assert gradient.permute(1, 2, 0).is_contiguous()


def test_logits_of_any_size_are_finite():
    output = torch.tensor([[1e4, -1e4], [-1e4, 1e4]])
    values, gradient = CrossEntropyLoss(2).with_gradient(output, torch.zeros(2))
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
    score = CrossEntropyLoss(2).score_average([torch.tensor([0.0]), torch.tensor([1.0])], torch.tensor([0.0]))
    assert 80 < float(score) < 100


def test_losses_of_as_many_classes_are_equal():
    """So that the fits of one training share it."""
    assert CrossEntropyLoss(3) == CrossEntropyLoss(3)
    assert CrossEntropyLoss(3) != CrossEntropyLoss(2)
    assert CrossEntropyLoss(3).n_outputs == 3
