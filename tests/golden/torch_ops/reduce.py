"""Reductions and scans as PyTorch says them: OPS[name](inputs, attrs) gives the list of results."""

import math

import torch


def axes_of(x, attrs):
    axes = list(attrs.get("axes", []))
    return axes if axes else list(range(x.dim()))


def over(function):
    """A function of (x, dim, keepdim) that takes several axes at once."""

    def call(inputs, attrs):
        x = inputs[0]
        axes = axes_of(x, attrs)
        if not axes:  # a scalar: reduced as its own only element
            return [function(x.reshape(1), [0], False)]
        return [function(x, axes, attrs.get("keepdim", False))]

    return call


def one_by_one(function):
    """A function of (x, dim, keepdim) that takes one axis at a time."""

    def several(x, axes, keepdim):
        for axis in sorted((a % x.dim() for a in axes), reverse=True):
            x = function(x, axis, keepdim)
        return x

    return over(several)


def mean(x, axes, keepdim):
    return x.mean(dim=axes, keepdim=keepdim)


def variance(function):
    def call(inputs, attrs):
        wrapped = over(lambda x, axes, keepdim: function(x, axes, correction=attrs["correction"], keepdim=keepdim))
        return wrapped(inputs, attrs)

    return call


def norm(inputs, attrs):
    def along(x, axes, keepdim):
        if x.numel() == 0:
            return x.abs().sum(dim=axes, keepdim=keepdim)
        return torch.linalg.vector_norm(x, ord=attrs["p"], dim=axes, keepdim=keepdim)

    return over(along)(inputs, attrs)


def arg(function):
    def call(inputs, attrs):
        x, axes, keepdim = inputs[0], list(attrs.get("axes", [])), attrs.get("keepdim", False)
        if axes:
            return [function(x, dim=axes[0], keepdim=keepdim)]
        flat = function(x.reshape(-1), dim=0)
        return [flat.reshape([1] * x.dim()) if keepdim else flat]

    return call


def scan(function, start):
    def call(inputs, attrs):
        x, axis = inputs[0], attrs["axis"]
        if attrs["reverse"]:
            x = x.flip(axis)
        y = function(x, axis)
        if attrs["exclusive"] and x.shape[axis] > 0:
            first = torch.full_like(y.narrow(axis, 0, 1), start)
            y = torch.cat([first, y.narrow(axis, 0, x.shape[axis] - 1)], axis)
        return [y.flip(axis) if attrs["reverse"] else y]

    return call


def linear_recurrence(inputs, attrs):
    a, b = (t.flip(attrs["axis"]) if attrs["reverse"] else t for t in inputs)
    rows, state = [], torch.zeros_like(b.select(attrs["axis"], 0)) if b.shape[attrs["axis"]] else None
    for at, bt in zip(a.unbind(attrs["axis"]), b.unbind(attrs["axis"])):
        state = at * state + bt
        rows.append(state)
    y = torch.stack(rows, attrs["axis"]) if rows else torch.empty_like(b)
    return [y.flip(attrs["axis"]) if attrs["reverse"] else y]


def extreme_backward(largest):
    """The first x, in row-major order, that reaches y; y is given freely by the cases, so autograd does not apply."""

    def call(inputs, attrs):
        dy, x, y = inputs
        axes = sorted(a % x.dim() for a in axes_of(x, attrs)) if x.dim() else []
        shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
        reaches = (x >= y.reshape(shape)) if largest else (x <= y.reshape(shape))
        kept = [d for d in range(x.dim()) if d not in axes]
        order = kept + axes
        rows = reaches.permute(order).reshape([x.shape[d] for d in kept] + [math.prod(x.shape[d] for d in axes)])
        first = (rows.cumsum(-1) == 1) & rows
        first = first.reshape([x.shape[d] for d in order])
        back = [order.index(d) for d in range(x.dim())]
        return [torch.where(first.permute(back), dy.reshape(shape), torch.zeros((), dtype=dy.dtype))]

    return call


OPS = {
    "sum": over(lambda x, axes, keepdim: x.sum(dim=axes, keepdim=keepdim)),
    "mean": over(mean),
    "prod": one_by_one(lambda x, axis, keepdim: x.prod(dim=axis, keepdim=keepdim)),
    "max": over(lambda x, axes, keepdim: x.amax(dim=axes, keepdim=keepdim)),
    "min": over(lambda x, axes, keepdim: x.amin(dim=axes, keepdim=keepdim)),
    "any": over(lambda x, axes, keepdim: torch.any(x, dim=axes, keepdim=keepdim)),
    "all": over(lambda x, axes, keepdim: torch.all(x, dim=axes, keepdim=keepdim)),
    "logsumexp": over(lambda x, axes, keepdim: torch.logsumexp(x, dim=axes, keepdim=keepdim)),
    "norm": norm,
    "var": variance(torch.var),
    "std": variance(torch.std),
    "argmax": arg(torch.argmax),
    "argmin": arg(torch.argmin),
    "max_backward": extreme_backward(True),
    "min_backward": extreme_backward(False),
    "cumsum": scan(torch.cumsum, 0),
    "cumprod": scan(torch.cumprod, 1),
    "linear_recurrence": linear_recurrence,
}
