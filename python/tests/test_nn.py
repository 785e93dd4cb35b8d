"""Modules, optimizers and the zoo."""

import numpy as np
import pytest

import starling as sl


class Block(sl.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = sl.nn.Linear(width, width)
        self.scale = sl.nn.Parameter(sl.ones(width))
        self.register_buffer("count", sl.zeros(()))

    def forward(self, x, twice=False):
        y = x + self.scale * self.fc(x).relu()
        return y * 2 if twice else y


def test_parts_have_names():
    net = sl.nn.Sequential(Block(4), sl.nn.Gelu(), Block(4))
    assert sorted(net.named_parameters()) == ["0.fc.bias", "0.fc.weight", "0.scale", "2.fc.bias", "2.fc.weight", "2.scale"]
    assert list(net.named_buffers()) == ["0.count", "2.count"]
    assert net.parameter_count == 2 * (16 + 4 + 4)


def test_forward_takes_what_python_takes():
    block = Block(3)
    x = sl.ones((2, 3))
    np.testing.assert_allclose(block(x, twice=True).numpy(), 2 * block(x).detach().numpy(), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="forward"):
        sl.nn.Module()(x)


def test_results_of_forward_are_kept_as_they_are():
    class Many(sl.nn.Module):
        def forward(self, x):
            return {"a": x, "b": [x * 2]}

    for x in (sl.ones(2), np.ones(2, np.float32)):
        assert Many()(x)["b"][0].tolist() == [2, 2]


def test_parameters_are_not_replaced_by_accident():
    block = Block(3)
    with pytest.raises(TypeError, match="self.scale.assign"):
        block.scale = sl.zeros(3)
    block.scale.assign(sl.zeros(3))
    assert block.state_dict()["scale"].tolist() == [0, 0, 0]


def test_layers_made_at_the_first_call_are_in_the_mode_they_were_put_in():
    net = sl.nn.Sequential(sl.nn.AlphaDropout(p=0.5))
    net.eval()
    assert net(sl.ones((4, 4))).tolist() == sl.ones((4, 4)).tolist()


def test_modes_can_be_chained_and_modules_do_not_hold_themselves():
    net = sl.nn.Sequential(Block(2)).eval().to("f64")
    assert not net.training and net(sl.ones((1, 2), "f64")).dtype == "f64"
    block = Block(2)
    with pytest.raises(sl.Error, match="holds this one"):
        block.me = block


def test_states_travel():
    a, b = Block(3), Block(3)
    b.load_state_dict({name: value.numpy().copy() for name, value in a.state_dict().items()})
    x = sl.normal((2, 3))
    np.testing.assert_array_equal(a(x).detach().numpy(), b(x).detach().numpy())
    with pytest.raises(sl.Error, match="fc.weight"):
        b.load_state_dict({"scale": sl.ones(3)})


def test_saved_files_come_back(tmp_path):
    a = Block(3)
    sl.save(a.state_dict(), tmp_path / "block")
    b = Block(3)
    b.load_state_dict(sl.load(tmp_path / "block"))
    assert b.fc.weight.tolist() == a.fc.weight.tolist()


def test_training_mode_reaches_all_parts():
    net = sl.nn.Sequential(sl.nn.Dropout(0.5), Block(4))
    net.eval()
    x = sl.ones((2, 4))
    assert net(x).tolist() == net(x).tolist() and not net[1].training
    net.train()
    assert net[1].training


def test_layers_agree_with_numpy():
    layer = sl.nn.Linear(3, 2)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    state = layer.state_dict()
    np.testing.assert_allclose(layer(x).detach().numpy(), x @ state["weight"].detach().numpy().T + state["bias"].detach().numpy(), rtol=1e-5)
    assert sl.nn.Conv2d(3, 8, 5, stride=2, padding=2)(sl.ones((2, 3, 9, 9))).shape == (2, 8, 5, 5)
    assert sl.nn.Lstm(3, 7, batch_first=True)(sl.ones((2, 4, 3))).shape == (2, 4, 7)
    assert sl.nn.MaxPool2d(kernel=2)(sl.ones((1, 1, 4, 4))).shape == (1, 1, 2, 2)
    with pytest.raises(sl.Error, match="kernel"):
        sl.nn.MaxPool2d(kernal=2)


def test_declared_nets():
    net = sl.nn.declared([{"conv2d": {"out": 4, "kernel": 3}}, {"relu": {}}, {"flatten": {}}, {"linear": {"out": 10}}], (1, 8, 8))
    assert net(sl.ones((2, 1, 8, 8))).shape == (2, 10)
    with pytest.raises(sl.Error, match="did you mean"):
        sl.nn.declared([{"conv2": {"out": 4}}], (1, 8, 8))


def test_every_network_of_the_zoo_has_a_maker():
    assert {"lenet", "mlp", "resnet18", "gpt"} <= set(sl.zoo.names())
    assert all(callable(getattr(sl.zoo, name)) and getattr(sl.zoo, name).__doc__ for name in sl.zoo.names())
    assert sl.zoo.lenet(classes=7)(sl.ones((2, 1, 28, 28))).shape == (2, 7)
    with pytest.raises(sl.Error, match="did you mean 'classes'"):
        sl.zoo.lenet(clases=7)


OPTIMIZERS = {"SGD": {"lr": 0.1}, "Adam": {}, "AdamW": {}, "RMSprop": {}, "Adagrad": {"lr": 0.1}, "Lion": {}, "LARS": {"lr": 0.1}, "LAMB": {}}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_down(name):
    x = sl.nn.Parameter([3.0, -2.0]).tensor
    x.name = "x"
    optimizer = getattr(sl.optim, name)([x], **OPTIMIZERS[name])
    before = (x * x).sum().item()
    for _ in range(20):
        (x * x).sum().backward()
        optimizer.step()
    assert (x * x).sum().item() < before and x.grad is None


def test_sgd_with_momentum_is_the_textbooks():
    x = sl.nn.Parameter([1.0]).tensor
    x.name = "x"
    optimizer = sl.optim.SGD([x], lr=0.1, momentum=0.9)
    value, velocity = 1.0, 0.0
    for _ in range(5):
        (x * x).sum().backward()
        optimizer.step()
        velocity = 0.9 * velocity + 2 * value
        value -= 0.1 * velocity
        assert x.item() == pytest.approx(value, rel=1e-5)
    state = optimizer.state_dict()
    assert any("velocity" in name or "momentum" in name for name in state)
    with pytest.raises(sl.Error, match="did you mean 'momentum'"):
        sl.optim.SGD([x], lr=0.1, momentun=0.9)
