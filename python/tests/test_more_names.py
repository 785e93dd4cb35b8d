"""Functions, methods and classes that users of NumPy, PyTorch and JAX look for, held against NumPy."""

import math

import numpy as np
import pytest

import starling as sl

F = sl.nn.functional
GENERATOR = np.random.default_rng(3)
A = GENERATOR.normal(size=(3, 4)).astype(np.float32)
V = GENERATOR.normal(size=5).astype(np.float32)
WILD = np.array([1.0, np.nan, np.inf, -np.inf, 0.0], np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: sl.isclose(A, A + 1e-7), lambda: np.isclose(A, A + 1e-7)),
        (lambda: sl.isclose(WILD, WILD), lambda: np.isclose(WILD, WILD)),
        (lambda: sl.isclose(WILD, WILD, equal_nan=True), lambda: np.isclose(WILD, WILD, equal_nan=True)),
        (lambda: sl.isclose(WILD, WILD[::-1]), lambda: np.isclose(WILD, WILD[::-1])),
        (lambda: sl.isclose(-WILD, WILD), lambda: np.isclose(-WILD, WILD)),
        (lambda: sl.isclose([1, 2], [1, 3]), lambda: np.isclose([1, 2], [1, 3])),
        (lambda: sl.hstack([V, V]), lambda: np.hstack([V, V])),
        (lambda: sl.hstack([A, A]), lambda: np.hstack([A, A])),
        (lambda: sl.hstack([1.0, 2.0]), lambda: np.hstack([1.0, 2.0])),
        (lambda: sl.vstack([V, V]), lambda: np.vstack([V, V])),
        (lambda: sl.vstack([A, A]), lambda: np.vstack([A, A])),
        (lambda: sl.amax(A, 1), lambda: np.amax(A, 1)),
        (lambda: sl.amax(A), lambda: np.amax(A)),
        (lambda: sl.amin(A, axis=(0, 1), keepdim=True), lambda: np.amin(A, (0, 1), keepdims=True)),
        (lambda: sl.count_nonzero(A > 0), lambda: np.count_nonzero(A > 0)),
        (lambda: sl.count_nonzero(A > 0, 1), lambda: np.count_nonzero(A > 0, 1)),
        (lambda: sl.nan_to_num(WILD), lambda: np.nan_to_num(WILD)),
        (lambda: sl.nan_to_num(WILD, 7.0, 8.0, -9.0), lambda: np.nan_to_num(WILD, nan=7.0, posinf=8.0, neginf=-9.0)),
        (lambda: sl.log10(np.abs(A)), lambda: np.log10(np.abs(A))),
        (lambda: sl.log10([1, 1000]), lambda: np.log10([1, 1000])),
        (lambda: sl.floor_divide([7, -7], 2), lambda: np.floor_divide([7, -7], 2)),
        (lambda: sl.ravel(A), lambda: np.ravel(A)),
        (lambda: sl.diag(V), lambda: np.diag(V)),
        (lambda: sl.diag(V, 2), lambda: np.diag(V, 2)),
        (lambda: sl.diag(V, -1), lambda: np.diag(V, -1)),
        (lambda: sl.diag(A, 1), lambda: np.diag(A, 1)),
        (lambda: sl.trace(A), lambda: np.trace(A)),
        (lambda: sl.bincount([1, 3, 1]), lambda: np.bincount([1, 3, 1])),
        (lambda: sl.bincount([1, 3, 1], [0.5, 1.0, 2.0], 6), lambda: np.bincount([1, 3, 1], [0.5, 1.0, 2.0], 6)),
        (lambda: sl.tensordot(A, A.T, 1), lambda: np.tensordot(A, A.T, 1)),
        (lambda: sl.tensordot(A, A, ((0, 1), (0, 1))), lambda: np.tensordot(A, A, ((0, 1), (0, 1)))),
        (lambda: sl.tensor(A)[:, sl.newaxis], lambda: A[:, np.newaxis]),
        (lambda: sl.tensor(A).add(A, alpha=2), lambda: A + 2 * A),
        (lambda: sl.tensor(A).sub(1), lambda: A - 1),
        (lambda: sl.tensor(A).mul(A), lambda: A * A),
        (lambda: sl.tensor([7, 8]).div(2), lambda: np.array([7, 8]) / 2),
        (lambda: sl.tensor(A).eq(A), lambda: A == A),
        (lambda: sl.tensor(A).ne(A), lambda: A != A),
        (lambda: sl.tensor(A).lt(0), lambda: A < 0),
        (lambda: sl.tensor(A).le(0), lambda: A <= 0),
        (lambda: sl.tensor(A).gt(0), lambda: A > 0),
        (lambda: sl.tensor(A).ge(0), lambda: A >= 0),
        (lambda: sl.tensor(A).mm(A.T), lambda: A @ A.T),
        (lambda: sl.tensor(A).clip(-0.5, 0.5), lambda: A.clip(-0.5, 0.5)),
        (lambda: sl.tensor(A).clip(max=0.5), lambda: np.minimum(A, 0.5)),
        (lambda: sl.tensor(A).clamp_(min=0), lambda: np.maximum(A, 0)),
        (lambda: sl.tensor(A).masked_fill_(A > 0, 3), lambda: np.where(A > 0, 3, A)),
        (lambda: round(sl.tensor(A)), lambda: np.round(A)),
        (lambda: round(sl.tensor(A), 2), lambda: np.round(A, 2)),
        (lambda: divmod(sl.tensor([7, -7]), 2)[0], lambda: divmod(np.array([7, -7]), 2)[0]),
        (lambda: divmod(7, sl.tensor([2, 3]))[1], lambda: divmod(7, np.array([2, 3]))[1]),
        (lambda: sl.tensor(A).unique()[0], lambda: np.unique(A)),
        (lambda: sl.tensor(V).outer(V), lambda: np.outer(V, V)),
        (lambda: sl.tensor(V).expand_as(sl.ones(2, 5)), lambda: np.broadcast_to(V, (2, 5))),
        (lambda: sl.tensor(A).view_as(sl.ones(2, 6)), lambda: A.reshape(2, 6)),
        (lambda: sl.tensor(A).type_as(sl.ones(1, dtype="i64")), lambda: A.astype(np.int64)),
        (lambda: F.pad(A, (1, 2)), lambda: np.pad(A, ((0, 0), (1, 2)))),
        (lambda: F.pad(A, (1, 2, 3, 0), value=4.0), lambda: np.pad(A, ((3, 0), (1, 2)), constant_values=4.0)),
        (lambda: F.pad(A, (1, 2), mode="reflect"), lambda: np.pad(A, ((0, 0), (1, 2)), mode="reflect")),
        (lambda: F.pad(A, (1, 2), mode="replicate"), lambda: np.pad(A, ((0, 0), (1, 2)), mode="edge")),
        (lambda: F.interpolate(A[None, None], scale_factor=2), lambda: A.repeat(2, 0).repeat(2, 1)[None, None]),
        (lambda: F.interpolate(A[None, None], size=(6, 4)), lambda: A.repeat(2, 0)[None, None]),
        (lambda: F.cosine_similarity(A, A[::-1]), lambda: (A * A[::-1]).sum(1) / (np.linalg.norm(A, axis=1) * np.linalg.norm(A[::-1], axis=1))),
    ],
)
def test_functions_give_what_numpys_give(ours, theirs):
    made, wanted = ours().numpy(), np.asarray(theirs())
    assert made.shape == wanted.shape and made.dtype.kind == wanted.dtype.kind
    assert np.allclose(made, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_gradients_go_through():
    for f in (lambda x: sl.diag(x, 1).square().sum(), lambda x: sl.nan_to_num(x).sum(), lambda x: sl.amax(x), lambda x: x.add(x, alpha=2).sum()):
        assert sl.grad(f)(sl.tensor(V)).shape == (5,)
    x = sl.tensor(V)
    assert np.allclose(sl.jacobian(lambda a: a * a)(x).numpy(), np.diag(2 * V))
    jacobian = sl.jacobian(lambda a, b: sl.stack([a.sum() * b[0], (a * b).sum()]), argnums=-1)(x, x)
    assert jacobian.shape == (2, 5) and np.allclose(jacobian[1].numpy(), V) and np.allclose(jacobian[0].numpy(), [V.sum(), 0, 0, 0, 0])
    assert sl.jacobian(lambda a: a.sum())(x).tolist() == [1] * 5
    hessian = sl.hessian(lambda a: (a**3).sum() + a[0] * a[1])(x).numpy()
    wanted = np.diag(6 * V)
    wanted[0, 1] = wanted[1, 0] = 1
    assert np.allclose(hessian, wanted, atol=1e-5)
    assert np.allclose(sl.compile(sl.hessian(lambda a: (a**3).sum()))(x).numpy(), np.diag(6 * V), atol=1e-5)
    with pytest.raises(ValueError, match="argnums within the 1 arguments"):
        sl.jacobian(lambda a: a, argnums=1)(x)


def test_facts_about_tensors_and_dtypes():
    x = sl.ones(2, 3, dtype="f64")
    assert (x.itemsize, x.nbytes) == (8, 48) and sl.is_tensor(x) and not sl.is_tensor(A)
    assert sl.finfo("f32").eps == np.finfo(np.float32).eps and sl.iinfo(sl.i16).max == 32767
    assert (sl.pi, sl.e, sl.inf) == (math.pi, math.e, math.inf) and math.isnan(sl.nan)
    assert sl.allclose(A, A + 1e-7) is True and sl.tensor(A).allclose(A + 1) is False and not sl.allclose(WILD, WILD)
    with pytest.raises(ValueError, match="vector of integers"):
        sl.bincount([0.5])
    with pytest.raises(ValueError, match="from 0 on, got -1"):
        sl.bincount([2, -1])
    before = sl.num_threads()
    sl.set_num_threads(1)
    assert sl.num_threads() == 1
    sl.set_num_threads(before)
    with pytest.raises(sl.Error, match="at least one thread"):
        sl.set_num_threads(0)


def test_values_are_drawn_in_place():
    x = sl.zeros(1000)
    assert x.normal_(3.0, 0.5) is x and abs(x.mean().item() - 3) < 0.1 and 0.4 < x.std().item() < 0.6
    assert x.uniform_(-1, 0) is x and -1 <= x.min().item() and x.max().item() < 0
    first = sl.nn.init.orthogonal_(sl.zeros(3, 5), gain=2.0)
    assert np.allclose((first @ first.T).numpy(), 4 * np.eye(3), atol=1e-5)
    tall = sl.nn.init.orthogonal_(sl.zeros(6, 2, 1)).reshape(6, 2)
    assert np.allclose((tall.T @ tall).numpy(), np.eye(2), atol=1e-5)


def test_modules_have_pytorchs_methods():
    net = sl.nn.Sequential(sl.nn.Linear(2, 3), sl.nn.Sequential(sl.nn.Linear(3, 1)))
    net(sl.ones((1, 2))).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert net.get_submodule("1.0") is net[1][0] and net.cpu() is net
    for convert, dtype in ((net.double, "f64"), (net.half, "f16"), (net.float, "f32")):
        assert convert() is net and {parameter.dtype.name for parameter in net.parameters()} == {dtype}
    assert net.requires_grad_(False) is net and net.trainable_parameters() == []
    net[0].requires_grad_()
    assert len(net.trainable_parameters()) == 2


def test_lists_of_parameters_are_parameters():
    class Net(sl.nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = sl.nn.ParameterList([sl.ones(2), sl.nn.Parameter(sl.zeros(3))])

    net = Net()
    assert list(net.state_dict()) == ["scales.0", "scales.1"] and len(net.scales) == 2 and net.scales[-1].shape == (3,)
    assert net.scales.append(sl.ones(())) is net.scales and [one.ndim for one in net.scales] == [1, 1, 0]
    net.scales[0] = sl.ones(4)
    assert net.parameters()[0].shape == (4,) and net.parameters()[0].requires_grad


def test_data_sets_are_split_and_joined():
    x, y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)
    train, test = sl.data.random_split((x, y), [0.75, 0.25], seed=1)
    assert (len(train), len(test)) == (8, 2) and sorted(train.indices + test.indices) == list(range(10))
    assert sl.data.random_split((x, y), [0.75, 0.25], seed=1)[1].indices == test.indices != sl.data.random_split((x, y), [8, 2], seed=2)[1].indices
    rows = [(a, b) for xs, ys in sl.data.Loader(train, batch=3, shuffle=False) for a, b in zip(xs.tolist(), ys.tolist())]
    assert rows == [(x[i].tolist(), i) for i in train.indices]
    both = sl.data.ConcatDataset([sl.data.Subset((x, y), [1, 2]), sl.data.TensorDataset(x, y)])
    assert len(both) == 12 and [int(both[i][1]) for i in (0, 1, 2, 11, -1)] == [1, 2, 0, 9, 9]
    (batch,) = sl.data.Loader(sl.data.TensorDataset(x, y), batch=10, shuffle=False)
    assert batch[0].tolist() == x.tolist() and batch[1].tolist() == y.tolist()
    source = sl.data.dataset("synthetic")
    assert len(sl.data.Subset(source, range(5))) == 5 and next(iter(sl.data.Loader(sl.data.Subset(source, range(5)), batch=5)))[0].shape[0] == 5
    for wrong in ([0.5, 0.2], [3, 3], [11, -1]):
        with pytest.raises(ValueError, match="add up to"):
            sl.data.random_split((x, y), wrong)
    with pytest.raises(TypeError, match="data.dataset"):
        sl.data.Subset("synthetic", [1])
