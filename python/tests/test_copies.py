"""Copies and pickles of modules, and parts put in the place of others."""

import copy
import pickle

import numpy as np
import pytest

import starling as sl


class Block(sl.nn.Module):
    def __init__(self, width, note):
        super().__init__()
        self.fc = sl.nn.Linear(width, width)
        self.scale = sl.nn.Parameter(sl.ones(width))
        self.register_buffer("count", sl.zeros(()))
        self.note = note

    def forward(self, x):
        return x + self.scale * self.fc(x).relu()


def nets():
    layer = sl.nn.Sequential(sl.nn.Conv2d(1, 2, 3), sl.nn.MaxPool2d(2), sl.nn.Flatten())
    layer(sl.ones((1, 1, 8, 8)))
    return {
        "python": (sl.nn.Sequential(Block(4, "mine"), sl.nn.Dropout(0.3), Block(4, {"k": [1]})), (2, 4)),
        "layers": (layer, (2, 1, 8, 8)),
        "zoo": (sl.zoo.lenet(classes=3), (2, 1, 28, 28)),
        "declared": (sl.nn.declared([{"linear": {"out": 5}}, {"tanh": {}}], (4,)), (2, 4)),
        "list": (sl.nn.ModuleList([sl.nn.Lstm(3, 4), sl.nn.BatchNorm1d(3)]), None),
    }


@pytest.mark.parametrize("name", ["python", "layers", "zoo", "declared", "list"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["deepcopy", "pickle"])
def test_a_copy_computes_the_same_with_weights_of_its_own(name, copied):
    net, shape = nets()[name]
    net.eval()
    twin = copied(net)
    assert list(twin.named_parameters()) == list(net.named_parameters()) and not twin.training
    assert [v.tolist() for v in twin.state_dict().values()] == [v.tolist() for v in net.state_dict().values()]
    if shape:
        x = sl.normal(shape)
        np.testing.assert_array_equal(twin(x).detach().numpy(), net(x).detach().numpy())
    first = next(iter(net.named_parameters()))
    before = twin.named_parameters()[first].tolist()
    net.named_parameters()[first].assign(sl.zeros(net.named_parameters()[first].shape))
    assert twin.named_parameters()[first].tolist() == before != net.named_parameters()[first].tolist()


def test_attributes_modes_and_frozen_parts_are_copied():
    net = sl.nn.Sequential(Block(2, ["a"]), Block(2, "b"))
    net[1].eval()
    net[0].freeze()
    twin = copy.deepcopy(net)
    assert (twin[0].training, twin[1].training) == (True, False)
    assert twin[0].note == ["a"] and twin[0].note is not net[0].note
    assert len(twin.trainable_parameters()) == 3 and twin[0].children["fc"] is twin[0].fc
    twin[0].scale.assign([5.0, 5.0])
    assert twin.named_parameters()["0.scale"].tolist() == [5, 5] and net[0].scale.tolist() == [1, 1]


COPIES = pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["deepcopy", "pickle"])


class Scaled(sl.nn.Linear):  # takes other arguments than the layer that it is
    def __init__(self, width, *, by):
        super().__init__(width, width, bias=False)
        self.by = by

    def scaled(self, x):
        return self(x) * self.by


@COPIES
def test_a_trained_module_is_copied_tensor_by_tensor(copied):
    block = Block(2, "")
    block.scale.requires_grad = False
    zoo = sl.zoo.lenet(classes=3)
    first = next(iter(zoo.named_parameters()))
    zoo.named_parameters()[first].requires_grad = False
    for net in (block, zoo):
        twin = copied(net)
        assert {k: v.requires_grad for k, v in twin.named_parameters().items()} == {
            k: v.requires_grad for k, v in net.named_parameters().items()
        }
        assert len(twin.trainable_parameters()) == len(net.parameters()) - 1


@COPIES
def test_modes_of_parts_of_a_network_of_the_library_are_copied(copied):
    net = sl.zoo.lenet(classes=3)
    name = list(net.children)[1]
    net.children[name].eval()
    twin = copied(net)
    assert twin.training and [k for k, part in twin.children.items() if not part.training] == [name]


@COPIES
def test_attributes_and_classes_of_layers_of_the_library_are_copied(copied):
    layer = Scaled(3, by=2.0)
    layer.note = ["mine"]
    twin = copied(sl.nn.Sequential(layer))[0]
    assert type(twin) is Scaled and twin.note == ["mine"] and twin.note is not layer.note
    np.testing.assert_array_equal(twin.scaled(sl.ones((1, 3))).detach().numpy(), layer.scaled(sl.ones((1, 3))).detach().numpy())
    assert copied(twin).by == 2.0  # a copy of a copy


def test_values_that_do_not_fit_are_refused():
    make, arguments, state = sl.nn.Linear(2, 3).__reduce_ex__(2)
    state["values"] = state["values"][:1]
    with pytest.raises(ValueError, match="expected a copy with the shapes"):
        make(*arguments).__setstate__(state)


def test_a_shallow_copy_is_refused_and_names_stay():
    net = sl.nn.Sequential(Block(2, ""), sl.nn.Linear(2, 2))
    names = sorted(net.named_parameters())
    for part in (net, net[0], net[1]):
        with pytest.raises(TypeError, match="copy.deepcopy"):
            copy.copy(part)
    assert sorted(net.named_parameters()) == names


def test_shared_weights_stay_shared():
    class Tied(sl.nn.Module):
        def __init__(self):
            super().__init__()
            weight = sl.nn.Parameter(sl.ones(3))
            self.a, self.b = Holder(weight), Holder(weight)

    class Holder(sl.nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

    net = Tied()
    assert len(net.parameters()) == 1
    twin = copy.deepcopy(net)
    assert len(twin.parameters()) == 1
    twin.a.weight.assign([2.0, 2, 2])
    assert twin.b.weight.tolist() == [2, 2, 2] and net.a.weight.tolist() == [1, 1, 1]


def test_a_part_of_a_network_of_the_library_says_that_it_cannot_be_copied():
    part = next(iter(sl.zoo.lenet(classes=3).children.values()))
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(part)


def test_a_part_can_be_replaced():
    net = sl.nn.Sequential(Block(3, ""), sl.nn.Linear(3, 2))
    net.eval()
    net[1] = sl.nn.Linear(3, 5)
    net[0].fc = sl.nn.Linear(3, 3, bias=False)
    assert sorted(net.named_parameters()) == ["0.fc.weight", "0.scale", "1.bias", "1.weight"]
    assert net(sl.ones((1, 3))).shape == (1, 5) and not net[1].training
    with pytest.raises(TypeError, match="expected a module in the place of 'fc'"):
        net[0].fc = None
    with pytest.raises(TypeError, match="replaced, not removed"):
        del net[0].scale
    with pytest.raises(IndexError):
        net[2] = sl.nn.Linear(1, 1)


def test_weights_that_are_not_there_yet_are_asked_for():
    net = sl.nn.Sequential(sl.nn.LocallyConnected2d(out=2, kernel=3), sl.nn.ReLU(), sl.nn.Flatten())
    for ask in (net.parameters, net.state_dict, net.named_parameters):
        with pytest.raises(sl.Error, match=r"LocallyConnected2d '0'.*net.build"):
            ask()
    assert len(net.build((1, 5, 5)).parameters()) == 2 and net.training
    assert sl.nn.Sequential(sl.nn.ReLU(), sl.nn.MaxPool2d(2)).parameters() == []  # nothing to wait for
