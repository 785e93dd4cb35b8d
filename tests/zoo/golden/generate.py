#!/usr/bin/env python3
"""Writes tests/zoo/golden/nets.json: what PyTorch makes of the small setting of every network.

    STARLING_DUMP_ZOO=zoo.json build/ci/tests/test_zoo --gtest_filter='ZooGolden.*'
    python3 tests/zoo/golden/generate.py zoo.json

The test program writes names and shapes of the parameters and fields; both sides fill them with the same formula, so
that no weights are stored. Everything is computed in double precision, in training mode without dropout. Needs numpy
and PyTorch 2.x.
"""

import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
MOST = 48  # numbers kept of an output


def hashed(number, count):
    """Numbers in [0, 1) by place and number of the tensor; the C++ side has the same lines."""
    j = numpy.arange(count, dtype=numpy.uint64)
    h = (j * 2654435761 + (number + 1) * 40503 * 65537) % 2**32
    h = (h ^ (h >> 15)) * 2246822519 % 2**32
    h = (h ^ (h >> 13)) * 3266489917 % 2**32
    h = h ^ (h >> 16)
    return h.astype(numpy.float64) / 2**32


def parameter(number, shape):
    count = math.prod(shape)
    u = hashed(number, count)
    if len(shape) == 1:
        return torch.tensor(u * 0.8 - 0.1).reshape(shape)
    return torch.tensor((u * 2 - 1) * math.sqrt(3 * shape[0] / count)).reshape(shape)


def field(number, entry):
    shape, below, unit = entry["shape"], entry["below"], entry["unit"]
    u = hashed(1000 + number, math.prod(shape))
    if below:
        return torch.tensor((u * below).astype(numpy.int64)).reshape(shape)
    return torch.tensor(u if unit else u * 2 - 1).reshape(shape)


class Net:
    """Parameters by name, and the layers that read them."""

    def __init__(self, entry):
        self.p = {name: parameter(i, shape) for i, (name, shape) in enumerate(entry["parameters"])}
        self.options = entry["options"]

    def has(self, name):
        return any(key.startswith(name + ".") for key in self.p)

    def conv(self, x, name, stride=1, padding=0, groups=1):
        return F.conv2d(x, self.p[name + ".weight"], self.p.get(name + ".bias"), stride, padding, groups=groups)

    def up(self, x, name):
        return F.conv_transpose2d(x, self.p[name + ".weight"], self.p[name + ".bias"], stride=2)

    def fc(self, x, name):
        return F.linear(x, self.p[name + ".weight"], self.p.get(name + ".bias"))

    def bn(self, x, name, eps=1e-5):
        return F.batch_norm(x, None, None, self.p[name + ".weight"], self.p[name + ".bias"], True, eps=eps)

    def ln(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".weight"], self.p[name + ".bias"])

    def unit(self, x, scope, number, stride=1, groups=1, eps=1e-5, act=F.relu):
        """conv<number>, norm<number>, activation inside a scope."""
        weight = self.p[f"{scope}conv{number}.weight"]
        y = self.conv(x, f"{scope}conv{number}", stride, weight.shape[2] // 2, groups)
        y = self.bn(y, f"{scope}norm{number}", eps)
        return act(y) if act else y


def lenet(n, x):
    x = torch.tanh(F.max_pool2d(n.conv(x, "conv1"), 2))
    x = torch.tanh(F.max_pool2d(n.conv(x, "conv2"), 2))
    return n.fc(F.relu(n.fc(x.flatten(1), "fc1")), "fc2")


def dense(act):
    def run(n, x):
        layers = len(n.p) // 2
        for i in range(1, layers):
            x = act(n.fc(x, f"fc{i}"))
        return n.fc(x, f"fc{layers}")
    return run


def alexnet(n, x):
    x = F.max_pool2d(F.relu(n.conv(x, "conv1", 4, 2)), 3, 2)
    x = F.max_pool2d(F.relu(n.conv(x, "conv2", 1, 2)), 3, 2)
    x = F.relu(n.conv(x, "conv3", 1, 1))
    x = F.relu(n.conv(x, "conv4", 1, 1))
    x = F.max_pool2d(F.relu(n.conv(x, "conv5", 1, 1)), 3, 2).flatten(1)
    return n.fc(F.relu(n.fc(F.relu(n.fc(x, "fc6")), "fc7")), "fc8")


def residual_stages(n, x, bottleneck):
    for stage in range(1, 5):
        block = 1
        while n.has(f"stage{stage}_{block}"):
            scope = f"stage{stage}_{block}."
            stride = 2 if stage > 1 and block == 1 else 1
            if bottleneck:
                y = n.unit(x, scope + "body.", 1)
                y = n.unit(y, scope + "body.", 2, stride)
                y = n.unit(y, scope + "body.", 3, act=None)
            else:
                y = n.unit(n.unit(x, scope + "body.", 1, stride), scope + "body.", 2, act=None)
            short = n.unit(x, scope + "shortcut.", "", stride, act=None) if n.has(scope + "shortcut") else x
            x = F.relu(y + short)
            block += 1
    return n.fc(x.mean((2, 3)), "fc")


def resnet(bottleneck):
    return lambda n, x: residual_stages(n, F.max_pool2d(n.unit(x, "", 1, 2), 3, 2, 1), bottleneck)


def resnet_small(n, x):
    return residual_stages(n, n.unit(x, "", 1), False)


def vgg(depths, norm):
    def run(n, x):
        for stage, depth in enumerate(depths, 1):
            for i in range(1, depth + 1):
                x = n.conv(x, f"conv{stage}_{i}", 1, 1)
                x = F.relu(n.bn(x, f"norm{stage}_{i}") if norm else x)
            x = F.max_pool2d(x, 2)
        return n.fc(F.relu(n.fc(F.relu(n.fc(x.flatten(1), "fc6")), "fc7")), "fc8")
    return run


def googlenet_heads(n, x):
    def unit(x, scope, stride=1):
        return n.unit(x, scope + ".", "", stride, eps=1e-3)

    def inception(x, name):
        views = [unit(x, name + ".one"), unit(unit(x, name + ".three.reduce"), name + ".three.conv"),
                 unit(unit(x, name + ".five.reduce"), name + ".five.conv"),
                 unit(F.max_pool2d(x, 3, 1, 1), name + ".pool.conv")]
        return torch.cat(views, 1)

    def auxiliary(x, name):
        x = unit(F.adaptive_avg_pool2d(x, 4), name + ".conv").flatten(1)
        return n.fc(F.relu(n.fc(x, name + ".fc1")), name + ".fc2")

    x = F.max_pool2d(unit(x, "conv1", 2), 3, 2, ceil_mode=True)
    x = F.max_pool2d(unit(unit(x, "conv2"), "conv3"), 3, 2, ceil_mode=True)
    x = F.max_pool2d(inception(inception(x, "inception3a"), "inception3b"), 3, 2, ceil_mode=True)
    x = inception(x, "inception4a")
    first = auxiliary(x, "auxiliary1")
    x = inception(inception(inception(x, "inception4b"), "inception4c"), "inception4d")
    second = auxiliary(x, "auxiliary2")
    x = F.max_pool2d(inception(x, "inception4e"), 2, 2, ceil_mode=True)
    x = inception(inception(x, "inception5a"), "inception5b")
    return n.fc(x.mean((2, 3)), "head.fc"), first, second


def googlenet_loss(n, x, y):
    main, first, second = googlenet_heads(n, x)
    return F.cross_entropy(main, y) + 0.3 * F.cross_entropy(first, y) + 0.3 * F.cross_entropy(second, y)


def inverted(act, stages, squeeze):
    """stages: (kernel, stride) of each."""
    def run(n, x):
        x = n.unit(x, "", 1, 2, act=act)
        for stage, (kernel, first) in enumerate(stages, 1):
            block = 1
            while n.has(f"stage{stage}_{block}"):
                scope = f"stage{stage}_{block}."
                stride = first if block == 1 else 1
                inner = scope + "body." if n.has(scope + "body") else scope
                y = n.unit(x, inner, 1, act=act) if n.has(inner + "conv1") else x
                y = n.unit(y, inner, 2, stride, y.shape[1], act=act)
                assert n.p[inner + "conv2.weight"].shape[2] == kernel
                if squeeze:
                    whole = y.mean((2, 3), keepdim=True)
                    whole = n.conv(F.silu(n.conv(whole, inner + "squeeze.squeeze")), inner + "squeeze.excite")
                    y = y * torch.sigmoid(whole)
                y = n.unit(y, inner, 3, act=None)
                x = x + y if stride == 1 and x.shape == y.shape else y
                block += 1
        x = n.unit(x, "", "_head", act=act)
        return n.fc(x.mean((2, 3)), "fc")
    return run


def unet(n, x):
    def two(x, scope):
        return n.unit(n.unit(x, scope + ".", 1), scope + ".", 2)
    levels = []
    depth = n.options["depth"]
    for level in range(depth + 1):
        levels.append(two(F.max_pool2d(levels[-1], 2) if levels else x, f"down{level}"))
    x = levels[-1]
    for level in reversed(range(depth)):
        x = two(torch.cat([levels[level], n.up(x, f"up{level}")], 1), f"mix{level}")
    return n.conv(x, "head")


def local_image(n, x):
    for stage in range(1, n.options["stages"] + 1):
        k = n.options["kernel"]
        weight, bias = n.p[f"local{stage}.weight"], n.p[f"local{stage}.bias"]
        columns = F.unfold(x, k)
        y = torch.einsum("poi,nip->nop", weight, columns)
        side = x.shape[2] - k + 1
        y = y.reshape(x.shape[0], -1, side, side) + bias
        pooled = torch.sqrt(F.avg_pool2d(y**2, n.options["pool"], 1) * n.options["pool"]**2)
        x = contrast(pooled)
    return n.fc(x.flatten(1), "fc")


def contrast(x, size=9, sigma=2.0, eps=1e-5):
    """Jarrett et al.: subtract and divide by Gaussian means over all channels, weights inside the image sum to 1."""
    at = torch.arange(size, dtype=x.dtype) - size // 2
    line = torch.exp(-at**2 / (2 * sigma**2))
    window = (line[:, None] * line[None, :])[None, None]

    def mean(v):
        pad = size // 2
        total = F.conv2d(v.mean(1, keepdim=True), window, padding=pad)
        weight = F.conv2d(torch.ones_like(v[:, :1]), window, padding=pad)
        return total / weight

    v = x - mean(x)
    s = torch.sqrt(mean(v**2) + eps)
    return v / torch.maximum(s, s.mean((1, 2, 3), keepdim=True))


def autoencoder(linear_code):
    def run(n, x):
        layers = len(n.p) // 4
        for i in range(1, layers + 1):
            x = n.fc(x, f"encode{i}")
            x = x if linear_code and i == layers else torch.sigmoid(x)
        for i in range(layers, 0, -1):
            x = torch.sigmoid(n.fc(x, f"decode{i}"))
        return x
    return run


def conv_autoencoder(n, x):
    x = F.relu(n.conv(x, "encode1", 2, 1))
    x = F.relu(n.conv(x, "encode2", 2, 1))
    shape = x.shape
    x = F.relu(n.fc(n.fc(x.flatten(1), "code"), "spread")).reshape(shape)
    return torch.sigmoid(n.up(F.relu(n.up(x, "decode2")), "decode1"))


def vae(n, x):
    mean = n.fc(F.relu(n.fc(x, "encode")), "mean")
    return torch.sigmoid(n.fc(F.relu(n.fc(mean, "decode.fc1")), "decode.fc2"))


def recurrent(n, x, kind, scope, bidirectional=False, lengths=None, state=None):
    """A stack of recurrent layers over [t, n, in] from parameters named as PyTorch's, shortened."""
    width, hidden = x.shape[2], n.p[scope + ".w_hh"].shape[1]
    layers = sum(1 for key in n.p if key.startswith(scope + ".w_hh") and "reverse" not in key)
    module = getattr(torch.nn, kind.upper())(width, hidden, layers, bidirectional=bidirectional).double()
    for key, ours in (("weight_ih", "w_ih"), ("weight_hh", "w_hh"), ("bias_ih", "b_ih"), ("bias_hh", "b_hh")):
        for layer in range(layers):
            for back in ("", "_reverse") if bidirectional else ("",):
                name = f"{scope}.{ours}" + (f"_l{layer}{back}" if layer or back else "")
                getattr(module, f"{key}_l{layer}{back}").data = n.p[name]
    if lengths is None:
        return module(x, state)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    y, state = module(packed)
    return torch.nn.utils.rnn.pad_packed_sequence(y, total_length=x.shape[0])[0], state


def classifier(kind):
    def run(n, ids):
        y, _ = recurrent(n, F.embedding(ids.T, n.p["embed.weight"]), kind, kind)
        return n.fc(y.mean(0), "fc")
    return run


def language_model(kind):
    def run(n, ids):
        y, _ = recurrent(n, F.embedding(ids.T, n.p["embed.weight"]), kind, kind)
        return n.fc(y.transpose(0, 1), "head")
    return run


def attention(n, x, scope, heads, causal=False, mask=None):
    batch, tokens, width = x.shape
    q, k, v = (part.reshape(batch, tokens, heads, -1).transpose(1, 2) for part in n.fc(x, scope + ".qkv").chunk(3, 2))
    scores = q @ k.transpose(2, 3) / math.sqrt(width / heads)
    if causal:
        scores = scores + torch.full((tokens, tokens), -math.inf).triu(1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    y = (scores.softmax(3) @ v).transpose(1, 2).reshape(batch, tokens, width)
    return n.fc(y, scope + ".out")


def gpt(n, ids):
    x = F.embedding(ids, n.p["embed.token.weight"]) + n.p["embed.place"][:ids.shape[1]]
    for i in range(1, n.options["depth"] + 1):
        a, t = f"block{i}.attend.body", f"block{i}.think.body"
        x = x + attention(n, n.ln(x, a + ".norm"), a + ".attention", n.options["heads"], causal=True)
        x = x + n.fc(F.gelu(n.fc(n.ln(x, t + ".norm"), t + ".fc1")), t + ".fc2")
    x = n.ln(x, "norm")
    return F.linear(x, n.p["embed.token.weight"]) if n.options["tied"] else n.fc(x, "head")


def transformer(n, ids):
    there = ids != n.options["padding"]
    x = F.embedding(ids, n.p["embed.weight"]) + n.p["places.weight"][:ids.shape[1]]
    for i in range(n.options["depth"]):
        s = f"encoder.layer{i + 1}"
        x = x + attention(n, n.ln(x, s + ".norm1"), s + ".attention", n.options["heads"], mask=there[:, None, None])
        x = x + n.fc(F.gelu(n.fc(n.ln(x, s + ".norm2"), s + ".think.fc1")), s + ".think.fc2")
    x = n.ln(x, "encoder.norm")
    there = there[:, :, None].to(x.dtype)
    return n.fc((x * there).sum(1) / there.sum(1).clamp(min=1), "fc")


def rbm(n, v):
    return torch.sigmoid(F.linear(v, n.p["weight"], n.p["bias"]))


def seq2seq_parts(n, source):
    lengths = (source != 0).sum(1)
    x = F.embedding(source, n.p["source.weight"]).transpose(0, 1)
    # ours stops after as many steps as there are tokens, wherever those stand
    y, (h, c) = recurrent(n, x, "lstm", "encoder", True, lengths)
    both = [torch.tanh(n.fc(s.transpose(0, 1).flatten(1), name)) for s, name in ((h, "begin_h"), (c, "begin_c"))]
    return y.transpose(0, 1), source != 0, both


def seq2seq_logits(n, source, previous):
    memory, there, (h, c) = seq2seq_parts(n, source)
    x = F.embedding(previous, n.p["target.weight"]).transpose(0, 1)
    y, _ = recurrent(n, x, "lstm", "decoder", state=(h[None], c[None]))
    y = y.transpose(0, 1)
    scores = n.fc(y, "look") @ memory.transpose(1, 2)
    seen = scores.masked_fill(~there[:, None], -math.inf).softmax(2) @ memory
    return n.fc(torch.tanh(n.fc(torch.cat([seen, y], 2), "mix")), "head")


def seq2seq(n, source):
    """Greedy decoding."""
    previous = torch.ones(len(source), 1, dtype=torch.int64)
    for _ in range(n.options["target_tokens"]):
        best = seq2seq_logits(n, source, previous)[:, -1].argmax(1)
        last = previous[:, -1]
        previous = torch.cat([previous, torch.where((last == 2) | (last == 0), 0, best)[:, None]], 1)
    return previous[:, 1:]


def seq2seq_loss(n, source, target):
    previous = torch.cat([torch.ones(len(source), 1, dtype=torch.int64), target[:, :-1]], 1)
    return F.cross_entropy(seq2seq_logits(n, source, previous).flatten(0, 1), target.flatten(), ignore_index=0)


def label_loss(output, y):
    return F.cross_entropy(output if output.dim() == 2 or y.dim() == 3 else output.flatten(0, 1),
                           y if output.dim() == 2 or y.dim() == 3 else y.flatten())


RELU6 = lambda x: x.clamp(0, 6)
DEPTHS = {"11": (1, 1, 2, 2, 2), "13": (2, 2, 2, 2, 2), "16": (2, 2, 3, 3, 3), "19": (2, 2, 4, 4, 4)}
MOBILE = [(3, 1), (3, 2), (3, 2), (3, 2), (3, 1), (3, 2), (3, 1)]
EFFICIENT = [(3, 1), (3, 2), (5, 2), (3, 2), (5, 1), (5, 2), (3, 1)]
NETS = {
    "lenet": lenet, "mlp": dense(F.relu), "sae_small": dense(torch.sigmoid), "sae_big": dense(torch.sigmoid),
    "dbn": dense(torch.sigmoid), "speech": dense(torch.sigmoid), "alexnet": alexnet, "alexnet_owt": alexnet,
    "resnet18": resnet(False), "resnet34": resnet(False), "resnet50": resnet(True), "resnet101": resnet(True),
    "resnet152": resnet(True), "resnet_small": resnet_small, "googlenet": lambda n, x: googlenet_heads(n, x)[0],
    "mobilenet_v2": inverted(RELU6, MOBILE, False), "efficientnet_b0": inverted(F.silu, EFFICIENT, True), "unet": unet,
    "local_image": local_image, "stacked_autoencoder": autoencoder(True), "denoising_autoencoder": autoencoder(False),
    "conv_autoencoder": conv_autoencoder, "vae": vae, "rbm": rbm, "lstm": classifier("lstm"), "gru": classifier("gru"),
    "lstm_lm": language_model("lstm"), "gru_lm": language_model("gru"), "gpt": gpt, "gpt2": gpt, "transformer": transformer,
    "seq2seq": seq2seq,
    **{f"vgg{k}{'_bn' if norm else ''}": vgg(d, norm) for k, d in DEPTHS.items() for norm in (False, True)},
}
LOSSES = {"googlenet": googlenet_loss, "seq2seq": seq2seq_loss}
RANDOM = {"vae", "rbm"}  # their losses draw numbers; they have oracles of their own


def main():
    dump = json.loads(pathlib.Path(sys.argv[1]).read_text())
    golden = {}
    for name, entry in sorted(dump.items()):
        n = Net(entry)
        fields = [field(i, f) for i, f in enumerate(entry["fields"])]
        output = NETS[name](n, fields[0])
        flat = output.flatten().double()
        stride = max(1, math.ceil(len(flat) / MOST))
        golden[name] = {"shape": list(output.shape), "stride": stride, "norm": flat.norm().item(),
                        "values": flat[::stride].tolist()}
        if name in LOSSES:
            golden[name]["loss"] = LOSSES[name](n, *fields).item()
        elif name not in RANDOM:
            target = fields[1] if len(fields) > 1 else None
            loss = F.mse_loss(output, fields[0]) if target is None else label_loss(output, target)
            golden[name]["loss"] = loss.item()
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in golden.items()]
    (HERE / "nets.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
