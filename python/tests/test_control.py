"""Control flow over values, eager and compiled, against Python's own."""

import numpy as np
import pytest

import starling as sl


def newton(a):
    return sl.while_loop(lambda x: ((x * x - a).abs() > 1e-5).any(), lambda x: (x + a / x) * 0.5, a)


def shrunk(x):
    size = x.norm()
    return sl.cond(size > 1.0, lambda v: {"y": v / size}, lambda v: {"y": v}, x)["y"]


def recurrent(xs, h, w):
    return sl.scan(lambda h, x: ((h @ w + x).tanh(),) * 2, h, xs)


@pytest.mark.parametrize("wrap", [lambda f: f, sl.compile], ids=["eager", "compiled"])
def test_loops_branches_and_scans_compute(wrap):
    np.testing.assert_allclose(wrap(newton)(sl.tensor([4.0, 9.0])).numpy(), [2, 3], rtol=1e-5)
    np.testing.assert_allclose(wrap(shrunk)(sl.tensor([3.0, 4.0])).numpy(), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(wrap(shrunk)(sl.tensor([0.3, 0.4])).numpy(), [0.3, 0.4], rtol=1e-6)
    xs, h, w = sl.normal((5, 2, 3)), sl.normal((2, 3)), sl.normal((3, 3))
    last, all_of_them = wrap(recurrent)(xs, h, w)
    want = h.numpy()
    for i in range(5):
        want = np.tanh(want @ w.numpy() + xs.numpy()[i])
        np.testing.assert_allclose(all_of_them.numpy()[i], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.numpy(), want, rtol=1e-4, atol=1e-5)


def test_gradients_flow_through_them():
    def f(x):
        total = sl.while_loop(lambda s: s["i"] < 3, lambda s: {"i": s["i"] + 1, "y": s["y"] * x}, {"i": sl.tensor(0), "y": x}, max_trips=5)
        return total["y"].sum() + shrunk(x).sum()

    x = sl.tensor([0.5, 0.6])
    for gradient in (sl.grad(f)(x), sl.compile(sl.grad(f))(x)):
        np.testing.assert_allclose(gradient.numpy(), 4 * x.numpy() ** 3 + 1, rtol=1e-5)


def test_only_the_branch_taken_runs_and_errors_of_python_come_out():
    ran = []
    sl.cond(sl.tensor(True), lambda: ran.append("then") or sl.ones(1), lambda: ran.append("else") or sl.ones(1))
    assert ran == ["then"]
    with pytest.raises(KeyError, match="mine"):
        sl.while_loop(lambda x: x < 3, lambda x: {}["mine"], sl.tensor(0))
    with pytest.raises(TypeError, match="one structure"):
        sl.compile(lambda x: sl.cond(x.sum() > 0, lambda: x, lambda: (x, x)))(sl.ones(2))
    with pytest.raises(sl.Error, match="5"):
        sl.while_loop(lambda x: x < 100, lambda x: x + 1, sl.tensor(0), max_trips=5)
    with pytest.raises(TypeError, match=r"\(carry, y\)"):
        sl.scan(lambda c, x: c, sl.tensor(0.0), sl.ones(3))
