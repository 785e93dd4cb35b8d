"""Names and arguments that users of PyTorch, JAX and NumPy bring along, and what help() says."""

import inspect
import pydoc

import numpy as np
import pytest

import starling as sl

F = sl.nn.functional


def test_ops_tell_their_signatures():
    for function in (sl.op.conv2d, sl.conv2d):
        parameters = inspect.signature(function).parameters
        assert list(parameters)[:3] == ["x", "weight", "bias"] and parameters["stride"].default == (1, 1)
        assert parameters["groups"].kind is inspect.Parameter.KEYWORD_ONLY and parameters["bias"].default is None
    told = pydoc.render_doc(sl.op.conv2d) + pydoc.render_doc(sl.conv2d)
    assert "bias=None" in told and told.count("cross-correlation") == 2
    assert list(inspect.signature(sl.op.concat).parameters) == ["xs", "axis"]
    for name, op in sl._starling.all_ops().items():
        assert op.doc and inspect.signature(getattr(sl.op, name)) is not None
    for name in ("max_pool2d", "layer_norm", "group_norm", "matmul", "interpolate", "rotary", "linear"):
        assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(getattr(sl, name)).parameters.values())
    assert sl.max_pool2d(sl.ones((1, 1, 4, 4)), kernel=2, stride=2).shape == (1, 1, 2, 2)


def documented(holder, path, seen):
    """(path, what it says of itself) of everything public that can be called or read, and of all that is public in classes."""
    for name in dir(holder):
        value = inspect.getattr_static(holder, name)
        value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if name.startswith("_") or not (callable(value) or isinstance(value, property)):
            continue
        foreign = (getattr(value, "__module__", "") or "").partition(".")[0] not in ("starling", "", "builtins")
        if foreign or getattr(value, "__objclass__", None) in (BaseException, tuple):
            continue
        text = getattr(value, "__doc__", None) or ""
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(f"{name}(") and "Overloaded function" not in line]
        # What the compiled part makes by itself are signatures: of overloads behind a number.
        yield f"{path}.{name}", [line for line in lines if not line.lstrip("0123456789. `").startswith((f"{name}(", "(self"))]
        if isinstance(value, type) and value not in seen and value.__module__.startswith("starling"):
            seen.add(value)
            yield from documented(value, f"{path}.{name}", seen)


def test_everything_public_says_what_it_is():
    seen = set()
    places = [sl, sl.data, sl.dist, sl.nn, sl.nn.functional, sl.nn.init, sl.op, sl.optim, sl.schedules, sl.train, sl.zoo, sl.graph, sl.metrics, sl.control]
    xp = sl.ones(1).__array_namespace__()
    found = dict(one for place in [*places, xp, xp.linalg] for one in documented(place, place.__name__, seen))
    assert len(found) > 2000
    assert [path for path, lines in found.items() if not lines] == []


def test_layers_take_pytorchs_words():
    nn = sl.nn
    for ours, theirs in (
        (nn.Conv2d(3, 8, 5, stride=2), nn.Conv2d(in_channels=3, out_channels=8, kernel_size=5, stride=2)),
        (nn.Conv2d(3, 8, kernel=5), nn.Conv2d(3, 8, kernel_size=5)),
        (nn.ConvTranspose1d(2, 3, 4), nn.ConvTranspose1d(in_channels=2, out_channels=3, kernel_size=4)),
        (nn.Linear(3, 4), nn.Linear(in_features=3, out_features=4)),
        (nn.BatchNorm2d(5), nn.BatchNorm2d(num_features=5)),
        (nn.LayerNorm(6), nn.LayerNorm(normalized_shape=6, elementwise_affine=True)),
        (nn.GroupNorm(2, 4), nn.GroupNorm(num_groups=2, num_channels=4)),
        (nn.Embedding(9, 3), nn.Embedding(num_embeddings=9, embedding_dim=3, padding_idx=0)),
        (nn.LSTM(3, 5, 2), nn.LSTM(input_size=3, hidden_size=5, num_layers=2)),
        (nn.MultiheadAttention(8, 2), nn.MultiheadAttention(embed_dim=8, num_heads=2)),
    ):
        assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    with pytest.raises(TypeError):
        nn.Linear(in_feature=3, out_features=4)


def test_losses_are_modules_too():
    logits, labels = sl.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]), sl.tensor([0, 1])
    assert sl.nn.CrossEntropyLoss()(logits, labels).item() == sl.cross_entropy(logits, labels).item()
    smooth = sl.nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum")(logits, labels)
    assert smooth.item() == pytest.approx(sl.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum").item())
    a, b = sl.tensor([0.2, 0.7]), sl.tensor([0.0, 1.0])
    for loss, function in (("MSELoss", sl.mse), ("L1Loss", sl.l1), ("BCELoss", sl.bce), ("BCEWithLogitsLoss", sl.bce_with_logits),
                           ("HuberLoss", sl.huber), ("SmoothL1Loss", sl.smooth_l1)):  # fmt: skip
        assert getattr(sl.nn, loss)()(a, b).item() == function(a, b).item()
    assert sl.nn.MSELoss(reduction="none")(a, b).shape == (2,)


def test_functional_has_pytorchs_arguments():
    x = sl.normal((2, 3, 8, 8))
    assert F.max_pool2d(x, 2).shape == (2, 3, 4, 4) and F.avg_pool2d(x, 3, 1, 1).shape == (2, 3, 8, 8)
    assert F.conv2d(x, sl.ones((5, 3, 3, 3)), None, 2, 1).shape == (2, 5, 4, 4)
    assert F.dropout(x, 0.5, training=False) is x and (F.dropout(sl.ones(1000), 0.5) == 0).sum().item() > 300
    np.testing.assert_allclose(F.layer_norm(x, (8, 8)).numpy(), sl.layer_norm(x, dims=2).numpy())
    np.testing.assert_allclose(F.normalize(x).square().sum(1).numpy(), np.ones((2, 8, 8)), rtol=1e-5)
    assert F.mse_loss(x, x).item() == 0 and F.adaptive_avg_pool2d(x, 1).shape == (2, 3, 1, 1)
    with pytest.raises(ValueError, match="last axes"):
        F.layer_norm(x, 7)


def test_init_writes_into_weights():
    net = sl.nn.Linear(400, 300)
    before = net.weight
    bound = np.sqrt(6 / 700)
    w = sl.nn.init.xavier_uniform_(net.weight).detach().numpy()
    assert net.weight is before and abs(w).max() <= bound and abs(w).max() > 0.99 * bound
    assert sl.nn.init.kaiming_normal_(net.weight, nonlinearity="relu").detach().numpy().std() == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    assert sl.nn.init.normal_(net.weight, 1.0, 0.1).detach().numpy().mean() == pytest.approx(1, abs=0.01)
    cut = sl.nn.init.trunc_normal_(net.weight, std=2.0, a=-2.0, b=2.0).detach().numpy()
    assert abs(cut).max() <= 2 and cut.std() == pytest.approx(1.0793, rel=0.02)  # the deviation of N(0, 4) within [-2, 2]
    assert sl.nn.init.zeros_(net.weight).detach().numpy().any() == False and net.weight.requires_grad  # noqa: E712
    with pytest.raises(ValueError, match="expected a weight with"):
        sl.nn.init.xavier_normal_(sl.ones(3))


class Net(sl.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = sl.nn.ModuleDict({"first": sl.nn.Linear(2, 3), "second": sl.nn.Linear(3, 1)})
        self.register_parameter("scale", sl.ones(1))

    def forward(self, x):
        return self.parts["second"](self.parts["first"](x).relu()) * self.scale


def test_walks_over_modules():
    net = Net()
    assert [name for name, _ in net.named_modules()] == ["", "parts", "parts.first", "parts.second"]
    assert [name for name, _ in net.named_children()] == ["parts"] and len(list(net.modules())) == 4
    assert "second" in net.parts and list(net.parts) == ["first", "second"] and "scale" in net.named_parameters()

    def ones(module):
        if isinstance(module, sl.nn.Linear):
            sl.nn.init.ones_(module.weight)

    assert net.apply(ones) is net and net.parts["first"].weight.tolist() == [[1, 1]] * 3


def test_hooks_of_modules():
    net, seen = Net(), []
    x = sl.ones((1, 2))
    plain = net(x).item()
    handles = [
        net.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)),
        net.register_forward_hook(lambda module, inputs, output: output + 1),
        net.parts["first"].register_forward_hook(lambda module, inputs, output: seen.append((module, inputs[0].shape, output.shape))),
        net.parts["first"].register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs))),
    ]
    changed = net(x).item()
    assert seen == [1, (net.parts["first"], (1, 2), (1, 3))] and changed != plain
    for handle in handles:
        handle.remove()
    assert net(x).item() == plain and len(seen) == 2
    net.parts["first"].register_forward_hook(lambda *about: sl.ones(1))
    with pytest.raises(TypeError, match="looks on"):
        net(x)


def test_sequentials_are_sliced():
    net = sl.nn.Sequential(sl.nn.Linear(2, 3), sl.nn.ReLU(), sl.nn.Linear(3, 1))
    x = sl.ones((1, 2))
    np.testing.assert_array_equal(net[:-1](x).detach().numpy(), net[0](x).relu().detach().numpy())
    assert len(net[1:]) == 2 and [type(step).__name__ for step in net][0] == "Linear" and len(net[:1].parameters()) == 2


def test_methods_of_tensors_from_pytorch():
    x = sl.arange(6, dtype="f32").reshape(2, 3)
    assert x.dim() == 2 and x.t().shape == (3, 2) and x.T.contiguous().is_contiguous and x.contiguous() is x and x.cpu() is x
    assert [p.shape for p in sl.ones(7).chunk(3)] == [(3,), (3,), (1,)] and x.nonzero().shape == (5, 2)
    y = sl.ones(2)
    assert y.add_(2.0) is y and y.mul_(3.0).tolist() == [9, 9] and y.add_(sl.ones(2), alpha=-4).tolist() == [5, 5]
    assert y.copy_([1.0, 2.0]).tolist() == [1, 2] and y.zero_().tolist() == [0, 0] and y.fill_(3.0).div_(2.0).tolist() == [1.5, 1.5]
    assert sl.zeros((2,), device="cpu").device == "cpu" and sl.randn(2, device="cpu").shape == (2,)
    with pytest.raises(ValueError, match="at most 2"):
        sl.ones((1, 1, 1)).t()


def test_optimizers_take_the_rate_by_place_and_tell_groups():
    w, b = sl.tensor([1.0], requires_grad=True), sl.tensor([1.0], requires_grad=True)
    optimizer = sl.optim.SGD([{"params": [w]}, {"params": [b], "lr_scale": 0.5, "weight_decay": 0.1}], 0.2)
    assert optimizer.lr == pytest.approx(0.2) and [len(group["params"]) for group in optimizer.param_groups] == [1, 1]
    assert optimizer.param_groups[0]["params"][0] is w and optimizer.param_groups[1]["lr"] == pytest.approx(0.1)


def test_gradients_by_nested_arguments():
    parameters = {"w": sl.tensor([2.0, 3.0]), "layers": [sl.tensor([1.0]), ("relu", 0.5)]}

    def loss(p, x, *, scale=1.0):
        value = (p["w"] * x).sum() * p["layers"][0].sum() * p["layers"][1][1] * scale
        return value, {"seen": p["layers"][1][0]}

    (value, more), gradient = sl.value_and_grad(loss, has_aux=True)(parameters, sl.tensor([1.0, 2.0]), scale=3.0)
    assert value.item() == 12 and more == {"seen": "relu"}
    assert gradient["w"].tolist() == [1.5, 3.0] and gradient["layers"][0].tolist() == [12.0]
    assert gradient["layers"][1][0] is None and gradient["layers"][1][1].item() == 24
    by_x, more = sl.grad(loss, argnums=-1, has_aux=True)(parameters, sl.tensor([1.0, 2.0]))
    assert by_x.tolist() == [1.0, 1.5] and more["seen"] == "relu"
    with pytest.raises(TypeError, match="to take the gradient by"):
        sl.grad(lambda text: sl.ones(1).sum())("text")
    with pytest.raises(ValueError, match="argnums"):
        sl.grad(lambda x: x.sum(), argnums=-2)(sl.ones(1))


def test_second_derivatives_along_a_vector():
    w, v = sl.tensor([1.0, 2.0]), sl.tensor([3.0, -1.0])
    np.testing.assert_allclose(sl.hessian_vector_product(lambda w: (w**3).sum(), w, v).numpy(), [18.0, -12.0], rtol=1e-6)
    nested = sl.hessian_vector_product(lambda p: (p["a"] * p["b"]).sum(), {"a": w, "b": v}, {"a": v, "b": w})
    np.testing.assert_allclose(nested["a"].numpy(), w.numpy())
    assert "mul" in sl_graph(lambda w, v: sl.hessian_vector_product(lambda w: (w**3).sum(), w, v), w, v)


def sl_graph(function, *arguments):
    program = sl.compile(function)
    program(*arguments)
    return program.graph(traced=True)


def test_wrong_shapes_are_value_errors_too():
    for ask in (lambda: sl.ones((2, 3)) @ sl.ones((2, 3)), lambda: sl.ones(2) + sl.ones(3), lambda: sl.conv2d(sl.ones((1, 2, 4, 4)), sl.ones((1, 3, 2, 2)))):
        with pytest.raises(ValueError, match="expected"):
            ask()
        with pytest.raises(sl.Error):
            ask()
    assert issubclass(sl.ArgumentError, sl.Error) and not issubclass(sl.Error, ValueError)


class Dicts:
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return {"x": np.full(2, i, np.float32), "y": i}


def test_loaders_take_dicts_and_collate_functions():
    for source in (Dicts(), [{"x": np.full(2, i, np.float32), "y": i} for i in range(5)], (one for one in [Dicts()[i] for i in range(5)])):
        batches = list(sl.data.Loader(source, batch=2, **({} if hasattr(source, "send") else {"shuffle": False})))
        assert [batch["y"].tolist() for batch in batches] == [[0, 1], [2, 3], [4]] and batches[0]["x"].shape == (2, 2)
    padded = sl.data.Loader([[1], [1, 2], [3]], batch=3, shuffle=False, collate_fn=lambda rows: [row + [0] * (2 - len(row)) for row in rows])
    assert list(padded) == [[[1, 0], [1, 2], [3, 0]]]
    with pytest.raises(ValueError, match="keys"):
        list(sl.data.Loader([{"x": 1}, {"z": 1}], batch=2, shuffle=False))


def blobs(n=96):
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, n)
    return (generator.normal(size=(n, 4)) + 3 * y[:, None]).astype(np.float32), y


def trained(data, **options):
    sl.manual_seed(1)
    net = sl.nn.Linear(4, 2)
    trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), 0.1), batch=16, quiet=True, **options)
    return trainer.fit(data, blobs()), net.weight.numpy().copy()


def test_fit_takes_loaders_and_iterables():
    x, y = blobs()
    summary, _ = trained(sl.data.Loader((x, y), batch=32, shuffle=False), epochs=2)
    assert summary["steps"] == 6 and summary["metrics"]["accuracy"] > 0.8
    summary, _ = trained(Pairs(x, y), epochs=2)
    assert summary["steps"] == 12


class Pairs:
    """An iterable of samples that can be read again, without a length."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        return zip(self.x, self.y)


def test_options_of_a_trainer_reach_the_steps():
    seen = []

    class Watch:
        def evaluated(self, run):
            seen.append(run.step)

    _, plain = trained(blobs(), steps=6)
    _, clipped = trained(blobs(), steps=6, clip_value=1e-4)
    start = trained(blobs(), steps=1, clip_value=1e-12)[1]
    assert abs(clipped - start).max() < 6 * 0.1 * 1.1e-4 < abs(plain - start).max()
    _, coarse = trained(blobs(), steps=6, precision="bf16", threads=1)
    assert 0 < abs(coarse - plain).max() < 0.1
    trained(blobs(), steps=6, evaluate_every=2, callbacks=[Watch()])
    assert seen[:3] == [2, 4, 6]
    bad = (np.full((32, 4), np.nan, np.float32), np.zeros(32, np.int64))
    with pytest.raises(sl.Error, match="finite|nan"):
        trained(bad, steps=2)
    with pytest.raises(sl.Error, match="auto, stop, skip"):
        trained(blobs(), non_finite="sometimes")
    with pytest.raises(ValueError, match="expected a folder with non_finite='rollback'"):
        trained(blobs(), non_finite="rollback")
    with pytest.raises(sl.Error, match="f32"):
        trained(blobs(), precision="f8")
