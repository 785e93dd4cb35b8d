"""Compiled functions: what eager gives, structures kept, Python run once."""

import gc
import threading
import weakref

import numpy as np
import pytest

import starling as sl


def test_compiled_is_eager():
    def f(a, b):
        return (a @ b).relu().sum() + a.mean()

    a, b = sl.normal((8, 5)), sl.normal((5, 3))
    assert sl.compile(f)(a, b).item() == pytest.approx(f(a, b).item(), rel=1e-5)


def test_structures_come_back():
    @sl.compile
    def f(batch, scale, *, flag):
        x = batch["x"] * scale
        return {"y": x, "pair": (x + 1, [x.sum()]), "flag": flag}

    out = f({"x": np.ones(3, np.float32)}, 2, flag=True)
    assert out["y"].tolist() == [2, 2, 2] and out["pair"][0].tolist() == [3, 3, 3]
    assert out["pair"][1][0].item() == 6 and out["flag"] is True
    assert f({"x": np.ones(3, np.float32)}, 3, flag=False)["y"].tolist() == [3, 3, 3]
    with pytest.raises(TypeError, match="hashable"):
        f({"x": np.ones(3, np.float32)}, {1, 2}, flag=True)


def test_python_runs_once_per_shape():
    calls = []

    @sl.compile
    def f(x):
        calls.append(x.shape)
        return x * 2 if x.shape[0] > 2 else (x, x)

    for n in (3, 3, 2, 3, 2):
        result = f(sl.ones(n))
        assert isinstance(result, tuple) == (n == 2)
    assert calls == [(3,), (2,)]


def test_a_step_trains_and_agrees_with_eager():
    def train(compiled):
        sl.manual_seed(5)
        net = sl.nn.Sequential(sl.nn.Linear(4, 8), sl.nn.Tanh(), sl.nn.Linear(8, 1))
        optimizer = sl.optim.Adam(net.parameters(), lr=0.01)

        def step(x, y):
            loss = sl.mse(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = sl.compile(step) if compiled else step
        x = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
        return [step(x, x.sum(1, keepdims=True)).item() for _ in range(30)]

    eager, compiled = train(False), train(True)
    np.testing.assert_allclose(eager, compiled, rtol=1e-4)
    assert compiled[-1] < 0.7 * compiled[0]


def test_errors_inside_are_pythons():
    @sl.compile
    def f(x):
        raise LookupError("in the function")

    with pytest.raises(LookupError, match="in the function"):
        f(sl.ones(1))
    with pytest.raises(sl.Error, match="traced|compiled|while"):
        sl.compile(lambda x: x * x.sum().item())(sl.ones(2))
    with pytest.raises(sl.Error, match="nothing is compiled"):
        sl.compile(lambda x: x).explain()


def test_gradients_through_a_program_are_refused_instead_of_zero():
    square = sl.compile(lambda x: (x * x).sum())
    with pytest.raises(sl.Error, match="compile\\(grad"):
        sl.grad(square)(sl.ones(2))
    assert sl.compile(sl.grad(lambda x: (x * x).sum()))(sl.ones(2)).tolist() == [2, 2]
    with sl.no_grad():
        assert square(sl.tensor([3.0], requires_grad=True)).item() == 9


def test_graphs_can_be_read():
    f = sl.compile(lambda x: (x * 2 + 1).relu())
    f(sl.ones(4))
    assert "relu" in f.graph(traced=True) and "f32[4]" in f.graph() and f.memory_bytes >= 0 and f.explain()


def test_notebooks_show_the_program():
    f = sl.compile(lambda x: (x < 2).sum())
    assert "not compiled yet" in f._repr_html_()
    f(sl.ones(4))
    assert "less" in f._repr_html_() and "%" in f._repr_html_() and "<summary>" in f._repr_html_()
    assert "<pre>" in sl.ones(2)._repr_html_()


def test_a_compiled_function_is_given_back():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    f = sl.compile(lambda x, thing=thing: x + (thing is None))
    f(sl.ones(1))
    del thing, f
    gc.collect()
    assert gone() is None


def test_equal_numbers_of_other_types_are_other_programs():
    f = sl.compile(lambda x, s: (x * s, s))
    x = sl.tensor([1, 2])
    for value, dtype in ((2, "i64"), (2.0, "f32"), (2, "i64")):
        product, back = f(x, value)
        assert product.dtype == dtype and type(back) is type(value)
    at = sl.compile(lambda x, i: x[i])
    assert at(sl.ones((2, 3)), 1).shape == (3,) and at(sl.ones((2, 3)), True).shape == (1, 2, 3)


def test_arrays_and_tensors_share_programs():
    h = sl.compile(lambda x: x * 2 if x.shape[0] > 2 else (x, x))
    for make in (np.ones, sl.ones):
        assert h(make(3, "float32")).shape == (3,) and len(h(make(2, "float32"))) == 2


def test_results_that_would_hide_tensors_are_refused():
    class Box:
        def __init__(self, x):
            self.x = x

    with pytest.raises(TypeError, match="as results, got Box"):
        sl.compile(lambda x: Box(x * 2))(sl.ones(2))


def test_one_function_on_several_threads_keeps_its_structures():
    import threading

    f = sl.compile(lambda x: x.sum() if x.shape[0] == 2 else (x.sum(), x.max()))
    wrong = []

    def work(n):
        for _ in range(300):
            out = f(np.ones(n, np.float32))
            if isinstance(out, tuple) != (n == 3):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(2 + i % 2,), daemon=True) for i in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not any(t.is_alive() for t in threads) and wrong == []


def test_hooks_and_recomputed_regions_inside_programs():
    def f(x):
        x = x * 1
        x.register_hook(lambda g: g * 10)
        return sl.recompute(lambda a: (a * a).sum(), x)

    step = sl.compile(sl.grad(f))
    for _ in range(3):
        assert step(sl.tensor([1.0, 2.0])).tolist() == [20, 40]


def test_in_place_operators_inside_programs_assign():
    count = sl.zeros(2)
    count.name = "count"

    @sl.compile
    def f(x):
        nonlocal count
        count += x
        return count * 2

    assert f(sl.ones(2)).tolist() == [2, 2] and f(sl.ones(2)).tolist() == [4, 4] and count.tolist() == [2, 2]


def test_threads_run_programs_at_once():
    import threading

    f = [sl.compile(lambda x: (x @ x).sum()) for _ in range(4)]
    out = [None] * 4

    def work(i):
        for _ in range(20):
            out[i] = f[i](np.full((16, 16), i, np.float32)).item()

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not any(t.is_alive() for t in threads)
    assert out == [i * i * 16.0**3 for i in range(4)]


class Named:
    """Instances of one name are equal."""

    def __init__(self, name, value):
        self.name, self.value = name, sl.full((), value)

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)

    @sl.compile
    def plus(self, x):
        return x + self.value


def test_methods_of_equal_instances_are_programs_of_their_own():
    one, two = Named("same", 1.0), Named("same", 2.0)
    assert (one.plus(sl.zeros(())).item(), two.plus(sl.zeros(())).item()) == (1, 2)
    compiled = Named.__dict__["plus"]
    assert len(compiled._of_instances) == 2
    del one
    gc.collect()
    assert len(compiled._of_instances) == 1 and two.plus(sl.zeros(())).item() == 2


def test_instances_that_cannot_be_referred_to_weakly_are_refused():
    class Slotted:
        __slots__ = ("value",)

        @sl.compile
        def f(self, x):
            return x

    with pytest.raises(TypeError, match="'__weakref__' to its __slots__"):
        Slotted().f(sl.ones(1))

    class Unhashable:
        __hash__ = None

        @sl.compile
        def f(self, x):
            return x + 1

    assert Unhashable().f(sl.ones(1)).item() == 2


def test_an_evicted_program_may_call_the_function():
    calls = []

    class Calls:  # as an argument that is no tensor: kept by its entry
        def __del__(self):
            calls.append(f(sl.ones(()), 0).item())

    f = sl.compile(lambda x, flag: x + 1, cache=2)
    f(sl.ones(()), Calls())
    f(sl.ones(()), 1)
    done = threading.Thread(target=lambda: f(sl.ones(()), 2), daemon=True)
    done.start()
    done.join(30)
    gc.collect()
    assert not done.is_alive() and calls == [2]


def test_a_program_is_read_before_or_after_a_call_that_traces_it():
    texts, waited = [], []

    @sl.compile
    def f(x):
        if x.shape[0] > 1:
            reader = threading.Thread(target=lambda: texts.append((f.graph(), f.explain(), f.memory_bytes)))
            reader.start()
            reader.join(0.3)  # time to come and read what is being made
            waited.append(reader)
            assert reader.is_alive()
        return x * 2

    f(sl.ones(1))
    assert f(sl.ones(2)).tolist() == [2, 2]
    waited[0].join(60)
    assert len(texts) == 1 and "[2]" in texts[0][0]
