"""The networks in PyTorch, one small function or class each; parameters are declared in the same order as ours."""

import torch
import torch.nn.functional as F
from torch import nn


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


def convolved(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list:
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, body: list, shortcut: list):
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def block_body(bottleneck: bool, inputs: int, width: int, stride: int) -> list:
    relu = nn.ReLU(inplace=True)
    if not bottleneck:
        return [*convolved(inputs, width, 3, stride), relu, *convolved(width, width, 3)]
    return [*convolved(inputs, width, 1), relu, *convolved(width, width, 3, stride), relu,
            *convolved(width, 4 * width, 1)]


def resnet(depths: list, bottleneck: bool) -> nn.Module:
    layers = [*convolved(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        outputs = 4 * width if bottleneck else width
        for i in range(depth):
            stride = 2 if i == 0 and stage > 0 else 1
            changes = channels != outputs or stride > 1
            layers.append(Residual(block_body(bottleneck, channels, width, stride),
                                   convolved(channels, outputs, 1, stride) if changes else []))
            channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet18() -> nn.Module:
    return resnet([2, 2, 2, 2], bottleneck=False)


def resnet34() -> nn.Module:
    return resnet([3, 4, 6, 3], bottleneck=False)


def resnet50() -> nn.Module:
    return resnet([3, 4, 6, 3], bottleneck=True)


class lstm(nn.Module):
    """Time first, as nn.LSTM walks fastest; the ids are transposed, which costs nothing."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.fc = nn.Embedding(10_000, 128), nn.LSTM(128, 128), nn.Linear(128, 2)

    def forward(self, ids):
        return self.fc(self.lstm(self.embed(ids.t()))[0].mean(0))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width), SelfAttention(width, heads))
        self.think = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                   nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.think(x)


class gpt(nn.Module):
    def __init__(self, vocabulary=65, tokens=256, width=384, heads=6, depth=6):
        super().__init__()
        # ours declares the places before the tokens' embedding, which is a module of its own
        self.place, self.token = nn.Parameter(0.02 * torch.randn(tokens, width)), nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.token(ids) + self.place)))


class gpt2(gpt):
    """The head has the weights of the embedding."""

    def __init__(self):
        super().__init__(50304, 1024, 768, 12, 12)
        nn.init.normal_(self.token.weight, std=0.02)
        self.head.weight = self.token.weight


BUILDERS = {f.__name__: f for f in [mlp, sae_small, sae_big, lenet, alexnet, alexnet_owt, resnet18, resnet34, resnet50,
                                    lstm, gpt, gpt2]}


def build(name: str) -> nn.Module:
    return BUILDERS[name]()


def loss(logits, labels):
    """Cross-entropy; of every token where the logits are [n, t, classes]."""
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def random_batch(net):
    shape = (net.batch, *net.shape)
    x = torch.randint(net.vocabulary, shape) if net.vocabulary else torch.randn(shape)
    return x, torch.randint(net.classes, shape if net.label_per_token else shape[:1])


def copy_all(name: str, what: str, mine: list, tensors: dict, order: list) -> None:
    if len(order) != len(mine):
        raise ValueError(f"{name}: expected {len(mine)} exported {what}, got {len(order)}")
    with torch.no_grad():
        for into, exported in zip(mine, order):
            theirs = tensors[exported]
            if theirs.shape != into.shape:
                raise ValueError(f"{name}: expected {exported} of shape {list(into.shape)}, got {list(theirs.shape)}")
            into.copy_(theirs)


def load_exported(name: str, tensors: dict, metadata: dict):
    """A model holding the exported weights, by declaration order and shape, and the exported batch (x, y)."""
    model = build(name)
    order, buffers = (metadata.get(key, "").split(",") if metadata.get(key) else [] for key in ("order", "buffers"))
    copy_all(name, "parameters", list(model.parameters()), tensors, order)
    # PyTorch also counts the batches, as integers
    copy_all(name, "buffers", [b for b in model.buffers() if b.is_floating_point()], tensors, buffers)
    return model, tensors["input.x"], tensors["input.y"]
