"""Wrong calls name the argument, what it expects and what it got; errors are of Python's classes too; objects say what they are."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import starling as sl

L = sl.nn.Linear
X, Y = np.arange(32, dtype=np.float32).reshape(8, 4), np.arange(8)


def make():
    net = L(4, 2)
    return net, sl.optim.SGD(net.parameters(), lr=0.01), sl.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda n, o, x: sl.tensor(None), r"\[tensor\] expected anything but None for data, got None"),
        (lambda n, o, x: sl.tensor([1], dtype="foo"), r"\[tensor\] expected a dtype.* for dtype, got 'foo'"),
        (lambda n, o, x: sl.tensor([1], dtype="fp16"), r"\[tensor\] expected a dtype.* for dtype, got 'fp16'"),
        (lambda n, o, x: sl.ones(3, device="foo"), r"\[ones\] expected a device.* for device, got 'foo'"),
        (lambda n, o, x: sl.zeros(2.5), r"\[zeros\] expected an int or a sequence of ints for shape, got 2.5"),
        (lambda n, o, x: sl.zeros(2, 2.5), r"\[zeros\] expected sizes as ints, got 2, 2.5"),
        (lambda n, o, x: L(8), r"\[Linear\] expected a value for outputs, got none: \(inputs, outputs, bias=True\)"),
        (lambda n, o, x: L(4, 8, bais=False), r"\[Linear\] expected keywords out of \(inputs, outputs, bias\), got 'bais' \(did you mean 'bias'"),
        (lambda n, o, x: L(4, 8.0), r"\[Linear\] expected an int for outputs, got 8.0"),
        (lambda n, o, x: L(in_features=4, out_features="a"), r"\[Linear\] expected an int for out_features, got 'a'"),
        (lambda n, o, x: sl.nn.Conv2d(3, 4, 3, padding="same"), r"\[Conv2d\] expected an int or a sequence of ints for padding, got 'same'"),
        (lambda n, o, x: sl.gather(x, 1, sl.tensor([1])), r"\[gather\] .*gather\(x, index, axis=1\)"),
        (lambda n, o, x: sl.where(x), r"\[where\] expected a value for a, got none: \(condition, a, b\)"),
        (lambda n, o, x: sl.pad(x, (1, 1)), r"\[pad\] expected at most 1 value by position, got 2: before, after, .* go by name"),
        (lambda n, o, x: x.round(decimals=1), r"\[round\] expected keywords out of \(x\), got 'decimals' \(here it is \(x \* 10\*\*n\)"),
        (lambda n, o, x: x.backward(retain_graph=True), r"\[backward\] .*got 'retain_graph' \(here it is nothing"),
        (lambda n, o, x: sl.dist.all_reduce(x, op="max"), r"\[all_reduce\] .*got 'op' \(did you mean 'reduce'"),
        (lambda n, o, x: x.__setitem__(0, None), r"\[setitem\] expected anything but None for value"),
        (lambda n, o, x: n.load_state_dict(None), r"\[load_state_dict\] expected a dict for state, got None"),
        (lambda n, o, x: sl.metrics.Accuracy().update(None, None), r"\[update\] expected a tensor.* for prediction, got None"),
        (lambda n, o, x: sl.train.Checkpoints("nowhere", net=n).save("a"), r"\[save\] expected an int for step, got 'a'"),
        (lambda n, o, x: sl.train.Trainer(lambda x: x, o), r"\[trainer\] expected a network"),
        (lambda n, o, x: n.summary(), r"\[summary\] expected a value for sample, got none"),
        (lambda n, o, x: sl.num_threads(1), r"\[num_threads\] expected no values, got 1: set_num_threads\(n\)"),
        (lambda n, o, x: sl.SavedModel(3), r"\[SavedModel\] expected a string for folder, got 3"),
        (lambda n, o, x: sl.optim.SGD([{"params": n.parameters(), "lr": 0.1}]), r"got 'lr': its rate is the optimizer's lr times lr_scale"),
        (lambda n, o, x: sl.schedules.Cosine(o, step=3), r"expected steps=, the length of the run, got step=3"),
        (lambda n, o, x: sl.schedules.Cosine(o), r"schedules.Cosine\(optimizer, steps=1000\)"),
        (lambda n, o, x: sl.cross_entropy(x, sl.tensor([0, 1]).to("i32")), r"labels.long\(\)"),
        (lambda n, o, x: n(sl.ones((2, 4)).double()), r"x.float\(\)"),
        (lambda n, o, x: sl.grad(lambda a: a * 2)(x), r"\[grad\] expected a function whose result has one element, got f32\[2, 3\]: sum\(\) it"),
        (lambda n, o, x: sl.compile(lambda a: n(a).sum())(sl.ones((2, 4))).backward(), r"call backward\(\) inside or compile\(grad\(f\)\)"),
        (lambda n, o, x: sl.save({"net": n.state_dict(), "step": 3}, "nowhere"), r"got dict at 'net': train.Checkpoints"),
        (lambda n, o, x: sl.save_model(lambda a: {"a": a}, "nowhere", x), r"got a dict: return its values, and name them by outputs="),
        (lambda n, o, x: copy.deepcopy(o), r"state_dict\(\)"),
        (lambda n, o, x: pickle.dumps(o), r"state_dict\(\)"),
        (lambda n, o, x: pickle.dumps(sl.schedules.Cosine(o, steps=3)), r"state_dict\(\)"),
        (lambda n, o, x: pickle.dumps(sl.data.Loader((X, Y), batch=2)), r"state_dict\(\)"),
        (lambda n, o, x: pickle.dumps(sl.dist.data_parallel(workers=2)), r"make another one"),
        (lambda n, o, x: sl.data.Loader((X, Y), batch_size=2), r"batch_size is batch here"),
        (lambda n, o, x: sl.data.Loader("synthetic", batch=2, num_workers=2), r"num_workers is workers here"),
        (lambda n, o, x: sl.data.Loader((X, Y), batch="a"), r"expected an int for batch, got 'a'"),
        (lambda n, o, x: sl.data.Loader("synthetic", batch=2, split="tst"), r"one of train, test, valid as the split, got 'tst'"),
        (lambda n, o, x: sl.data.Loader(([1, 2], [3, 4]), batch=2), r"numpy.asarray\(\) of each"),
        (lambda n, o, x: sl.data.Loader("synthetic", batch=2, transform=abs), r"data.dataset\(name\)\[i\]"),
        (lambda n, o, x: list(sl.data.Loader(iter([(1, 2), None]), batch=2)), r"got None in sample 1 of the batch"),
        (lambda n, o, x: list(sl.data.Loader(["a", "b"], batch=2, processes=True)), r"got '[ab]' in sample 0 of the batch"),
        (lambda n, o, x: sl.data.Loader(["a", "b"], batch=2), r"sample 0: .*got str"),
    ],
)
def test_wrong_calls_name_what_is_wrong(call, text):
    net, optimizer, x = make()
    with pytest.raises((TypeError, ValueError, sl.Error), match=text) as refused:
        call(net, optimizer, x)
    assert "incompatible function arguments" not in str(refused.value)


def test_errors_inside_of_functions_given_stay_as_they_are():
    def broken(g):
        raise TypeError("mine(): incompatible")

    x = sl.ones(2, requires_grad=True)
    x.register_hook(broken)
    with pytest.raises(TypeError, match=r"^mine\(\): incompatible$"):
        (x * 2).sum().backward()
    with pytest.raises(AttributeError):
        sl.ones(2).no_such_name


def test_what_is_right_is_called_by_any_way():
    x = sl.ones(2, 3)
    bound, unbound = x.sum, sl.Tensor.sum
    assert bound(dim=1).tolist() == unbound(x, axis=1).tolist() == sl.sum(x, 1).tolist() == [3, 3]
    assert sl.Tensor.__add__(x, 1).tolist() == (x + 1).tolist() and sl.Tensor.__add__(x, "a") is NotImplemented
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"


def test_sizes_come_one_by_one_or_together():
    for function, value in ((sl.zeros, 0), (sl.ones, 1)):
        assert function(2, 3).tolist() == function((2, 3)).tolist() == function(shape=[2, 3]).tolist() == [[value] * 3] * 2
        x = function(2, 3, dtype="i64")
        assert x.dtype == sl.i64 and function((2,), "f64").dtype == sl.f64 and function(()).shape == ()
        assert function(3, requires_grad=True).requires_grad and not function(3).requires_grad
    assert sl.empty(2, 3).shape == (2, 3) and sl.full((2,), 3.0, requires_grad=True).requires_grad


def test_modules_ask_for_super():
    class Forgot(sl.nn.Module):
        def __init__(self):
            self.part = L(2, 2)

    class ForgotAll(sl.nn.Module):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match=r"Forgot.__init__ to call super\(\).__init__\(\) first, before it sets self.part"):
        Forgot()
    with pytest.warns(RuntimeWarning), pytest.raises(TypeError, match=r"ForgotAll.__init__ to call super"):
        ForgotAll()(sl.ones(2))


class Scaled(sl.Function):
    @staticmethod
    def forward(context, x, factor):
        context.save_for_backward(x)
        context.factor = factor.item()
        return x * factor

    @staticmethod
    def backward(context, dy):
        (x,) = context.saved_tensors
        return dy * context.factor + 0 * x, None


def test_contexts_of_functions_take_attributes():
    x = sl.tensor([1.0, 2.0], requires_grad=True)
    (Scaled.apply(x, sl.tensor(3.0)) + Scaled.apply(x, sl.tensor(5.0))).sum().backward()
    assert x.grad.tolist() == [8, 8]
    with pytest.raises(TypeError, match=r"expected Scaled.apply\(x\)"):
        Scaled(x)


def test_errors_are_of_pythons_classes_too(tmp_path):
    x = sl.ones(2, 3)
    for call, kind in (
        (lambda: x[sl.tensor([7])], IndexError),
        (lambda: sl.index_select(x, sl.tensor([7])), IndexError),
        (lambda: sl.compile(lambda a, i: sl.index_select(a, i))(x, sl.tensor([7])), IndexError),
        (lambda: sl.load(tmp_path / "none"), FileNotFoundError),
        (lambda: sl.SavedModel(str(tmp_path / "none")), FileNotFoundError),
        (lambda: sl.train.run(tmp_path / "none.yaml"), FileNotFoundError),
        (lambda: sl.zeros(10**15), MemoryError),
    ):
        for expected in (kind, sl.Error):
            with pytest.raises(expected, match="expected"):
                call()
    with pytest.raises(TypeError, match="a scalar"):
        len(sl.ones(()))


def test_loaders_take_arrays_by_name_and_transforms_of_arrays():
    batches = list(sl.data.Loader({"x": X, "y": Y}, batch=3, shuffle=False))
    assert [sorted(batch) for batch in batches] == [["x", "y"]] * 3 and batches[1]["y"].tolist() == [3, 4, 5]
    assert batches[1]["x"].tolist() == X[3:6].tolist() and batches[0]["y"].dtype == sl.i64
    for options in ({}, {"workers": 2, "processes": True}):
        doubled = list(sl.data.Loader((X, Y), batch=4, shuffle=False, transform=lambda s: (s[0] * 2, s[1]), **options))
        assert doubled[1][0].tolist() == (X[4:] * 2).tolist() and doubled[1][1].tolist() == [4, 5, 6, 7]
    with pytest.raises(ValueError, match=r"as many samples each, got \[7, 8\]"):
        sl.data.Loader({"x": X, "y": Y[:7]}, batch=3)
    net = L(4, 8)
    trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.01), batch=4, quiet=True)
    assert trainer.fit({"x": X, "y": Y})["steps"] == trainer.fit((X, Y))["steps"] == 2


class Broken:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"a": 1}["a" if i != 4 else "missing"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes of errors")
def test_errors_of_worker_processes_name_the_sample_and_the_place():
    import traceback

    with pytest.raises(KeyError, match="missing") as failed:
        list(sl.data.Loader(Broken(), batch=2, processes=True, shuffle=False))
    told = "".join(traceback.format_exception(failed.value))
    assert "sample 4 was asked for" in told and "in a worker process" in told and "in __getitem__" in told


def test_ctrl_c_over_a_slow_iterable_comes_at_once():
    program = """
    import time, starling as sl
    def slow():
        yield 1.0
        yield 2.0
        time.sleep(30)
    try:
        for x in sl.data.Loader(slow(), batch=1):
            print("batch", flush=True)
    except KeyboardInterrupt:
        print("ended", flush=True)
        __import__("os")._exit(0)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert [process.stdout.readline() for _ in range(2)] == ["batch\n"] * 2
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(2)
    assert process.communicate(timeout=30)[0] == "ended\n" and time.monotonic() - begin < 15


def test_quiet_runs_say_nothing(capfd, tmp_path):
    job = {"model": "mlp", "data": {"name": "synthetic", "train_samples": 64}, "train": {"steps": 1, "folder": str(tmp_path / "run")}}
    job["distribute"] = {"strategy": "sandblaster", "workers": 2, "servers": 1}
    sl.train.run(job, quiet=True)
    assert capfd.readouterr() == ("", "")
    sl.train.run({**job, "train": {**job["train"], "folder": "", "precision": "bf16"}}, quiet=True)
    told = capfd.readouterr()
    assert told.out == "" and "warning: sandblaster tells points apart" in told.err and len(told.err.splitlines()) == 1


def test_optimizers_take_pytorchs_words():
    net, optimizer, _ = make()
    assert optimizer.lr == 0.01 and "lr=0.01" in repr(optimizer)
    adam = sl.optim.Adam(net.parameters(), betas=(0.8, 0.99))
    same = sl.optim.Adam(net.parameters(), beta1=0.8, beta2=0.99)
    assert repr(adam) == repr(same) and "beta1=0.8" in repr(adam)
    net(sl.ones((1, 4))).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert all(parameter.grad.tolist() == sl.zeros_like(parameter).tolist() for parameter in net.parameters())
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())
    schedule = sl.schedules.Cosine(optimizer, steps=4)
    assert schedule.lr == 0.01
    schedule.step()
    assert 0 < schedule.lr < 0.01 and schedule.lr == optimizer.lr
    accuracy = sl.metrics.Accuracy()
    assert accuracy([[1.0, 0.0], [1.0, 0.0]], [0, 1]) == accuracy.compute() == accuracy.value == 0.5


def test_objects_say_what_they_are(tmp_path):
    net, optimizer, x = make()
    sl.save_model(net, tmp_path / "model", sl.ones((2, 4)))
    with sl.graph.Builder() as b:
        b.variable("w", sl.ones(2))
    hook = net.register_forward_hook(lambda *_: None)
    step = sl.compile(lambda a: a * 2)
    told = {
        optimizer: "SGD(2 parameters, lr=0.01)",
        sl.schedules.Cosine(optimizer, steps=3): "Cosine(steps=3): step 0, lr 0.01",
        sl.data.Loader((X, Y), batch=2): "Loader(8 samples, batch=2, shuffle=True): epoch 0, sample 0",
        step: "not called yet",
        sl.SavedModel(str(tmp_path / "model")): "SavedModel(10 parameters)",
        sl.train.Checkpoints(tmp_path / "run", net=net): "run', net): steps []",
        sl.graph.Session(b.graph): "with the variables w",
        hook: "<hook of a module>",
        net: "Linear(4, 2)",
        sl.nn.Dropout(0.3): "Dropout(p=0.3)",
        sl.nn.Conv2d(3, 4, 5, padding=1): "Conv2d(3, 4, 5, padding=1)",
        sl.nn.Sequential(L(2, 3, bias=False)): "0: Linear(2, 3, bias=False)",
        sl.zoo.lenet(classes=10): "parameters)",
        sl.nn.Parameter(sl.ones(2)): "Parameter(f32[2] [1, 1])",
    }
    for thing, text in told.items():
        assert text in repr(thing) and " object at 0x" not in repr(thing)
    step(x)
    hook.remove()
    assert "1 program>" in repr(step) and "removed" in repr(hook)


def test_layers_of_the_library_have_signatures():
    assert list(inspect.signature(L).parameters) == ["inputs", "outputs", "bias"]
    assert inspect.signature(sl.nn.Conv2d).parameters["stride"].default == (1,)

    class Own(L):
        def __init__(self, width):
            super().__init__(width, width)

    assert list(inspect.signature(Own).parameters) == ["width"] and repr(Own(3)) == "Own(3, 3)"


@pytest.mark.parametrize("module", [sl.nn, sl.optim, sl.dist, sl.data, sl.train, sl.zoo, sl.graph, sl.metrics, sl.schedules, sl.control])
def test_dir_shows_what_is_for_users(module):
    names = dir(module)
    assert names == sorted(module.__all__) and names
    for name in names:
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        assert not name.startswith("_") and home.startswith("starling"), name
    assert not {"Any", "annotations", "np", "os", "json"} & set(names)
