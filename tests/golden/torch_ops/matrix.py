"""What the matrix ops mean, said with PyTorch."""
import torch
import torch.nn.functional as F


def _matmul(x, a):
    left = x[0].transpose(-1, -2) if a["trans_a"] else x[0]
    right = x[1].transpose(-1, -2) if a["trans_b"] else x[1]
    return left @ right


def _activate(name, x):
    return {"": lambda v: v, "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[name](x)


def _matmul_act(x, a):
    y = x[2]
    slope = {"": torch.ones_like(y), "relu": (y > 0).to(y.dtype), "tanh": 1 - y * y, "sigmoid": y * (1 - y)}
    return [_matmul(x, a) * slope[a["activation"]]]


def _einsum(x, a):
    equation = a["equation"]
    if equation == "i->ii":  # a letter twice in the result is ours alone
        return [torch.diag(x[0])]
    return [torch.einsum(equation, *x)]


OPS = {
    "matmul": lambda x, a: [_matmul(x, a)],
    "linear": lambda x, a: [_activate(a["activation"], F.linear(x[0], x[1], x[2] if len(x) > 2 else None))],
    "matmul_act": _matmul_act,
    "dot": lambda x, a: [torch.linalg.vecdot(x[0], x[1])],
    "outer": lambda x, a: [torch.outer(x[0], x[1])],
    "einsum": _einsum,
}
