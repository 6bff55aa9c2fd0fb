"""Stacked modules: shapes, members, gradients, and users' networks."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn

from skuq.neural._modules.architecture import MLPArchitecture
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedMLP, StackedModule
from skuq.neural._modules.user_module import StackedUserModule
from skuq.neural._training.plan import TrainingOptions
from skuq.neural._training.trainer import train

F64 = torch.float64


def generators(n, seed=0):
    return [member.init for member in MemberSeed.spawn(seed, n)]


@pytest.fixture
def stacked():
    return StackedMLP(generators(3), 2, (5, 4), 2, F64)


def test_rows_may_be_shared_or_each_members_own(stacked):
    x = torch.randn(7, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    shared = stacked(x)
    assert shared.shape == (7, 3, 2)
    torch.testing.assert_close(stacked(x.unsqueeze(1).repeat(1, 3, 1)), shared)


def test_a_part_of_the_members_is_a_module_of_its_own(stacked):
    x = torch.ones(4, 2, dtype=F64)
    part = stacked.take(slice(1, 3))
    torch.testing.assert_close(part(x), stacked(x)[:, 1:])
    with torch.no_grad():
        part.flat.zero_()
    assert stacked.flat.abs().sum() > 0
    joined = StackedModule.join([stacked.take(slice(0, 1)), stacked.take(slice(1, 3))])
    torch.testing.assert_close(joined(x), stacked(x))


def test_copies_and_pickles_are_whole(stacked):
    stacked.begin_training()
    x = torch.ones(4, 2, dtype=F64)
    for other in (copy.deepcopy(stacked), pickle.loads(pickle.dumps(stacked))):
        torch.testing.assert_close(other(x), stacked(x))
        with torch.no_grad():
            other.flat.zero_()
        assert other(x).abs().sum() == 0


def test_gradients_are_those_of_autograd(stacked):
    x = torch.randn(7, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    (expected,) = torch.autograd.grad(stacked(x).square().sum(), stacked.flat)
    stacked.begin_training()
    for route in (StackedMLP, StackedModule):  # by hand, and by autograd
        stacked.train(route is StackedMLP)
        output = stacked(x)
        stacked.flat.grad.zero_()
        route.backward(stacked, output, 2 * output.detach())
        torch.testing.assert_close(stacked.flat.grad, expected)


def test_each_member_is_clipped_by_itself(stacked):
    stacked.begin_training()
    with torch.no_grad():
        stacked.flat.grad[0] = 3.0
        stacked.flat.grad[1] = 1e-3
    before = stacked.flat.grad.clone()
    stacked.clip_gradients(5.0)
    assert torch.linalg.vector_norm(stacked.flat.grad[0]) == pytest.approx(5.0)
    assert torch.equal(stacked.flat.grad[1:], before[1:])
    stacked.end_training()
    with pytest.raises(RuntimeError, match="no gradients to clip"):
        stacked.clip_gradients(5.0)


def test_weights_start_as_linear_layers_do():
    wide = StackedMLP(generators(2), 100, (400,), 1, F64)
    weight = wide.weights["weight_0"].detach()
    assert weight.abs().max() <= 0.1
    assert weight.std() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert not torch.equal(weight[0], weight[1])
    single = StackedMLP(generators(2), 100, (400,), 1, torch.float32)
    torch.testing.assert_close(single.flat, wide.flat.float())


# ------------------------------------------------------------------------------ networks of users


def plain(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 5), nn.Tanh(), nn.Linear(5, n_outputs))


class Branching(nn.Module):
    """Control flow that depends on values, which cannot be vectorized."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.linear = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.linear(x) if float(x.sum()) > -1e300 else 0 * self.linear(x)


def normed(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, n_outputs))


@pytest.mark.parametrize(("build", "vectorized"), [(plain, True), (Branching, False), (normed, True)])
def test_users_networks_give_what_they_give_alone(build, vectorized):
    stacked = StackedUserModule(build, generators(3), 2, 2, F64).eval()
    assert stacked.vectorized is vectorized
    x = torch.randn(6, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    for member, rng in enumerate(generators(3)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            alone = build(2, 2).to(F64).eval()
        torch.testing.assert_close(stacked(x)[:, member], alone(x))


def test_the_loop_trains_as_the_vectorized_do(plan):
    options = TrainingOptions(MLPArchitecture((), plain), max_epochs=10, dtype="float64")

    class Looped(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.inner = plain(*sizes)

        def forward(self, x):
            return self.inner(x) if float(x.sum()) > -1e300 else x

    looped = TrainingOptions(MLPArchitecture((), Looped), max_epochs=10, dtype="float64")
    one, two = (train([plan(3)], each)[0].net.module_ for each in (options, looped))
    assert one.vectorized
    assert not two.vectorized
    torch.testing.assert_close(one.flat, two.flat, rtol=0, atol=1e-10)


def test_running_means_belong_to_their_member(plan):
    options = TrainingOptions(MLPArchitecture((), normed), max_epochs=5, dtype="float64")
    together = train([plan(3), plan(2, seed=5)], options)
    alone = train([plan(2, seed=5)], options)[0]
    for name, value in together[1].net.module_.state_dict().items():
        torch.testing.assert_close(value, alone.net.module_.state_dict()[name], rtol=0, atol=1e-8)
    assert (together[0].net.module_.get_buffer("buffer_1__num_batches_tracked") > 0).all()
