"""The networks in PyTorch, one small function each; parameters are declared in the same order as ours."""

import torch
from torch import nn

from peer.catalogue import NETS


def dense(widths: list, between) -> nn.Sequential:
    layers = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        layers += [between()] if i else []
        layers.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*layers)


def mlp() -> nn.Module:
    return dense([784, 512, 512, 10], nn.ReLU)


def sae_small() -> nn.Module:
    return dense([784, 400, 200, 100, 10], nn.Sigmoid)


def sae_big() -> nn.Module:
    return dense([784, 800, 1000, 2000, 10], nn.Sigmoid)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Tanh(),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Tanh(),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def alexnet_of(channels: list) -> nn.Module:
    """AlexNet's shape for five given channel counts; dropout is off in every comparison, so it is not there."""
    a, b, c, d, e = channels
    return nn.Sequential(
        nn.Conv2d(3, a, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(a, b, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(b, c, 3, padding=1), nn.ReLU(),
        nn.Conv2d(c, d, 3, padding=1), nn.ReLU(),
        nn.Conv2d(d, e, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Flatten(), nn.Linear(e * 36, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def alexnet() -> nn.Module:
    return alexnet_of([96, 256, 384, 384, 256])


def alexnet_owt() -> nn.Module:
    return alexnet_of([64, 192, 384, 256, 256])


BUILDERS = {f.__name__: f for f in [mlp, sae_small, sae_big, lenet, alexnet, alexnet_owt]}


def build(name: str) -> nn.Module:
    return BUILDERS[name]()


def random_batch(name: str):
    net = NETS[name]
    return torch.randn(net.batch, *net.shape), torch.randint(net.classes, (net.batch,))


def load_exported(name: str, tensors: dict, order: list):
    """A model holding the exported weights, by declaration order and shape, and the exported batch (x, y)."""
    model = build(name)
    parameters = list(model.parameters())
    if len(order) != len(parameters):
        raise ValueError(f"{name}: expected {len(parameters)} exported parameters, got {len(order)}")
    with torch.no_grad():
        for mine, exported in zip(parameters, order):
            theirs = tensors[exported]
            if theirs.shape != mine.shape:
                raise ValueError(f"{name}: expected {exported} of shape {list(mine.shape)}, got {list(theirs.shape)}")
            mine.copy_(theirs)
    return model, tensors["input.x"], tensors["input.y"]
