"""The networks as functions of their weights, written once over a small set of layers that JAX and TensorFlow supply.

`t` (a Tape below, with the layers of one peer) hands out weights and buffers in the order in which ours declares them.
Images are NHWC; `exported` turns convolution weights into HWIO once.
"""


class Tape:
    """Weights and buffers in order of declaration; `moved` collects the new values of the buffers."""

    def __init__(self, weights: list, buffers: list, training: bool):
        self.weights, self.buffers = iter(weights), iter(buffers)
        self.training, self.moved = training, []

    def weight(self):
        return next(self.weights)


def dense_net(activation: str):
    def net(t, x, layers: int):
        for i in range(layers):
            x = t.dense(x)
            if i + 1 < layers:
                x = getattr(t, activation)(x)
        return x
    return net


def mlp(t, x):
    return dense_net("relu")(t, x, 3)


def sae_small(t, x):
    return dense_net("sigmoid")(t, x, 4)


sae_big = sae_small


def lenet(t, x):
    for _ in range(2):
        x = t.tanh(t.max_pool(t.conv(x), 2, 2))
    return t.dense(t.relu(t.dense(t.flatten(x))))


def alexnet(t, x):
    x = t.max_pool(t.relu(t.conv(x, stride=4, padding=2)), 3, 2)
    x = t.max_pool(t.relu(t.conv(x, padding=2)), 3, 2)
    for _ in range(3):
        x = t.relu(t.conv(x, padding=1))
    x = t.flatten(t.max_pool(x, 3, 2))
    return t.dense(t.relu(t.dense(t.relu(t.dense(x)))))


alexnet_owt = alexnet


def convolved(t, x, kernel: int, stride: int = 1):
    return t.batch_norm(t.conv(x, stride=stride, padding=kernel // 2, bias=False))


def block(t, x, bottleneck: bool, stride: int, changes: bool):
    if bottleneck:
        y = convolved(t, t.relu(convolved(t, x, 1)), 3, stride)
        y = convolved(t, t.relu(y), 1)
    else:
        y = convolved(t, t.relu(convolved(t, x, 3, stride)), 3)
    return t.relu(y + (convolved(t, x, 1, stride) if changes else x))


def resnet(depths: list, bottleneck: bool):
    def net(t, x):
        x = t.max_pool(t.relu(convolved(t, x, 7, 2)), 3, 2, 1)
        for stage, depth in enumerate(depths):
            for i in range(depth):
                stride = 2 if i == 0 and stage > 0 else 1
                x = block(t, x, bottleneck, stride, stride > 1 or (bottleneck and i == 0))
        return t.dense(t.mean(x, (1, 2)))
    return net


def lstm(t, ids):
    """Ids [n, t]; the recurrence walks over [t, n, …]."""
    return t.dense(t.mean(t.lstm(t.embedding(t.transpose(ids, (1, 0)))), (0,)))


def attention(t, x, heads: int):
    n, tokens, width = x.shape
    q, k, v = (t.reshape(part, (n, tokens, heads, width // heads)) for part in t.split(t.dense(x), 3))
    return t.dense(t.reshape(t.causal_attention(q, k, v), (n, tokens, width)))


def gpt(t, ids):
    place = t.weight()
    x = t.embedding(ids) + place
    for _ in range(6):
        x = x + attention(t, t.layer_norm(x), 6)
        x = x + t.dense(t.gelu(t.dense(t.layer_norm(x))))
    return t.dense(t.layer_norm(x), bias=False)


NETS = {"mlp": mlp, "sae_small": sae_small, "sae_big": sae_big, "lenet": lenet, "alexnet": alexnet,
        "alexnet_owt": alexnet_owt, "lstm": lstm, "gpt": gpt, "resnet18": resnet([2, 2, 2, 2], False),
        "resnet34": resnet([3, 4, 6, 3], False), "resnet50": resnet([3, 4, 6, 3], True)}


def exported(file: str):
    """Weights, buffers and batch of an exported file as NumPy arrays, images and filters with channels last."""
    from safetensors import safe_open
    with safe_open(file, framework="np") as f:
        tensors = {name: f.get_tensor(name) for name in f.keys()}
        lists = [f.metadata().get(key, "").split(",") for key in ("order", "buffers")]
    order, buffers = ([name for name in names if name] for names in lists)
    x = tensors["input.x"]
    x = x.transpose(0, 2, 3, 1) if x.ndim == 4 else x
    weights = [tensors[name].transpose(2, 3, 1, 0) if tensors[name].ndim == 4 else tensors[name] for name in order]
    return weights, [tensors[name] for name in buffers], x, tensors["input.y"]
