"""Functions of tensors against NumPy, and the table of ops against the functions."""

import re
from pathlib import Path

import numpy as np
import pytest

import starling as sl

X = np.array([[0.3, -1.2, 2.5], [0.9, 0.1, -0.4]], np.float32)

UNARY = ["abs", "exp", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "floor", "ceil", "trunc", "sign", "square"]
REDUCTIONS = ["sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin"]


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_functions_are_numpys(name):
    np.testing.assert_allclose(getattr(sl, name)(X).numpy(), getattr(np, name)(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_reductions_are_numpys(name, axis):
    want = getattr(np, name)(X, axis=axis)
    np.testing.assert_allclose(getattr(sl, name)(X, axis=axis).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(getattr(sl.tensor(X), name)(axis).numpy(), want, rtol=1e-5)


def test_std_and_var_count_one_degree_of_freedom_less():
    np.testing.assert_allclose(sl.std(X, axis=1).numpy(), X.std(axis=1, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(sl.var(X, axis=1, correction=0).numpy(), X.var(axis=1), rtol=1e-5)


def test_shapes():
    x = sl.arange(24).reshape(2, 3, 4)
    array = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(x.permute(2, 0, 1).numpy(), array.transpose(2, 0, 1))
    np.testing.assert_array_equal(x.T.numpy(), array.T)
    np.testing.assert_array_equal(sl.concat([x, x], axis=1).numpy(), np.concatenate([array, array], 1))
    np.testing.assert_array_equal(sl.stack([x, x], axis=2).numpy(), np.stack([array, array], 2))
    assert [p.shape for p in sl.split(x, 2, axis=2)] == [(2, 3, 2)] * 2
    assert [p.shape for p in sl.split(x, (1, 3), axis=2)] == [(2, 3, 1), (2, 3, 3)]
    assert x.flatten().shape == (24,) and x.unsqueeze(0).squeeze().shape == (2, 3, 4)
    np.testing.assert_array_equal(sl.roll(x, 1, 2).numpy(), np.roll(array, 1, 2))
    np.testing.assert_allclose(sl.einsum("ij,kj->ik", X, X).numpy(), X @ X.T, rtol=1e-5)


def test_sorting_and_linear_algebra():
    values, places = sl.sort(X, axis=1)
    np.testing.assert_array_equal(values.numpy(), np.sort(X, 1))
    np.testing.assert_array_equal(places.numpy(), np.argsort(X, 1))
    np.testing.assert_array_equal(sl.topk(X, 2)[0].numpy(), -np.sort(-X, 1)[:, :2])
    a = (X @ X.T + np.eye(2, dtype=np.float32)).astype(np.float32)
    np.testing.assert_allclose(sl.inverse(a).numpy(), np.linalg.inv(a), rtol=1e-4)
    np.testing.assert_allclose(sl.solve(a, np.ones((2, 1), np.float32)).numpy(), np.linalg.solve(a, np.ones((2, 1))), rtol=1e-4)


def test_losses():
    logits, labels = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]], np.float32), np.array([0, 1])
    shifted = logits - logits.max(1, keepdims=True)
    each = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(2), labels]
    np.testing.assert_allclose(sl.cross_entropy(logits, labels).item(), each.mean(), rtol=1e-5)
    np.testing.assert_allclose(sl.cross_entropy(logits, labels, reduction="none").numpy(), each, rtol=1e-5)
    np.testing.assert_allclose(sl.mse(X, X + 2).item(), 4, rtol=1e-5)
    with pytest.raises(sl.Error, match="mean, sum or none"):
        sl.mse(X, X, reduction="avg")


def test_every_op_of_the_registry_can_be_called_by_name():
    assert len(sl.op.__all__) > 300
    np.testing.assert_array_equal(sl.op.add(X, X).numpy(), X + X)
    np.testing.assert_allclose(sl.op.sum(X, axes=[1]).numpy(), X.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(sl.op.concat(X, X, axis=0).numpy(), np.concatenate([X, X]))
    values, places = sl.op.sort(X)
    assert values.shape == places.shape
    assert "stride" in sl.op.conv2d.attributes
    with pytest.raises(TypeError, match="did you mean 'axes'"):
        sl.op.sum(X, axess=[1])
    with pytest.raises(TypeError, match="expected an int or a sequence of ints for axes"):
        sl.op.sum(X, axes="all")


# Functions of the C++ interface that Python has under another name, or has no use for.
ELSEWHERE = {
    "stddev": "std", "coalesce": None, "row_sparse": None, "rows_of": None, "row_values": None, "dense": "to_dense",
    "select": None, "slice": None, "scalar": None, "assign": None, "constant": None, "save": None, "restore": None,
    "enqueue": None, "dequeue": None, "dequeue_many": None, "queue_size": None, "queue_close": None, "send_to": None,
    "recv_from": None, "reduce_to_root": None, "lstm": None, "gru": None, "rnn": None, "embedding_bag": None,
    "multi_head_attention": None, "local_conv2d": None, "csr_matmul": None, "csr_matmul_transposed": None,
    "csr_sample": None, "roi_align": None, "masked_gather": None, "linear_recurrence": None, "index_get": None,
    "max_pool1d_with_index": None, "max_pool2d_with_index": None, "max_pool3d_with_index": None, "current_device": None,
    "same_padding": None, "default_generator": None, "local_conv2d_backward_input": None, "local_conv2d_backward_weight": None,
}  # fmt: skip


def test_functions_of_the_cpp_interface_are_here():
    api = Path(__file__).parents[2] / "src/starling/ops/api"
    declared = set()
    for header in api.glob("*.h"):
        declared |= set(re.findall(r"^(?:Tensor|std::vector<Tensor>|\w+) (\w+)\((?:const |std::|bool|double|Shape)", header.read_text(), re.M))
    declared -= {"operator"}
    missing = sorted(n for n in declared if ELSEWHERE.get(n, n) is not None and not hasattr(sl, ELSEWHERE.get(n, n)))
    assert len(declared) > 150 and missing == []


def test_random_numbers_follow_the_seed():
    sl.manual_seed(3)
    first = sl.normal((4,)).tolist()
    sl.manual_seed(3)
    assert sl.normal((4,)).tolist() == first
    assert sorted(sl.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    drawn = sl.randint(3, 9, (1000,)).numpy()
    assert drawn.min() == 3 and drawn.max() == 8


def same(ours, theirs):
    np.testing.assert_array_equal(ours.numpy(), theirs)
    if theirs.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(ours.numpy()), np.signbit(theirs))


@pytest.mark.parametrize("run", [lambda f: f, sl.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeros_of_divisions_have_numpys_signs(run, dtype):
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 6.0, -6.0, 0.5, -0.5, np.inf, -np.inf], dtype)
    a, b = (part.ravel() for part in np.meshgrid(numbers[:8], numbers[2:]))
    x, y = sl.tensor(a), sl.tensor(b)
    same(run(lambda x, y: x % y)(x, y), a % b)
    same(run(lambda x, y: x // y)(x, y), a // b)


@pytest.mark.parametrize("run", [lambda f: f, sl.compile], ids=["eager", "compiled"])
def test_operators_of_u64_are_numpys(run):
    some = [0, 1, 2, 3, 7, 255, 2**31, 2**32 + 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    a, b = (part.ravel() for part in np.meshgrid(np.array(some, np.uint64), np.array(some[1:], np.uint64)))
    for operator in ("//", "%", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "&", "|", "^"):
        function = eval(f"lambda x, y: x {operator} y")
        same(run(function)(sl.tensor(a), sl.tensor(b)), function(a, b))
    shifts = np.arange(len(a), dtype=np.uint64) % 64
    same(run(lambda x, y: x >> y)(sl.tensor(a), sl.tensor(shifts)), a >> shifts)
    x = sl.tensor(a)
    same(x // 3, a // np.uint64(3))
    same(100 % sl.tensor(b), np.uint64(100) % b)
    same(x < 7, a < 7)
    same(abs(x), a)
    x //= 7
    same(x, a // np.uint64(7))
