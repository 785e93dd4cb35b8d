"""Updates of variables, and ops that only graphs have."""

import torch


def sgd(w, v, g, lr, attrs):
    """torch.optim.SGD's rule with a velocity that was there before."""
    parameter = torch.nn.Parameter(w.clone())
    optimizer = torch.optim.SGD([parameter], lr=float(lr), momentum=attrs["momentum"],
                                weight_decay=attrs["weight_decay"],
                                nesterov=attrs.get("nesterov", False) and attrs["momentum"] > 0)
    optimizer.state[parameter]["momentum_buffer"] = v.clone()
    parameter.grad = g.clone()
    optimizer.step()
    velocity = optimizer.state[parameter]["momentum_buffer"]
    if attrs["momentum"] == 0:  # PyTorch keeps no velocity then
        velocity = g + attrs["weight_decay"] * w
    return parameter.detach(), velocity


def sgd_update(inputs, attrs):
    return list(sgd(*inputs, attrs))


def sgd_update_many(inputs, attrs):
    n = (len(inputs) - 1) // 3
    pairs = [sgd(inputs[i], inputs[n + i], inputs[2 * n + i], inputs[-1], attrs) for i in range(n)]
    return [w for w, _ in pairs] + [v for _, v in pairs]


def matmul_sgd(inputs, attrs):
    w, v, a, b, lr = inputs
    g = (a.T if attrs["trans_a"] else a) @ (b.T if attrs["trans_b"] else b)
    return list(sgd(w, v, g, lr, attrs))


OPS = {
    "sgd_update": sgd_update,
    "sgd_update_many": sgd_update_many,
    "matmul_sgd": matmul_sgd,
    "identity": lambda inputs, attrs: [inputs[0]],
    "fused": "a program of other ops, each of which has values of its own; tests hold it against them",
}
