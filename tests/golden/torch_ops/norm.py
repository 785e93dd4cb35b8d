"""Normalisation as PyTorch says it. Backward ops get free statistics, so they are written out."""

import torch
import torch.nn.functional as F


def stretch(channels, x):
    return channels.reshape([1, -1] + [1] * (x.dim() - 2))


def affine(inputs, first):
    weight = inputs[first] if len(inputs) > first else None
    bias = inputs[first + 1] if len(inputs) > first + 1 else None
    return weight, bias


def batch_norm_train(inputs, attrs):
    x = inputs[0]
    weight, bias = affine(inputs, 1)
    dims = [0] + list(range(2, x.dim()))
    if x.numel() == 0:
        empty = torch.zeros(x.shape[1], dtype=x.dtype)
        return [x.clone(), empty, empty]
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=attrs["eps"])
    return [y, x.mean(dims), x.var(dims, correction=0)]


def unbiased_variance(inputs, attrs):
    x, var = inputs
    count = x.numel() // x.shape[1] if x.shape[1] else 0
    return [var * count / (count - 1) if count > 1 else var.clone()]


def batch_norm_infer(inputs, attrs):
    x, mean, var = inputs[:3]
    weight, bias = affine(inputs, 3)
    return [F.batch_norm(x, mean, var, weight, bias, training=False, eps=attrs["eps"])]


def layer_norm(inputs, attrs):
    x = inputs[0]
    weight, bias = affine(inputs, 1)
    shape = list(x.shape[x.dim() - attrs["dims"] :])
    dims = list(range(x.dim() - attrs["dims"], x.dim()))
    y = F.layer_norm(x, shape, weight, bias, attrs["eps"])
    return [y, x.mean(dims), x.var(dims, correction=0)]


def rms_norm(inputs, attrs):
    x = inputs[0]
    dims = list(range(x.dim() - attrs["dims"], x.dim()))
    square = (x * x).mean(dims)
    y = x * torch.rsqrt((x * x).mean(dims, keepdim=True) + attrs["eps"])
    return [y * inputs[1] if len(inputs) > 1 else y, square]


def group_norm(inputs, attrs, groups=None):
    x = inputs[0]
    groups = groups or attrs["groups"]
    weight, bias = affine(inputs, 1)
    rows = x.reshape(x.shape[0], groups, x[0, :, ...].numel() // groups if x.shape[0] else 1)
    y = F.group_norm(x, groups, weight, bias, attrs["eps"]) if x.shape[0] else x.clone()
    return [y, rows.mean(2), rows.var(2, correction=0)]


def instance_norm(inputs, attrs):
    return group_norm(inputs, attrs, groups=inputs[0].shape[1])


def backward(view):
    """dx = r (g - avg g - h avg(g h)); view gives x's shape, those of statistics and weight, and the shared axes."""

    def call(inputs, attrs):
        dy, x = inputs[:2]
        v = view(x, attrs)
        centred = v.get("centred", True)
        var = inputs[3 if centred else 2]
        weight = inputs[4 if centred else 3] if len(inputs) > (4 if centred else 3) else None
        r = torch.rsqrt(var + attrs["eps"]).reshape(v["stats"])
        g = dy.reshape(v["x"])
        apart = x.reshape(v["x"])
        if centred:
            apart = apart - inputs[2].reshape(v["stats"])
        h = apart * r
        dweight = (g * h).sum(v["shared_weight"])
        dbias = g.sum(v["shared_weight"])
        if weight is not None:
            g = g * weight.reshape(v["weight"])
        less = h * (g * h).mean(v["shared_stats"], keepdim=True)
        if centred:
            less = less + g.mean(v["shared_stats"], keepdim=True)
        empty = torch.zeros(0, dtype=x.dtype)
        sums = [dweight, dbias] if centred else [dweight]
        sums = [s.reshape(weight.shape) if weight is not None else empty for s in sums]
        return [(r * (g - less)).reshape(x.shape)] + sums

    return call


def batch_view(x, attrs):
    c = x.shape[1]
    inside = x[0, 0].numel() if x.shape[0] and c else 1
    return {
        "x": [x.shape[0], c, inside if x.numel() else x.numel() // max(x.shape[0], 1)],
        "stats": [1, c, 1],
        "weight": [1, c, 1],
        "shared_stats": [0, 2],
        "shared_weight": [0, 2],
    }


def row_view(centred):
    def view(x, attrs):
        inside = 1
        for size in x.shape[x.dim() - attrs["dims"] :]:
            inside *= size
        rows = x.numel() // inside
        return {
            "x": [rows, inside],
            "stats": [rows, 1],
            "weight": [1, inside],
            "shared_stats": [1],
            "shared_weight": [0],
            "centred": centred,
        }

    return view


def group_view(x, attrs):
    groups = attrs.get("groups", x.shape[1])
    inside = 1
    for size in x.shape[2:]:
        inside *= size
    each = x.shape[1] // groups
    return {
        "x": [x.shape[0], groups, each, inside],
        "stats": [x.shape[0], groups, 1, 1],
        "weight": [1, groups, each, 1],
        "shared_stats": [2, 3],
        "shared_weight": [0, 3],
    }


def batch_norm_infer_backward(inputs, attrs):
    dy, x, mean, var = inputs[:4]
    dims = [0] + list(range(2, x.dim()))
    r = stretch(torch.rsqrt(var + attrs["eps"]), x)
    dx = dy * r * (stretch(inputs[4], x) if len(inputs) > 4 else 1)
    return [dx, dy.sum(dims), (dy * (x - stretch(mean, x)) * r).sum(dims)]


def channel_squares(inputs, attrs):
    x, mean = inputs
    dims = [0] + list(range(2, x.dim()))
    return [((x - stretch(mean, x)) ** 2).sum(dims)]


OPS = {
    "batch_norm_train": batch_norm_train,
    "batch_norm_train_backward": backward(batch_view),
    "batch_norm_infer": batch_norm_infer,
    "unbiased_variance": unbiased_variance,
    "batch_norm_infer_backward": batch_norm_infer_backward,
    "channel_squares": channel_squares,
    "layer_norm": layer_norm,
    "layer_norm_backward": backward(row_view(True)),
    "rms_norm": rms_norm,
    "rms_norm_backward": backward(row_view(False)),
    "group_norm": group_norm,
    "group_norm_backward": backward(group_view),
    "instance_norm": instance_norm,
    "instance_norm_backward": backward(group_view),
}
